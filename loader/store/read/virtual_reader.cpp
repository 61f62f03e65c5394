// SPDX-License-Identifier: Apache-2.0
// Virtual datasets, read from their sources.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/interrupt.hpp"
#include "h5feed/error.hpp"
#include "store/hdf5/virtual_circle.hpp"
#include "store/hdf5/virtual_sources.hpp"
#include "store/read/file_pool.hpp"
#include "store/read/joined_reader.hpp"
#include "store/read/reader_factories.hpp"
#include "store/read/virtual_parts.hpp"

namespace h5feed {

/// The datasets that a virtual dataset and those within it take from, by file and path. Each is opened once,
/// although a few may be named along very many paths.
struct OpenedSources {
  struct Opened {
    std::shared_ptr<const ChunkReader> reader;  // Null where libhdf5 is to read it
    bool checked = false;                       // Whether its own sources exist
    unsigned put_together = 0;  // How many virtual datasets within each other are not read row by row
  };
  std::map<std::pair<std::string, std::string>, Opened> by_name;
  unsigned put_together = 0;  // Of the virtual dataset that was opened last
};

namespace {

using Opened = OpenedSources::Opened;

// Each level may decode chunks of the next one again.
constexpr unsigned kMostPutTogether = 2;

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

// Adds the dimension of the values of an element, which the file does not have.
Selection with_values(Selection selection, const DatasetInfo& info) {
  if (info.values_per_element > 1) selection.push_back(SelectedIndices::run_of(0, info.values_per_element));
  return selection;
}

// Returns which elements of the source are selected; if its shape is not stored, all of them.
Selection selected_from(const DatasetInfo& source, const VirtualSource& wanted) {
  if (!wanted.whole) return with_values(wanted.from, source);
  Selection all;
  for (const std::uint64_t extent : source.shape) all.push_back(SelectedIndices::run_of(0, extent));
  return all;
}

// Returns "6 rows, the virtual dataset takes 8 from row 0 on" if the source has fewer elements than are taken
// from it, for which libhdf5 would return fill values; else an empty text.
std::string shortage(const DatasetInfo& source, const VirtualSource& wanted) {
  if (source.file_rank() == 0) return {};
  // Of a source that is taken as a whole, only the elements of the virtual dataset tell its shape.
  const Selection& taken = wanted.whole ? wanted.to : wanted.from;
  std::uint64_t there = 1;
  std::uint64_t needed = 1;
  for (const std::uint64_t extent : source.shape) there *= extent;
  for (const SelectedIndices& indices : with_values(taken, source)) needed *= indices.extent();
  if (wanted.whole && there >= needed) return {};
  for (std::size_t d = 0; d < taken.size() && taken.size() == source.file_rank(); ++d) {
    const std::uint64_t first = wanted.whole ? 0 : taken[d].start;
    const std::uint64_t end = wanted.whole ? taken[d].extent() : taken[d].end();
    if (end <= source.shape[d]) continue;
    const std::string what = d == 0 ? "row" : "element";
    return fmt::format("{} {}s{}, the virtual dataset takes {} from {} {} on", source.shape[d], what,
                       d == 0 ? "" : fmt::format(" in dimension {}", d), end - first, what, first);
  }
  return there >= needed ? "" : fmt::format("{} elements, the virtual dataset takes {}", there, needed);
}

void refuse_short(const DatasetInfo& source, const VirtualSource& wanted) {
  if (const std::string text = shortage(source, wanted); !text.empty())
    throw DatasetError(fmt::format("{}:{} has {}; complete it", source.file, source.path, text));
}

// A file beside its SWMR writer is read as far as its rows are complete.
void refuse_unwritten(const H5File& file, const DatasetInfo& written, const VirtualSource& wanted) {
  if (!file.swmr_writer()) return;
  if (const std::string text = shortage(written, wanted); !text.empty()) {
    throw DatasetError(fmt::format(
        "{}:{} has, as far as it is complete, {}; open it again when its SWMR writer has completed more",
        written.file, written.path, text));
  }
}

// libhdf5 would take the elements from other places.
void refuse_other_rank(const DatasetInfo& source, const VirtualSource& wanted) {
  if (wanted.ends.empty() || wanted.ends.size() == source.file_rank()) return;
  throw DatasetError(fmt::format(
      "{}:{} has {} dimensions, the virtual dataset takes from {}; write it again with sources of "
      "these dimensions",
      source.file, source.path, source.file_rank(), wanted.ends.size()));
}

// libhdf5 would read beyond the source: other bytes of its file, or memory.
void refuse_beyond(const DatasetInfo& source, const VirtualSource& wanted) {
  for (std::size_t d = 0; d < wanted.ends.size(); ++d) {
    if (wanted.ends[d] <= source.shape[d]) continue;
    throw DatasetError(
        fmt::format("{}:{} has {} elements in dimension {}, the virtual dataset takes up to {}; complete it",
                    source.file, source.path, source.shape[d], d, wanted.ends[d]));
  }
}

// libhdf5 opens all sources at once, and takes those that it cannot open for missing ones, of which it
// returns fill values.
void refuse_unreadable_by_libhdf5(const H5File& file, const DatasetInfo& info,
                                  const VirtualMapping& mapping) {
  std::set<std::filesystem::path> files;
  for (const VirtualSource& source : mapping.sources) files.insert(source.file);
  rlimit limit{};
  const bool isolated = file.isolation() != nullptr;
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    const rlim_t most = (isolated ? limit.rlim_max : limit.rlim_cur) / 2;
    if (files.size() > most) {
      throw DatasetError(
          fmt::format("{}:{}: libhdf5 has to read it ({}), and opens its {} source files at once, where the "
                      "limit on open "
                      "files allows for {}; raise it (ulimit -n)",
                      info.file, short_path(info.path), mapping.other_reason, files.size(), most));
    }
  }
}

// libhdf5 would refuse the chunks one by one.
void refuse_missing_filter(const H5File& file, const DatasetInfo& source, const std::string& reason) {
  for (const FilterSpec& filter : source.filters) {
    if (file.has_filter(filter.id)) continue;
    throw DatasetError(fmt::format(
        "{}:{}: libhdf5 has to read it ({}), and finds no plugin for its filter {} ({}); install the "
        "plugin and set HDF5_PLUGIN_PATH, or write the dataset once with gzip",
        source.file, short_path(source.path), reason, filter.id,
        filter.name.empty() ? "unknown" : filter.name));
  }
}

// Returns whether elements of the source are elements of the virtual dataset without conversion.
bool fits(const DatasetInfo& source, const VirtualSource& wanted, const DatasetInfo& whole) {
  if (source.dtype != whole.dtype || source.values_per_element != whole.values_per_element) return false;
  if (source.bits != whole.bits) return false;
  const Selection from = selected_from(source, wanted);
  return from.size() == source.shape.size() && std::ranges::all_of(from, &SelectedIndices::valid) &&
         dimensions_correspond(with_values(wanted.to, whole), from);
}

}  // namespace

