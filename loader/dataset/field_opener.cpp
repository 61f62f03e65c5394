#include "dataset/field_opener.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/byte_units.hpp"
#include "base/natural_order.hpp"
#include "h5feed/error.hpp"
#include "store/path_pattern.hpp"

namespace h5feed {

bool FieldOpener::alone() const { return spec_.num_files == 1 && !has_wildcard(spec_.path); }

void FieldOpener::check_alike(const DatasetInfo& info, const DatasetInfo& first) const {
  if (info.dtype == first.dtype && info.shape.size() == first.shape.size() &&
      std::equal(info.shape.begin() + 1, info.shape.end(), first.shape.begin() + 1)) {
    return;
  }
  // A sample that is a dataset as a whole is shown as the file has it.
  const auto shown = [&](DatasetInfo shape) {
    if (spec_.unit == SampleUnit::dataset) shape.shape.erase(shape.shape.begin());
    return shape.shape_text();
  };
  throw DatasetError(
      fmt::format("{}:{} is {}, {}:{} is {}; datasets that are read as one need the same type and the same "
                  "shape{}, leave "
                  "it out or open it by itself",
                  info.file, info.path, shown(info), first.file, first.path, shown(first),
                  spec_.unit == SampleUnit::row ? " but for the first dimension" : ""));
}

std::shared_ptr<const ChunkReader> FieldOpener::open_one(const std::shared_ptr<H5File>& file,
                                                         const std::string& path,
                                                         const DatasetAccess::WrapSource& wrap) {
  DatasetInfo info = file->describe(path, spec_.option);
  if (info.shape.empty() && spec_.unit == SampleUnit::row) {
    throw DatasetError(fmt::format("{}:{} is a scalar; {}", info.file, info.path,
                                   spec_.option == "--data" ? "samples need a first dimension to count them"
                                                            : "a target needs one row per sample"));
  }
  ReaderSettings settings{.pool = pool_, .log_fallback = !said_fallback_};
  auto reader = alone() || wrap
                    ? ChunkReader::open(file, std::move(info), wrap ? wrap(file->bytes()) : nullptr, settings)
                    : pool_->reader(file, std::move(info), settings);
  said_fallback_ = said_fallback_ || !reader->direct();
  if (spec_.unit == SampleUnit::row) return reader;
  return as_one_row(std::move(reader));
}

std::vector<JoinedPart> FieldOpener::open(const std::shared_ptr<H5File>& file,
                                          const DatasetAccess::WrapSource& wrap) {
  std::vector<JoinedPart> parts;
  for (const std::string& path : expand_path(*file, spec_.path, spec_.option)) {
    auto reader = open_one(file, path, wrap);
    const ChunkReader& first = !parts_.empty()  ? *parts_.front().reader
                               : !parts.empty() ? *parts.front().reader
                                                : *reader;
    check_alike(reader->info(), first.info());
    const std::uint64_t rows = reader->info().rows();
    parts.push_back({std::move(reader), 0, rows});
  }
  return parts;
}

void FieldOpener::keep(std::vector<JoinedPart> parts) {
  for (JoinedPart& part : parts) {
    rows_ += part.rows;
    parts_.push_back(std::move(part));
  }
}

std::shared_ptr<const ChunkReader> FieldOpener::finish() {
  if (parts_.size() == 1) return std::move(parts_.front().reader);
  const DatasetInfo& first = parts_.front().reader->info();
  std::string file = first.file;
  if (spec_.num_files > 1) {
    file += fmt::format(" and {} more {}", format_count(spec_.num_files - 1),
                        spec_.num_files == 2 ? "file" : "files");
  }
  std::string path = has_wildcard(spec_.path) && !spec_.path.starts_with('/') ? '/' + spec_.path : spec_.path;
  if (!has_wildcard(path)) path = first.path;
  return join_readers(std::move(parts_), std::move(file), std::move(path));
}

}  // namespace h5feed
