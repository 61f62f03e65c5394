// SPDX-License-Identifier: Apache-2.0
// Virtual datasets of whole rows, read from their sources.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "h5feed/error.hpp"
#include "store/hdf5/virtual_circle.hpp"
#include "store/hdf5/virtual_sources.hpp"
#include "store/read/file_pool.hpp"
#include "store/read/joined_reader.hpp"
#include "store/read/reader_factories.hpp"

namespace h5feed {
namespace {

[[noreturn]] void rethrow_for_source(const DatasetInfo& info, std::size_t number, unsigned depth) {
  const std::string place =
      fmt::format("{}:{}: source {} of the virtual dataset: ", info.file, short_path(info.path), number);
  try {
    throw;
  } catch (const TooDeepVirtual& error) {
    rethrow_too_deep(error, info, depth);
  } catch (const VirtualCircle&) {
    throw;
  } catch (const IsolationError&) {
    throw;  // The message names the source's file
  } catch (const DatasetError& error) {
    throw DatasetError(place + error.what());
  } catch (const FileError& error) {
    throw FileError(place + error.what());
  }
}

// Returns the file of a source; usually that of the previous source.
class Sources {
 public:
  explicit Sources(std::shared_ptr<H5File> main) : last_(std::move(main)) {}

  const std::shared_ptr<H5File>& open(const VirtualSource& source, FilePool& pool) {
    if (last_->path() != source.file) last_ = pool.open(source.file);
    return last_;
  }

 private:
  std::shared_ptr<H5File> last_;
};

// Copies the sources together, so that a lack of space is found before the first is copied.
void prepare_sources(FilePlaces& places, const VirtualMapping& mapping) {
  std::vector<std::filesystem::path> files;
  files.reserve(mapping.sources.size());
  for (const VirtualSource& source : mapping.sources) {
    if (files.empty() || files.back() != source.file) files.push_back(source.file);
  }
  places.prepare(files);
}

// Returns whether the source has fewer rows than are mapped from it; for a wholly mapped source, whose shape
// may differ from the rows it becomes, fewer elements.
bool too_short(const DatasetInfo& source, const VirtualSource& wanted, const DatasetInfo& whole) {
  if (wanted.one_row || source.shape.empty()) return false;
  if (!wanted.whole)
    return wanted.first_row > source.rows() || wanted.rows > source.rows() - wanted.first_row;
  return source.total_bytes() / size_of(source.dtype) <
         wanted.rows * (whole.row_bytes() / size_of(whole.dtype));
}

// Returns whether rows of the source are rows of the virtual dataset without conversion. Throws DatasetError
// if the source has fewer rows than are mapped from it: libhdf5 would return fill values.
bool fits(const DatasetInfo& source, VirtualSource& wanted, const DatasetInfo& whole) {
  const std::vector<std::uint64_t> inner(whole.shape.begin() + 1, whole.shape.end());
  if (wanted.whole) wanted.one_row = source.shape == inner && wanted.rows == 1;
  if (too_short(source, wanted, whole)) {
    throw DatasetError(
        fmt::format("{}:{} has {} rows, the virtual dataset takes {} from row {} on; complete it",
                    source.file, source.path, source.rows(), wanted.rows, wanted.first_row));
  }
  if (wanted.whole && !wanted.one_row && source.rows() != wanted.rows) return false;
  if (source.dtype != whole.dtype || source.values_per_element != whole.values_per_element) return false;
  if (source.bits != whole.bits) return false;
  if (wanted.one_row) return source.shape == inner;
  return source.shape.size() == whole.shape.size() &&
         std::vector(source.shape.begin() + 1, source.shape.end()) == inner;
}

}  // namespace

std::shared_ptr<const ChunkReader> open_virtual(const std::shared_ptr<H5File>& file, const DatasetInfo& info,
                                                const ReaderSettings& settings) {
  VirtualMapping mapping = read_virtual_mapping(*file, info);
  std::vector<JoinedPart> parts;
  Sources sources(file);
  ReaderSettings inner = settings;
  if (++inner.depth > kMaxVirtualDepth) throw TooDeepVirtual(info);
  // Even if one source does not fit, the others may still be too short.
  const bool rows_follow = mapping.other_reason.empty();
  // libhdf5 reads the sources itself, where they are.
  const auto in_place = std::make_shared<FilePool>(FilePlaces(), file->isolation());
  if (rows_follow) prepare_sources(settings.pool->places(), mapping);
  for (std::size_t i = 0; i < mapping.sources.size(); ++i) {
    VirtualSource& source = mapping.sources[i];
    try {
      const std::shared_ptr<H5File>& opened =
          sources.open(source, mapping.other_reason.empty() ? *settings.pool : *in_place);
      DatasetInfo own = opened->describe(source.path);
      if (rows_follow && !fits(own, source, info))
        mapping.other_reason = "it is a virtual dataset of sources of another type or shape";
      if (!mapping.other_reason.empty()) {
        // It would open the source as it has opened the virtual dataset's file, and return fill values.
        if (opened->swmr_writer() != file->swmr_writer()) {
          throw DatasetError(
              fmt::format("{}:{}: a SWMR writer has the file open, beside which libhdf5 cannot "
                          "read it here; read it once the writer has closed it",
                          own.file, short_path(own.path)));
        }
        // The source exists, which is all that libhdf5 needs; but in a circle of sources it would loop
        // forever.
        inner.log_fallback = false;
        inner.pool = in_place;
        if (own.layout == StorageLayout::virtual_dataset) open_virtual(opened, own, inner);
        continue;
      }
      auto reader = settings.pool->reader(opened, std::move(own), inner);
      const DatasetInfo& written = reader->info();
      if (opened->swmr_writer() && too_short(written, source, info)) {
        throw DatasetError(
            fmt::format("{}:{} has {} complete rows, the virtual dataset takes {} from row {} "
                        "on; open it again when its SWMR writer has completed them",
                        written.file, written.path, written.rows(), source.rows, source.first_row));
      }
      if (source.one_row) reader = as_one_row(std::move(reader));
      parts.push_back({std::move(reader), source.first_row, source.rows});
    } catch (const Error&) {
      rethrow_for_source(info, i, inner.depth);
    }
  }
  if (mapping.other_reason.empty() && !parts.empty())
    return join_readers(std::move(parts), info.file, info.path);
  return open_fallback(
      file, info, mapping.other_reason.empty() ? "it is a virtual dataset" : mapping.other_reason, settings);
}

}  // namespace h5feed
