// SPDX-License-Identifier: Apache-2.0
#include "dataset/ragged_opener.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/interrupt.hpp"
#include "h5feed/error.hpp"
#include "store/hdf5/path_pattern.hpp"
#include "store/read/reader_factories.hpp"

namespace h5feed {
namespace {

std::string described(const RaggedPart& part) {
  const std::string inner = part.element_shape().empty() ? "" : "×" + format_shape(part.element_shape());
  return fmt::format("{} is of samples of any length{} of {}", part.place(), inner, name_of(part.dtype()));
}

}  // namespace

std::shared_ptr<const RaggedPart> RaggedOpener::open_one(const std::shared_ptr<H5File>& in,
                                                         const std::string& name) {
  const auto [file, path] = pool_->follow_links(in, name);
  note_file(*file);
  const ReaderSettings settings{.pool = pool_};
  if (spec().unit == SampleUnit::row) {
    if (const std::optional<VlenInfo> info = file->describe_vlen(path))
      return open_vlen(file, *info, alone() ? nullptr : pool_->source(file->path()), settings);
    const DatasetInfo info = file->describe(path, spec().option);
    throw DatasetError(
        fmt::format("{}:{} is {}, not of variable length as the field is elsewhere; leave "
                    "it out",
                    info.file, short_path(info.path), info.shape_text()));
  }
  DatasetInfo info = file->describe(path, spec().option);
  if (info.shape.empty()) {
    throw DatasetError(fmt::format("{}:{} is a scalar, which has no length; use collate = stack", info.file,
                                   short_path(info.path)));
  }
  auto reader = alone() ? open_chunk_reader(file, std::move(info), nullptr, settings)
                        : pool_->reader(file, std::move(info), settings);
  return as_ragged_row(std::move(reader));
}

std::uint64_t RaggedOpener::look(const std::shared_ptr<H5File>& file, const DatasetAccess::WrapSource&) {
  found_.clear();
  begin_look();
  std::uint64_t rows = 0;
  for (const std::string& path : expand_path(*file, spec().path, spec().option)) {
    check_interrupt();
    auto part = open_one(file, path);
    const RaggedPart& first = !parts_.empty() ? *parts_.front() : !found_.empty() ? *found_.front() : *part;
    if (part->dtype() != first.dtype() || part->element_shape() != first.element_shape()) {
      throw DatasetError(
          fmt::format("{}, {}; datasets that are read as one need the same type and, except for the first "
                      "dimension, the same "
                      "shape; leave it out or open it by itself",
                      described(*part), described(first)));
    }
    rows += part->rows();
    note_part(path, part->rows());
    found_.push_back(std::move(part));
  }
  return rows;
}

void RaggedOpener::keep_found() {
  for (auto& part : found_) parts_.push_back(std::move(part));
  found_.clear();
}

std::shared_ptr<const RaggedField> RaggedOpener::finish() {
  if (parts_.empty())
    throw DatasetError(fmt::format("{} holds no samples; name another dataset", spec().path));
  return std::make_shared<const RaggedField>(std::move(parts_));
}

}  // namespace h5feed
