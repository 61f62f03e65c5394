// SPDX-License-Identifier: Apache-2.0
#include "dataset/field_opener.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/byte_units.hpp"
#include "base/files/natural_order.hpp"
#include "base/interrupt.hpp"
#include "base/option_spelling.hpp"
#include "h5feed/error.hpp"
#include "store/hdf5/path_pattern.hpp"
#include "store/read/reader_factories.hpp"

namespace h5feed {
namespace {

bool same_extents(const DatasetInfo& a, const DatasetInfo& b) {
  return std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1, b.shape.end());
}

}  // namespace

bool PartOpener::alone() const { return spec_.num_files == 1 && !has_wildcard(spec_.path); }

void PartOpener::keep() {
  keep_found();
  kept_.insert(kept_.end(), all_looked_.begin(), all_looked_.end());
  ++kept_files_;
}

void PartOpener::shorten(std::span<const std::uint64_t> rows) {
  looked_.clear();
  for (std::size_t i = 0; i < all_looked_.size(); ++i) {
    all_looked_[i].rows = rows[i];
    shorten_found(i, rows[i]);
    if (rows[i] > 0) looked_.push_back(all_looked_[i]);
  }
}

void FieldOpener::check_alike(const DatasetInfo& info, const DatasetInfo& first) const {
  if (info.dtype == first.dtype && info.shape.size() == first.shape.size() &&
      (spec().extents_differ || same_extents(info, first))) {
    return;
  }
  // Shows a sample that is a whole dataset with its shape in the file.
  const auto shown = [&](DatasetInfo shape) {
    if (spec().unit == SampleUnit::dataset) shape.shape.erase(shape.shape.begin());
    return shape.shape_text();
  };
  throw DatasetError(
      fmt::format("{}:{} is {}, {}:{} is {}; datasets that are read as one need the same type and{} the same "
                  "shape; leave it out or open it by itself",
                  info.file, short_path(info.path), shown(info), first.file, short_path(first.path),
                  shown(first), spec().unit == SampleUnit::row ? ", except for the first dimension," : ""));
}

std::shared_ptr<const ChunkReader> FieldOpener::open_one(const std::shared_ptr<H5File>& in,
                                                         const std::string& name,
                                                         const DatasetAccess::WrapSource& wrap) {
  const auto [file, path] = pool_->follow_links(in, name);
  note_file(*file);
  ReaderSettings settings{.pool = pool_, .log_fallback = !said_fallback_};
  if (spec().images) {
    if (const std::optional<DatasetInfo> references = file->describe_ragged(path)) {
      decodes_ = true;
      const auto source = wrap ? wrap(file->bytes()) : alone() ? file->bytes() : pool_->source(file->path());
      auto images = open_images(file, *references, *spec().images, source, settings);
      // All further images have the extent of the first.
      const std::vector<std::uint64_t>& shape = images->info().shape;
      if (shape.front() > 0)
        spec().images->extent = ImageExtent{shape[1], shape[2], shape[3], images->info().dtype};
      return images;
    }
  }
  DatasetInfo info = file->describe(path, spec().option);
  if (info.shape.empty() && spec().unit == SampleUnit::row) {
    throw DatasetError(
        fmt::format("{}:{} is a scalar; {}; name another dataset, or set {} where each is one sample",
                    info.file, short_path(info.path),
                    spec().option == PathOption{} ? "samples need a first dimension to count them"
                                                  : fmt::format("a {} needs one row per sample", kind()),
                    spelled("sample", "dataset")));
  }
  auto reader = alone() || wrap
                    ? open_chunk_reader(file, std::move(info), wrap ? wrap(file->bytes()) : nullptr, settings)
                    : pool_->reader(file, std::move(info), settings);
  said_fallback_ = said_fallback_ || !reader->direct();
  if (spec().unit == SampleUnit::row) return reader;
  return as_one_row(std::move(reader));
}

std::uint64_t FieldOpener::look(const std::shared_ptr<H5File>& file, const DatasetAccess::WrapSource& wrap) {
  found_.clear();
  begin_look();
  std::uint64_t all_rows = 0;
  last_file_ = file->path().string();
  if (first_file_.empty()) first_file_ = last_file_;
  for (const std::string& path : expand_path(*file, spec().path, spec().option)) {
    check_interrupt();
    auto reader = open_one(file, path, wrap);
    // Without images their size is not known.
    if (decodes_ && reader->info().rows() == 0) {
      note_part(path, 0);
      continue;
    }
    const ChunkReader& first = !parts_.empty()   ? *parts_.front().reader
                               : !found_.empty() ? *found_.front().reader
                                                 : *reader;
    check_alike(reader->info(), first.info());
    const std::uint64_t rows = reader->info().rows();
    all_rows += rows;
    // Behind a link into another file: by the path that the patterns of other fields are compared with.
    const bool linked = reader->info().file != last_file_;
    note_part(linked ? path : reader->info().path, rows);
    found_.push_back({std::move(reader), 0, rows});
  }
  return all_rows;
}

void FieldOpener::keep_found() {
  for (JoinedPart& part : found_) parts_.push_back(std::move(part));
  found_.clear();
}

FieldOpener::Found FieldOpener::found() {
  if (parts_.empty()) throw DatasetError(fmt::format("{}: {} holds no samples", last_file_, spec().path));
  Found found;
  const DatasetInfo& first = parts_.front().reader->info();
  if (parts_.size() == 1) {
    found.whole = first;
    found.whole.shape.front() = parts_.front().rows;
    found.parts = std::move(parts_);
    return found;
  }
  std::string file = first_file_;
  if (spec().num_files > 1) {
    file += fmt::format(" and {} more {}", format_count(spec().num_files - 1),
                        spec().num_files == 2 ? "file" : "files");
  }
  std::string path =
      has_wildcard(spec().path) && !spec().path.starts_with('/') ? '/' + spec().path : spec().path;
  if (!has_wildcard(path)) path = first.path;
  found.parts = flattened(std::move(parts_));
  found.whole = joined_info(found.parts, std::move(file), std::move(path));
  found.same_extents = std::ranges::all_of(
      found.parts, [&](const JoinedPart& part) { return same_extents(part.reader->info(), found.whole); });
  return found;
}

std::shared_ptr<const ChunkReader> FieldOpener::Found::joined() const {
  if (parts.size() == 1 && parts.front().rows == parts.front().reader->info().rows())
    return parts.front().reader;
  auto joined = join_readers(parts, whole.file, whole.path);
  // Each part's size fits 64 bits; the sum must fit, too.
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(joined->info().rows(), joined->info().row_bytes(), &bytes)) {
    throw DatasetError(fmt::format("{}:{}: {} together are more than can be counted; leave some out",
                                   joined->info().file, short_path(joined->info().path),
                                   joined->info().shape_text()));
  }
  return joined;
}

}  // namespace h5feed
