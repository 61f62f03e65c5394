// SPDX-License-Identifier: Apache-2.0
#include "store/read/reader_factories.hpp"

#include <fmt/format.h>

#include <cstring>
#include <string_view>
#include <utility>

#include "h5feed/error.hpp"
#include "h5feed/log.hpp"
#include "store/read/chunk_errors.hpp"
#include "store/read/external_source.hpp"
#include "store/read/file_pool.hpp"
#include "store/read/written_rows.hpp"

namespace h5feed {
namespace {

// A source of bytes in memory: compact data is part of the metadata and is read once.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(ByteBuffer bytes) : bytes_(std::move(bytes)) {}

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
  }
  std::uint64_t size() const noexcept override { return bytes_.size(); }

 private:
  ByteBuffer bytes_;
};

// Returns "filter 32026 blosc2 is not built in" for the first filter that a stored chunk needs and h5feed
// lacks. Throws DatasetError if libhdf5 lacks it too, or if its parameters are damaged: libhdf5 would read
// out of bounds.
std::string missing_filter(const H5File& file, const DatasetInfo& info, const ChunkIndex* index) {
  std::uint32_t used = index == nullptr ? ~std::uint32_t{0} : 0;
  if (index != nullptr) {
    for (const ChunkLocation& location : index->locations) {
      if (location.allocated()) used |= ~location.filter_mask;
    }
  }
  for (std::size_t i = 0; i < info.filters.size() && i < 32; ++i) {
    const FilterSpec& filter = info.filters[i];
    if ((used >> i & 1U) == 0) continue;
    if (const std::string damage = contradiction(filter, info); !damage.empty()) {
      throw DatasetError(fmt::format("{}:{}: filter {} ({}) {}; restore the file from a good copy", info.file,
                                     short_path(info.path), filter.id, filter.name, damage));
    }
    if (FilterPipeline::supports(filter)) continue;
    const std::string reason = unsupported_reason(filter);
    if (!file.has_filter(filter.id)) {
      throw DatasetError(
          fmt::format("{}:{}: filter {} ({}) {} and libhdf5 finds no plugin for it; install the "
                      "plugin and set HDF5_PLUGIN_PATH, or write the dataset once with gzip",
                      info.file, short_path(info.path), filter.id,
                      filter.name.empty() ? "unknown" : filter.name, reason));
    }
    return fmt::format("filter {}{}{} {}", filter.id, filter.name.empty() ? "" : " ", filter.name, reason);
  }
  return {};
}

std::shared_ptr<const ChunkReader> open_chunked(std::shared_ptr<H5File> file, DatasetInfo info,
                                                std::shared_ptr<const ByteSource> source,
                                                const ReaderSettings& settings) {
  std::optional<ChunkIndex> index;
  std::string reason;
  try {
    if (file->swmr_writer()) {
      WrittenRows written = written_rows(*file, info, source);
      index = std::move(written.index);
      source = std::move(written.source);
    } else {
      index = build_chunk_index(*file, info);
    }
  } catch (const DamagedChunkIndex&) {
    throw;  // libhdf5 would return fill values for chunks that it does not find
  } catch (const IsolationError&) {
    throw;
  } catch (const FileError& error) {
    reason = without_place(error.what(), info);
  }
  if (const std::string missing = missing_filter(*file, info, index ? &*index : nullptr); !missing.empty()) {
    reason = missing;
  }
  if (!reason.empty() && file->swmr_writer()) {
    throw FileError(
        fmt::format("{}:{}: libhdf5 would have to read it ({}), and may read what a SWMR writer is "
                    "still writing; read it once the writer has closed it",
                    info.file, short_path(info.path), reason));
  }
  if (!reason.empty()) return open_fallback(std::move(file), std::move(info), reason, settings);
  // With a SWMR writer they do not move, or `written_rows` has kept them.
  auto last = file->swmr_writer() ? nullptr : LastChunks::watch(*file, info, *index);
  return make_direct_reader(std::move(info), std::move(*index), std::move(source), std::move(last));
}