std::shared_ptr<const ChunkReader> open_virtual(const std::shared_ptr<H5File>& file, const DatasetInfo& info,
                                                const ReaderSettings& settings) {
  VirtualMapping mapping = read_virtual_mapping(*file, info);
  std::vector<SourceMapping> mapped;
  Sources sources(file);
  ReaderSettings inner = settings;
  if (++inner.depth > kMaxVirtualDepth) throw TooDeepVirtual(info);
  if (inner.opened == nullptr) inner.opened = std::make_shared<OpenedSources>();
  unsigned put_together = 0;
  // Even if one source does not fit, the others may still be too short.
  const bool known = mapping.other_reason.empty();
  // libhdf5 reads the sources itself, where they are.
  const auto in_place = std::make_shared<FilePool>(FilePlaces(), file->isolation());
  if (known) prepare_sources(settings.pool->places(), mapping);
  for (const VirtualSource& source : mapping.sources) {
    check_interrupt();
    try {
      const std::shared_ptr<H5File>& opened =
          sources.open(source, mapping.other_reason.empty() ? *settings.pool : *in_place);
      Opened& there = inner.opened->by_name[{source.file.string(), source.path}];
      DatasetInfo own = there.reader != nullptr ? there.reader->info() : opened->describe(source.path);
      refuse_other_rank(own, source);
      if (known && there.reader != nullptr) refuse_unwritten(*opened, own, source);
      if (known) refuse_short(own, source);
      refuse_beyond(own, source);
      if (known && !fits(own, source, info))
        mapping.other_reason = "it is a virtual dataset of sources of another type or shape";
      if (!mapping.other_reason.empty()) {
        // It would open the source as it has opened the virtual dataset's file, and return fill values.
        if (opened->swmr_writer() != file->swmr_writer()) {
          throw DatasetError(
              fmt::format("{}:{}: a SWMR writer has the file open, beside which libhdf5 cannot "
                          "read it here; read it once the writer has closed it",
                          own.file, short_path(own.path)));
        }
        refuse_missing_filter(*opened, own, mapping.other_reason);
        // The source exists, which is all that libhdf5 needs; but in a circle of sources it would loop
        // forever.
        inner.log_fallback = false;
        inner.pool = in_place;
        if (own.layout == StorageLayout::virtual_dataset && !there.checked) open_virtual(opened, own, inner);
        there.checked = true;
        continue;
      }
      Selection from = selected_from(own, source);
      if (there.reader == nullptr) {
        inner.opened->put_together = 0;
        there.reader = settings.pool->reader(opened, std::move(own), inner);
        there.put_together = std::exchange(inner.opened->put_together, 0);
      }
      put_together = std::max(put_together, there.put_together);
      refuse_unwritten(*opened, there.reader->info(), source);
      mapped.push_back({there.reader, with_values(source.to, info), std::move(from)});
    } catch (const Error&) {
      rethrow_for_source(info, source.number, inner.depth);
    }
  }
  if (mapping.other_reason.empty()) {
    RowParts rows = parts_of_rows(info, std::move(mapped));
    if (rows.put_together) ++put_together;
    inner.opened->put_together = put_together <= kMostPutTogether ? put_together : 0;
    if (put_together > kMostPutTogether) {
      mapping.other_reason = "it is a virtual dataset of virtual datasets that are put together themselves";
    } else if (rows.parts.empty()) {
      mapping.other_reason = "it is a virtual dataset without rows";
    } else {
      return join_readers(std::move(rows.parts), info.file, info.path);
    }
  }
  refuse_unreadable_by_libhdf5(*file, info, mapping);
  return open_fallback(file, info, mapping.other_reason, settings);
}

}  // namespace h5feed
