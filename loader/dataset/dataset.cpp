// SPDX-License-Identifier: Apache-2.0
#include "h5feed/dataset.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/files/file_list.hpp"
#include "base/option_spelling.hpp"
#include "base/unit_range.hpp"
#include "dataset/dataset_state.hpp"
#include "dataset/episode_opener.hpp"
#include "dataset/isolation.hpp"
#include "dataset/null_characters.hpp"
#include "dataset/sample_opener.hpp"
#include "dataset/sparse_opener.hpp"
#include "dataset/tile_labels.hpp"
#include "dataset/tiles/tile_reader.hpp"
#include "h5feed/error.hpp"
#include "plan/sample_subset.hpp"
#include "store/hdf5/dataset_names.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/read/channel_reader.hpp"
#include "store/read/file_pool.hpp"
#include "store/stage/file_places.hpp"

namespace h5feed {

Field::Field(std::shared_ptr<const ChunkReader> chunk_reader, SampleGeometry sample_geometry,
             const std::optional<Tiling>& tiling)
    : reader(std::move(chunk_reader)), geometry(std::move(sample_geometry)), map(*reader, tiling) {}

std::vector<std::int64_t> Field::sample_shape() const {
  std::vector<std::int64_t> shape = geometry.shape;
  if (belonging.timed()) shape.insert(shape.begin(), static_cast<std::int64_t>(belonging.per_sample()));
  return shape;
}

namespace {

// Returns the number as a word, "two"; as figures from 10 on.
std::string count_word(std::size_t count) {
  static constexpr const char* kWords[] = {"no",   "one", "two",   "three", "four",
                                           "five", "six", "seven", "eight", "nine"};
  return count < std::size(kWords) ? kWords[count] : std::to_string(count);
}

// Returns the path of the only dataset that looks like images, for users who named none.
std::string only_image_dataset(const H5File& file) {
  const std::vector<DatasetEntry> entries = file.list_datasets();
  std::vector<DatasetEntry> images;
  for (const DatasetEntry& entry : entries) {
    // The hidden datasets may be images too, so which dataset is meant cannot be decided.
    if (entry.hides_others)
      throw FileError(
          fmt::format("{}, or name a dataset outside it with {}", entry.problem, spelled("data")));
    const auto dtype = entry.numeric ? dtype_from_name(entry.type_text) : std::nullopt;
    if (dtype && looks_like_images(entry.shape, *dtype)) images.push_back(entry);
  }
  if (images.size() == 1) return images.front().path;
  if (images.empty()) {
    throw DatasetError(fmt::format("{}. Name one with {}, and its {} if its shape is ambiguous",
                                   no_images_text(file, entries), spelled("data"), spelled("input_layout")));
  }
  const auto largest =
      std::ranges::max_element(images, {}, [](const auto& entry) { return entry.shape.front(); });
  throw DatasetError(fmt::format("{}. Try {}", which_images(file.path().string(), images),
                                 PathOption{}.spelled(largest->path.substr(1))));
}

// Returns the files of each named field.
std::vector<std::vector<std::filesystem::path>> files_of_fields(
    const DatasetOptions& options, const std::vector<std::filesystem::path>& files) {
  std::vector<std::vector<std::filesystem::path>> own;
  own.reserve(options.fields.size());
  for (const FieldOptions& field : options.fields)
    own.push_back(field.files.empty() ? files : expand_files(field.files));
  return own;
}

// Returns the different files of all lists.
std::vector<std::filesystem::path> together(const std::vector<std::vector<std::filesystem::path>>& lists,
                                            const std::vector<std::vector<std::filesystem::path>>& more) {
  std::set<std::filesystem::path> seen;
  std::vector<std::filesystem::path> files;
  for (const auto* const group : {&lists, &more}) {
    for (const auto& list : *group) {
      std::ranges::copy_if(list, std::back_inserter(files),
                           [&](const std::filesystem::path& file) { return seen.insert(file).second; });
    }
  }
  return files;
}

// Returns the chosen channels of the data. Throws OptionError if there are none of these numbers.
std::shared_ptr<const ChunkReader> chosen_channels(std::shared_ptr<const ChunkReader> reader,
                                                   InputLayout layout,
                                                   const std::vector<std::int64_t>& channels) {
  const DatasetInfo& info = reader->info();
  const std::optional<std::size_t> dimension = channel_dimension(layout);
  if (!dimension || *dimension >= info.shape.size()) {
    throw OptionError(fmt::format("{}:{} ({}) has no channels; leave {} unset, or set another {}", info.file,
                                  short_path(info.path), info.shape_text(), spelled("channels"),
                                  spelled("input_layout")));
  }
  std::vector<std::uint64_t> numbers;
  for (const std::int64_t channel : channels) {
    const auto number = static_cast<std::uint64_t>(channel);
    if (channel < 0 || number >= info.shape[*dimension]) {
      throw OptionError(fmt::format("{}:{} ({}): there is no channel {}; use 0 to {}", info.file,
                                    short_path(info.path), info.shape_text(), channel,
                                    info.shape[*dimension] - 1));
    }
    if (std::ranges::find(numbers, number) != numbers.end())
      throw OptionError(
          fmt::format("{}: channel {} comes twice; name each once", spelled("channels"), channel));
    numbers.push_back(number);
  }
  return as_channels(std::move(reader), *dimension, std::move(numbers));
}

}  // namespace

std::string which_images(const std::string& file, std::vector<DatasetEntry> images) {
  // The largest first: as a rule the user trains on it.
  std::ranges::stable_sort(images, std::greater(), [](const DatasetEntry& e) { return e.shape.front(); });
  std::vector<std::string> candidates;
  for (const DatasetEntry& entry : images) candidates.push_back(entry.path);
  constexpr std::size_t kListed = 8;
  if (candidates.size() > kListed) {
    candidates[kListed] = fmt::format("and {} more", format_count(candidates.size() - kListed));
    candidates.resize(kListed + 1);
  }
  return fmt::format("{}: {} datasets look like images: {}", file, count_word(images.size()),
                     fmt::join(candidates, ", "));
}

Dataset Dataset::open(const DatasetOptions& options) { return DatasetAccess::open(options, {}); }

Dataset DatasetAccess::open(const DatasetOptions& options, const WrapSource& wrap,
                            const StorageProbe& probe) {
  refuse_null_characters(options);
  if (options.tiles) check_tile_options(*options.tiles);
  if (options.tiles && !options.channels.empty()) {
    throw OptionError(fmt::format("{} cannot be chosen with {}; leave one of the two out",
                                  spelled("channels"), spelled("tiles")));
  }
  check_field_names(options.fields);
  if (!options.target_files.empty() && options.target.empty()) {
    throw OptionError(
        "target_files are given without target; name the dataset in them that holds the targets");
  }
  const std::vector<std::filesystem::path> files = expand_files(options.files);
  const bool target_apart = !options.target_files.empty();
  const std::vector<std::filesystem::path> target_files =
      target_apart ? expand_files(options.target_files) : files;
  const std::vector<std::vector<std::filesystem::path>> field_files = files_of_fields(options, files);
  const auto pool =
      std::make_shared<FilePool>(FilePlaces(options.stage_dir, probe), reader_process_of(options));
  if (pool->places().staged()) pool->places().prepare(together({files, target_files}, field_files));
  const std::string data_path =
      options.data.empty() ? only_image_dataset(*pool->open(files.front())) : options.data;
  std::optional<EpisodeOpener> episodes;
  if (in_episodes(options)) episodes.emplace(options, files.size(), pool);
  const FieldSpec data_spec{data_path,
                            {},
                            options.sample,
                            files.size(),
                            image_source(options.images, options.input_layout),
                            options.tiles.has_value()};
  FieldOpener data(data_spec, pool);
  const std::unique_ptr<SparseOpener> sparse = sparse_opener(options, data_spec, files.front(), pool);
  std::optional<FieldOpener> target;
  CategoricalColumn column;
  if (!options.target.empty()) {
    column = column_of(options.target, target_files, *pool);
    target.emplace(FieldSpec{column.codes,
                             {.name = "target"},
                             options.sample,
                             target_files.size(),
                             {},
                             options.tiles.has_value(),
                             row_count_of(options, options.target_window)},
                   pool);
  }
  std::deque<NamedFieldOpener> named;
  std::vector<CategoricalColumn> columns;
  for (std::size_t i = 0; i < options.fields.size(); ++i) {
    FieldOptions field = options.fields[i];
    columns.push_back(column_of(field.data.empty() ? field.name : field.data, field_files[i], *pool));
    field.data = columns.back().codes;
    named.emplace_back(field, field_files[i], options, pool);
  }
  std::vector<PartOpener*> in_files = {&data};
  if (sparse) in_files.front() = sparse.get();
  if (target && !target_apart) in_files.push_back(&*target);
  for (NamedFieldOpener& field : named) {
    if (!field.apart()) in_files.push_back(&field.opener());
  }
  if (episodes && episodes->table() != nullptr) in_files.push_back(episodes->table());
  for (const std::filesystem::path& file : files) open_file(file, in_files, wrap, *pool);
  const auto open_apart = [&pool](PartOpener& field, const std::vector<std::filesystem::path>& own_files) {
    PartOpener* const alone = &field;
    for (const std::filesystem::path& file : own_files) open_file(file, {&alone, 1}, {}, *pool);
  };
  if (target_apart) open_apart(*target, target_files);
  for (NamedFieldOpener& field : named) {
    if (field.apart()) open_apart(field.opener(), field.files());
  }

  if (episodes) {
    std::vector<const PartOpener*> fields = {&data, target ? &*target : nullptr};
    for (NamedFieldOpener& field : named) fields.push_back(&field.opener());
    episodes->find(files, fields);
  }
  const auto placed = [&](std::size_t number) {
    return episodes ? std::optional(episodes->rows_of(number)) : std::nullopt;
  };

  if (!options.channels.empty() && data.decodes())
    throw OptionError(
        fmt::format("{} of encoded images cannot be chosen; leave it unset", spelled("channels")));
  if (!options.images.shapes.empty() && !data.decodes())
    throw OptionError(
        fmt::format("{} is only for data of variable length; leave it unset", spelled("images.shapes")));
  if ((options.images.height != 0 || options.images.width != 0) && !data.decodes())
    throw OptionError(fmt::format("{}: only encoded images are scaled; leave it unset", spelled(kImageSize)));
  FieldOpener::Found images;
  std::optional<SparseData> matrix;
  if (sparse) {
    matrix = sparse->finish();
    images.whole = matrix->reader->info();
  } else {
    images = data.found();
  }
  const DatasetInfo& info = images.whole;
  const InputLayout asked = sparse ? InputLayout::none : options.input_layout;
  const InputLayout layout = decided_layout(info, data.decodes() ? InputLayout::nhwc : asked);
  if (info.rows() == 0 || info.row_elements() == 0) {
    throw DatasetError(
        fmt::format("{}:{} ({}) holds no samples", info.file, short_path(info.path), info.shape_text()));
  }
  if (options.unit_range)
    require_unit_scale(fmt::format("{}:{}", info.file, short_path(info.path)), info.dtype);
  std::optional<Tiling> tiling;
  std::shared_ptr<const ChunkReader> reader;
  if (options.tiles) {
    const std::vector<JoinedPart> parts = flattened(images.parts);
    tiling = make_tiling(parts, info, layout, *options.tiles);
    reader = as_tiles(parts, info, *tiling);
  } else if (matrix) {
    reader = matrix->reader;
  } else {
    reader = images.joined();
    if (!options.channels.empty()) reader = chosen_channels(std::move(reader), layout, options.channels);
  }
  SampleGeometry geometry = data_geometry(reader->info(), layout);
  DatasetState state{.options = options,
                     .file = info.file,
                     .data = Field(std::move(reader), std::move(geometry), tiling),
                     .target = {},
                     .fields = {},
                     .tiling = tiling,
                     .remote = pool->places().remote(),
                     .sparse = std::move(matrix)};
  if (episodes) {
    state.options.episodes = episodes->options();
    state.data.belonging = episodes->rows_of(kData);
  }
  if (target) state.target = make_target(target->found(), info, tiling, placed(kTarget));
  for (std::size_t i = 0; i < named.size(); ++i)
    state.fields.push_back(named[i].finish(info, tiling, placed(kFirstNamed + i)));
  name_codes(state, std::move(column), std::move(columns));
  if (tiling) apply_labels(state);
  if (episodes) state.episodes = episodes->finish(state);
  std::shared_ptr<const SampleSubset> kept = state.kept;
  state.sample_shape = state.data.sample_shape();
  return make(std::make_shared<const DatasetState>(std::move(state)), std::move(kept));
}

SampleOrigin Dataset::origin(std::int64_t sample) const {
  if (sample < 0 || static_cast<std::uint64_t>(sample) >= state_->num_samples()) {
    throw OptionError(fmt::format("there is no sample {}; the dataset has {}", sample,
                                  format_count(state_->num_samples())));
  }
  return origin_of(*state_, sample);
}

std::int64_t set_of(const DatasetState& dataset, std::int64_t sample) noexcept {
  if (!dataset.mixture) return 0;
  return static_cast<std::int64_t>(dataset.mixture->set_of(static_cast<std::uint64_t>(sample)));
}

SampleOrigin origin_of(const DatasetState& dataset, std::int64_t sample, const std::optional<EpochKey>& key) {
  TileBox box;
  if (dataset.tiling && (key || dataset.tiling->rule().drawn == 0))
    box = dataset.tiling->box(static_cast<std::uint64_t>(sample), key.value_or(EpochKey{}));
  const auto first = [&](std::size_t axis) {
    return static_cast<std::int64_t>(box[axis].begin) - static_cast<std::int64_t>(box[axis].before);
  };
  auto row = static_cast<std::uint64_t>(sample);
  std::int64_t episode = -1;
  std::int64_t frame = -1;
  if (dataset.episodes) {
    const Anchors& anchors = *dataset.episodes->anchors;
    Anchors::Place place{.episode = anchors.episode_of(row)};
    if (key || !anchors.drawn()) {
      place = anchors.at(row, key.value_or(EpochKey{}));
      frame = static_cast<std::int64_t>(place.frame);
    }
    episode = static_cast<std::int64_t>(place.episode);
    row = anchors.episode(place.episode).first_row + place.frame;
  }
  RowOrigin origin = dataset.data.reader->origin(row);
  return {.file = std::move(origin.file),
          .path = std::move(origin.path),
          .row = static_cast<std::int64_t>(origin.row),
          .image = origin.image ? static_cast<std::int64_t>(*origin.image) : sample,
          .y = first(1),
          .x = first(2),
          .z = first(0),
          .episode = episode,
          .frame = frame,
          .set = set_of(dataset, sample)};
}

std::optional<TileGrid> Dataset::tile_grid(std::int64_t image) const {
  if (!state_->tiling || state_->tiling->rule().drawn > 0) return {};
  const Tiling& tiling = *state_->tiling;
  if (image < 0 || static_cast<std::uint64_t>(image) >= tiling.num_images()) {
    throw OptionError(
        fmt::format("there is no image {}; the dataset has {}", image, format_count(tiling.num_images())));
  }
  const auto& [z, y, x] = tiling.run_of_image(static_cast<std::uint64_t>(image)).axes;
  return TileGrid{.image_depth = tiling.rule().volumes ? static_cast<std::int64_t>(z.extent) : 0,
                  .image_height = static_cast<std::int64_t>(y.extent),
                  .image_width = static_cast<std::int64_t>(x.extent),
                  .layers = static_cast<std::int64_t>(z.count),
                  .rows = static_cast<std::int64_t>(y.count),
                  .columns = static_cast<std::int64_t>(x.count)};
}

std::int64_t Dataset::num_images() const noexcept {
  return state_->tiling ? static_cast<std::int64_t>(state_->tiling->num_images()) : 0;
}

std::int64_t Dataset::num_episodes() const noexcept {
  return state_->episodes ? static_cast<std::int64_t>(state_->episodes->anchors->num_episodes()) : 0;
}

std::int64_t Dataset::tiles_left_out() const noexcept {
  return state_->kept ? static_cast<std::int64_t>(state_->data.info().rows() - state_->kept->size()) : 0;
}

std::int64_t Dataset::size() const noexcept {
  return static_cast<std::int64_t>(chosen_ ? chosen_->size() : state_->num_samples());
}
const std::vector<std::int64_t>& Dataset::sample_shape() const& noexcept { return state_->sample_shape; }
DType Dataset::dtype() const noexcept { return state_->data.info().dtype; }
bool Dataset::unit_range() const noexcept { return state_->options.unit_range; }
bool Dataset::has_target() const noexcept { return state_->target.has_value(); }
bool Dataset::delivers_csr() const noexcept { return state_->delivers_csr(); }

const std::vector<std::string>& Dataset::categories(std::string_view field) const& {
  if (field.empty()) return state_->target_names;
  for (const NamedField& named : state_->fields) {
    if (named.options.name == field) return named.names;
  }
  throw OptionError(fmt::format("there is no field \"{}\"; name one of the dataset's fields", field));
}

}  // namespace h5feed