// Checks the size of compact data: libhdf5 1.10 reads beyond the object header, or into the next object.
void check_stored_bytes(const DatasetInfo& info) {
  if (info.total_bytes() <= info.stored_bytes) return;
  throw FileError(fmt::format(
      "{}:{}: {} bytes are stored, the shape {} needs {}; restore the file from a good copy", info.file,
      short_path(info.path), info.stored_bytes, info.shape_text(), info.total_bytes()));
}

std::shared_ptr<const ChunkReader> open_contiguous(std::shared_ptr<H5File> file, DatasetInfo info,
                                                   std::shared_ptr<const ByteSource> source,
                                                   const ReaderSettings& settings) {
  const std::optional<std::uint64_t> begin = file->contiguous_offset(info);
  const std::uint64_t file_bytes = file->size();
  if (begin) check_stored_bytes(info);
  // Nothing was written yet.
  if (!begin && file->swmr_writer() && !info.shape.empty()) info.shape.front() = 0;
  if (begin && (*begin > file_bytes || info.total_bytes() > file_bytes - *begin)) {
    return open_fallback(std::move(file), std::move(info), "its bytes are outside the file", settings);
  }
  return make_flat_reader(std::move(info), begin, std::move(source));
}

std::shared_ptr<const ChunkReader> open_compact(const H5File& file, DatasetInfo info) {
  check_stored_bytes(info);
  ByteBuffer bytes(info.total_bytes());
  DatasetInfo stored = info;
  stored.bits = {};  // The reader takes the bits of each value
  file.read_rows(stored, 0, info.rows(), bytes.span());
  info.byte_swapped = false;  // H5Dread returned host byte order
  return make_flat_reader(std::move(info), 0, std::make_shared<MemorySource>(std::move(bytes)));
}

std::shared_ptr<const ChunkReader> open_of_other_files(const std::shared_ptr<H5File>& file, DatasetInfo info,
                                                       ReaderSettings settings) {
  if (!settings.pool) settings.pool = std::make_shared<FilePool>(FilePlaces(), file->isolation());
  if (info.layout == StorageLayout::virtual_dataset) return open_virtual(file, info, settings);
  auto source = open_external_source(*file, info, *settings.pool);
  return make_flat_reader(std::move(info), 0, std::move(source));
}

std::shared_ptr<const ChunkReader> open_layout(std::shared_ptr<H5File> file, DatasetInfo info,
                                               std::shared_ptr<const ByteSource> source,
                                               const ReaderSettings& settings) {
  switch (info.layout) {
    case StorageLayout::chunked:
      return open_chunked(std::move(file), std::move(info), std::move(source), settings);
    case StorageLayout::contiguous:
      return open_contiguous(std::move(file), std::move(info), std::move(source), settings);
    case StorageLayout::compact:
      return open_compact(*file, std::move(info));
    case StorageLayout::external:
    case StorageLayout::virtual_dataset:
      break;
  }
  return open_of_other_files(file, std::move(info), settings);
}

}  // namespace

std::shared_ptr<const ChunkReader> open_chunk_reader(std::shared_ptr<H5File> file, DatasetInfo info,
                                                     std::shared_ptr<const ByteSource> source,
                                                     const ReaderSettings& settings) {
  auto reader = open_layout(file, std::move(info), source == nullptr ? file->bytes() : source, settings);
  // Everything read from the file since it was opened must be of one state of it.
  file->check_unchanged();
  return reader;
}

std::shared_ptr<const ChunkReader> open_fallback(std::shared_ptr<H5File> file, DatasetInfo info,
                                                 const std::string& reason, const ReaderSettings& settings) {
  if (settings.log_fallback) {
    log(LogLevel::warning, fmt::format("{}:{}: reading through libhdf5's lock, one chunk at a time ({})",
                                       info.file, short_path(info.path), reason));
  }
  if (file->is_copy() && info.layout == StorageLayout::virtual_dataset) {
    log_once(LogLevel::warning, fmt::format("{}:{}: read from the original files, not from stage_dir, as it "
                                            "refers to other files",
                                            info.file, short_path(info.path)));
    file = H5File::open(file->path(), file->path(), file->isolation());
    info = file->describe(info.path);
    if (settings.pool) settings.pool->places().read_in_place(file->path());
  }
  return make_fallback_reader(std::move(info), std::move(file), reason);
}

}  // namespace h5feed
