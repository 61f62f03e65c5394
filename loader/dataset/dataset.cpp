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
#include "dataset/field_opener.hpp"
#include "dataset/file_list.hpp"
#include "h5feed/error.hpp"
#include "plan/sample_subset.hpp"
#include "store/h5_file.hpp"

namespace h5feed {

Field::Field(std::shared_ptr<const ChunkReader> chunk_reader, SampleGeometry sample_geometry)
    : reader(std::move(chunk_reader)), geometry(std::move(sample_geometry)), map(*reader) {}

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

// A target whose rows are not those of the samples.
[[noreturn]] void refuse_rows(const std::string& file, const std::string& target_path,
                              std::uint64_t target_rows, const std::string& data_path,
                              std::uint64_t data_rows) {
  throw DatasetError(fmt::format("{}: {} has {} rows, {} has {}; a target needs one row per sample", file,
                                 target_path, format_count(target_rows), data_path, format_count(data_rows)));
}

// Opens a file and what the fields have in it, all or nothing. A file that a writer appends to just then is
// looked at once more, as what was learned of it does not belong together.
void open_file(const std::filesystem::path& path, std::span<FieldOpener* const> fields,
               const DatasetAccess::WrapSource& wrap) {
  constexpr int kAttempts = 3;
  for (int attempt = 1;; ++attempt) {
    const auto file = H5File::open(path);
    try {
      std::vector<std::vector<JoinedPart>> parts;
      // Only the data's bytes are wrapped.
      for (FieldOpener* const field : fields)
        parts.push_back(field->open(file, field == fields.front() ? wrap : DatasetAccess::WrapSource()));
      std::vector<std::uint64_t> rows;
      for (std::size_t i = 0; i < fields.size(); ++i) {
        rows.push_back(0);
        for (const JoinedPart& part : parts[i]) rows.back() += part.rows;
        if (rows[i] != rows.front()) {
          const auto path_of = [&](std::size_t field) {
            return parts[field].empty() ? fields[field]->path() : parts[field].front().reader->info().path;
          };
          refuse_rows(file->path().string(), path_of(i), rows[i], path_of(0), rows.front());
        }
      }
      for (std::size_t i = 0; i < fields.size(); ++i) fields[i]->keep(std::move(parts[i]));
      return;
    } catch (const FileError&) {
      if (attempt == kAttempts || file->unchanged()) throw;
    }
  }
}

ImageSource image_source(const DatasetOptions& options) {
  const ImageOptions& images = options.images;
  // What OpenCV scales to; more is a mistake.
  constexpr std::int64_t kMaxSide = 32'767;
  if (images.height < 0 || images.width < 0 || images.height > kMaxSide || images.width > kMaxSide ||
      (images.height == 0) != (images.width == 0)) {
    throw OptionError(fmt::format("images.height and images.width must be 1 to {}, or both 0; got {} and {}",
                                  kMaxSide, images.height, images.width));
  }
  ImageTarget target{.height = static_cast<std::uint64_t>(images.height),
                     .width = static_cast<std::uint64_t>(images.width)};
  switch (images.color) {
    case ImageColor::rgb:
      target.color = ImageTarget::Color::rgb;
      break;
    case ImageColor::bgr:
      target.color = ImageTarget::Color::bgr;
      break;
    case ImageColor::gray:
      target.color = ImageTarget::Color::gray;
      break;
    case ImageColor::unchanged:
      target.color = ImageTarget::Color::unchanged;
      break;
  }
  ImageSource source{.decoder = make_image_decoder(target), .shapes = images.shapes};
  if (options.input_layout != InputLayout::automatic)
    source.planar = options.input_layout == InputLayout::nchw;
  return source;
}

Field make_target(std::shared_ptr<const ChunkReader> reader) {
  SampleGeometry geometry = target_geometry(reader->info());
  Field field(std::move(reader), std::move(geometry));
  const std::uint64_t bytes = field.info().total_bytes();
  if (bytes > 0 && bytes <= kResidentFieldBytes)
    field.resident = read_all(*field.reader, system_limits().cpus);
  return field;
}

}  // namespace

Dataset Dataset::open(const DatasetOptions& options) { return DatasetAccess::open(options, {}); }

Dataset DatasetAccess::open(const DatasetOptions& options, const WrapSource& wrap) {
  if (!options.target_files.empty() && options.target.empty()) {
    throw OptionError(
        "target_files are given without target; name the dataset in them that holds the targets");
  }
  const std::vector<std::filesystem::path> files = expand_files(options.files);
  const auto pool = std::make_shared<FilePool>();
  const std::string data_path =
      options.data.empty() ? only_image_dataset(*H5File::open(files.front())) : options.data;
  FieldOpener data({data_path, "--data", options.sample, files.size(), image_source(options)}, pool);
  std::optional<FieldOpener> target;
  const bool target_apart = !options.target_files.empty();
  const std::vector<std::filesystem::path> target_files =
      target_apart ? expand_files(options.target_files) : files;
  if (!options.target.empty())
    target.emplace(FieldOpener::Spec{options.target, "--target", options.sample, target_files.size()}, pool);
  std::vector<FieldOpener*> together = {&data};
  if (target && !target_apart) together.push_back(&*target);
  for (const std::filesystem::path& file : files) open_file(file, together, wrap);
  if (target_apart) {
    FieldOpener* const apart = &*target;
    for (const std::filesystem::path& file : target_files) open_file(file, {&apart, 1}, {});
  }

  if (!options.images.shapes.empty() && !data.decodes())
    throw OptionError(
        "images.shapes is a table for data of variable length, which this is not; leave it out");
  auto reader = data.finish();
  const DatasetInfo& info = reader->info();
  SampleGeometry geometry = data_geometry(info, data.decodes() ? InputLayout::nhwc : options.input_layout);
  if (info.rows() == 0 || info.row_elements() == 0) {
    throw DatasetError(fmt::format("{}:{} ({}) holds no samples", info.file, info.path, info.shape_text()));
  }
  std::optional<Field> target_field;
  if (target) {
    auto target_reader = target->finish();
    const DatasetInfo& own = target_reader->info();
    if (own.rows() != info.rows()) refuse_rows(own.file, own.path, own.rows(), info.path, info.rows());
    target_field = make_target(std::move(target_reader));
  }
  std::string name = info.file;
  return Dataset(std::make_shared<const DatasetState>(DatasetState{
      options, std::move(name), Field(std::move(reader), std::move(geometry)), std::move(target_field)}));
}

void Dataset::refresh() {
  Dataset newer = open(state_->options);
  if (chosen_ && chosen_->sorted(chosen_->size() - 1) >= newer.state_->data.info().rows()) {
    throw DatasetError(
        fmt::format("{}: the dataset has {} samples now, fewer than the subset needs; choose it anew",
                    newer.state_->file, format_count(newer.state_->data.info().rows())));
  }
  state_ = newer.state_;
}

SampleOrigin Dataset::origin(std::int64_t sample) const {
  if (sample < 0 || static_cast<std::uint64_t>(sample) >= state_->data.info().rows()) {
    throw OptionError(fmt::format("there is no sample {}; the dataset has {}", sample,
                                  format_count(state_->data.info().rows())));
  }
  RowOrigin origin = state_->data.reader->origin(static_cast<std::uint64_t>(sample));
  return {std::move(origin.file), std::move(origin.path), static_cast<std::int64_t>(origin.row)};
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
