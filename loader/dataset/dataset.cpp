#include "h5feed/dataset.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/system_limits.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/error.hpp"
#include "plan/sample_subset.hpp"
#include "store/h5_file.hpp"

namespace h5feed {

Field::Field(std::shared_ptr<const ChunkReader> chunk_reader, SampleGeometry sample_geometry)
    : reader(std::move(chunk_reader)),
      geometry(std::move(sample_geometry)),
      map(reader->info(), reader->chunk_shape(), reader->grid()) {}

namespace {

// "two", as in the contract's text; figures above what a sentence spells out.
std::string count_word(std::size_t count) {
  static constexpr const char* kWords[] = {"no",   "one", "two",   "three", "four",
                                           "five", "six", "seven", "eight", "nine"};
  return count < std::size(kWords) ? kWords[count] : std::to_string(count);
}

// The path to use when the user named none: the only dataset that looks like images.
std::string only_image_dataset(const H5File& file) {
  std::vector<DatasetEntry> images;
  for (DatasetEntry& entry : file.list_datasets()) {
    const auto dtype = entry.numeric ? dtype_from_name(entry.type_text) : std::nullopt;
    if (dtype && looks_like_images(entry.shape, *dtype)) images.push_back(std::move(entry));
  }
  // The largest is named first: as a rule it is what the user trains on.
  std::ranges::stable_sort(images, std::greater(), [](const DatasetEntry& e) { return e.shape.front(); });
  std::vector<std::string> candidates;
  for (const DatasetEntry& entry : images) candidates.push_back(entry.path);
  if (candidates.size() == 1) return candidates.front();
  if (candidates.empty()) {
    throw DatasetError(
        fmt::format("{}: no dataset looks like images; name one with data, and its "
                    "input_layout where its shape does not tell",
                    file.path().string()));
  }
  constexpr std::size_t kListed = 8;
  if (candidates.size() > kListed) {
    candidates[kListed] = fmt::format("and {} more", format_count(candidates.size() - kListed));
    candidates.resize(kListed + 1);
  }
  throw DatasetError(fmt::format("{}: {} datasets look like images: {}", file.path().string(),
                                 count_word(images.size()), fmt::join(candidates, ", ")));
}

Field open_target(const std::shared_ptr<H5File>& file, const std::string& path, const DatasetInfo& data) {
  DatasetInfo info = file->describe(path, "--target");
  if (info.shape.empty()) {
    throw DatasetError(
        fmt::format("{}:{} is a scalar; a target needs one row per sample", info.file, info.path));
  }
  if (info.rows() != data.rows()) {
    throw DatasetError(fmt::format("{}: {} has {} rows, {} has {}; a target needs one row per sample",
                                   info.file, info.path, format_count(info.rows()), data.path,
                                   format_count(data.rows())));
  }
  SampleGeometry geometry = target_geometry(info);
  Field field(ChunkReader::open(file, std::move(info)), std::move(geometry));
  const std::uint64_t bytes = field.info().total_bytes();
  if (bytes > 0 && bytes <= kResidentFieldBytes)
    field.resident = read_all(*field.reader, system_limits().cpus);
  return field;
}

}  // namespace

Dataset Dataset::open(const DatasetOptions& options) { return DatasetAccess::open(options, {}); }

Dataset DatasetAccess::open(const DatasetOptions& options, const WrapSource& wrap) {
  if (options.files.size() != 1) {
    throw OptionError(fmt::format("files must name one HDF5 file; it names {}", options.files.size()));
  }
  const auto file = H5File::open(options.files.front());
  DatasetInfo info = file->describe(options.data.empty() ? only_image_dataset(*file) : options.data);
  SampleGeometry geometry = data_geometry(info, options.input_layout);
  if (info.rows() == 0 || info.row_elements() == 0) {
    throw DatasetError(fmt::format("{}:{} ({}) holds no samples", info.file, info.path, info.shape_text()));
  }
  std::optional<Field> target;
  if (!options.target.empty()) target = open_target(file, options.target, info);
  std::string name = info.file;
  auto reader = ChunkReader::open(file, std::move(info), wrap ? wrap(file->bytes()) : nullptr);
  return Dataset(std::make_shared<const DatasetState>(
      DatasetState{std::move(name), Field(std::move(reader), std::move(geometry)), std::move(target)}));
}

std::int64_t Dataset::size() const noexcept {
  return static_cast<std::int64_t>(chosen_ ? chosen_->size() : state_->data.info().rows());
}
const std::vector<std::int64_t>& Dataset::sample_shape() const noexcept {
  return state_->data.geometry.shape;
}
DType Dataset::dtype() const noexcept { return state_->data.info().dtype; }
bool Dataset::has_target() const noexcept { return state_->target.has_value(); }

}  // namespace h5feed
