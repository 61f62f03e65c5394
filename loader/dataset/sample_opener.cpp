// SPDX-License-Identifier: Apache-2.0
#include "dataset/sample_opener.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_units.hpp"
#include "base/files/natural_order.hpp"
#include "base/interrupt.hpp"
#include "base/option_spelling.hpp"
#include "base/system_limits.hpp"
#include "dataset/episode_opener.hpp"
#include "dataset/tiles/tile_reader.hpp"
#include "h5feed/error.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/hdf5/path_pattern.hpp"
#include "store/read/read_all.hpp"

namespace h5feed {
namespace {

// Throws the error for a target or field whose number of rows differs from the data.
[[noreturn]] void refuse_rows(std::string_view what, std::string_view place, std::uint64_t rows,
                              std::string_view data_path, std::uint64_t data_rows) {
  throw DatasetError(fmt::format("{} has {} rows, {} has {}; a {} needs one row per sample", place,
                                 format_count(rows), data_path, format_count(data_rows), what));
}

// Returns whether a dataset of a field has as many rows as its rule allows beside one of the data.
bool fits(RowCount rule, std::uint64_t rows, std::uint64_t data_rows) noexcept {
  return rule == RowCount::any || rows == data_rows || (rule == RowCount::one_more && rows == data_rows + 1);
}

// Returns the names that `path` has at the wildcards of `pattern`. Returns none if `pattern` and `other` do
// not have the same wildcard components in the same order.
std::vector<std::string_view> matched_names(std::string_view path, std::string_view pattern,
                                            std::string_view other) {
  const auto wild = [](std::string_view text) {
    std::vector<std::string_view> components = components_of(text);
    std::erase_if(components, [](std::string_view part) { return !has_wildcard(part); });
    return components;
  };
  if (wild(pattern) != wild(other)) return {};
  return wildcard_names(path, pattern);
}

// Checks that two patterns match the same groups in the same order: equal totals would hide labels that
// belong to other groups.
void check_groups(const PartOpener& field, const PartOpener& data, const std::string& file) {
  if (!has_wildcard(field.pattern()) || !has_wildcard(data.pattern())) return;
  for (std::size_t i = 0; i < std::min(field.looked().size(), data.looked().size()); ++i) {
    const PartRows& own = field.looked()[i];
    const PartRows& of_data = data.looked()[i];
    if (matched_names(own.path, field.pattern(), data.pattern()) !=
        matched_names(of_data.path, data.pattern(), field.pattern())) {
      const auto empty = std::ranges::find_if(data.all_looked(), [&](const PartRows& part) {
        return part.rows == 0 && matched_names(own.path, field.pattern(), data.pattern()) ==
                                     matched_names(part.path, data.pattern(), field.pattern());
      });
      if (empty != data.all_looked().end()) {
        throw DatasetError(
            fmt::format("{}: {} has {} rows, and {} none; leave the empty group out of both patterns", file,
                        own.path, format_count(own.rows), empty->path));
      }
      throw DatasetError(fmt::format(
          "{}: {} would go with {}; a {} needs the same groups as the data, add the missing groups or "
          "leave them out of both patterns",
          file, own.path, of_data.path, field.kind()));
    }
    if (!fits(field.row_count(), own.rows, of_data.rows))
      refuse_rows(field.kind(), fmt::format("{}: {}", file, own.path), own.rows, of_data.path, of_data.rows);
  }
}

// While a SWMR writer appends to one dataset after the other, the fields have different numbers of rows:
// those of the shortest are samples. Does nothing where fields cannot be shortened, or have other rules.
void keep_common_rows(std::span<PartOpener* const> fields) {
  std::vector<std::uint64_t> common;
  for (const PartRows& part : fields.front()->all_looked()) common.push_back(part.rows);
  for (const PartOpener* const field : fields) {
    if (field->row_count() == RowCount::any) continue;
    if (field->row_count() != RowCount::same || !field->can_shorten() ||
        field->all_looked().size() != common.size())
      return;
    for (std::size_t i = 0; i < common.size(); ++i)
      common[i] = std::min(common[i], field->all_looked()[i].rows);
  }
  for (PartOpener* const field : fields) {
    if (field->row_count() == RowCount::same) field->shorten(common);
  }
}

// Returns the number of rows of the last `look`.
std::uint64_t rows_of(const PartOpener& field) {
  std::uint64_t rows = 0;
  for (const PartRows& part : field.looked()) rows += part.rows;
  return rows;
}

// Returns the tiling of a field: a mask that has the extents of the images is cut like them, with the layout
// of the images, without channels, or with channels before or after; anything else belongs to the whole
// image.
std::optional<Tiling> tiling_of_field(const FieldOpener::Found& found, const std::vector<JoinedPart>& parts,
                                      const Tiling& of_data, InputLayout layout) {
  const bool volumes = of_data.rule().volumes;
  const std::size_t rank = found.whole.shape.size();
  const auto cut_along = [&](const PerAxis<std::size_t>& dimensions) -> std::optional<Tiling> {
    const bool deep = dimensions[0] > 0;
    if (deep != volumes || *std::ranges::max_element(dimensions) >= rank) return std::nullopt;
    return of_data.of_field(dimensions, parts);
  };
  const PerAxis<std::size_t> leading = *image_dimensions(volumes ? InputLayout::ndhw : InputLayout::nhw);
  const PerAxis<std::size_t> trailing = *image_dimensions(volumes ? InputLayout::ncdhw : InputLayout::nchw);
  if (rank == leading.back() + 1) return cut_along(leading);
  if (const auto stated = image_dimensions(layout)) return cut_along(*stated);
  if (rank != trailing.back() + 1) return std::nullopt;
  for (const PerAxis<std::size_t>& dimensions : {of_data.dimensions(), trailing, leading}) {
    if (std::optional<Tiling> tiling = cut_along(dimensions)) return tiling;
  }
  return std::nullopt;
}

[[noreturn]] void refuse_extents(const char* what, const FieldOpener::Found& found) {
  throw DatasetError(
      fmt::format("{}:{}: the {}'s datasets differ in shape, and they are not cut into tiles, because their "
                  "extents are not those of the images; leave it out or open it by itself",
                  found.whole.file, short_path(found.whole.path), what));
}

// Makes a field of what was found: cut into tiles like the data, or else with one row per sample or image.
Field field_of(FieldOpener::Found found, const std::optional<Tiling>& of_data,
               const std::optional<SampleRows>& placed, const char* what, InputLayout layout,
               SampleGeometry (*geometry_of)(const DatasetInfo&, InputLayout)) {
  if (of_data) {
    const std::vector<JoinedPart> parts = flattened(found.parts);
    if (const auto own = tiling_of_field(found, parts, *of_data, layout)) {
      auto reader = as_tiles(parts, found.whole, *own);
      SampleGeometry geometry = geometry_of(reader->info(), layout);
      return {std::move(reader), std::move(geometry), own};
    }
    if (!found.same_extents) refuse_extents(what, found);
  }
  auto reader = found.joined();
  SampleGeometry geometry = geometry_of(reader->info(), layout);
  Field field(std::move(reader), std::move(geometry));
  if (of_data) field.belonging = SampleRows::of_images(*of_data);
  if (placed) field.belonging = *placed;
  return field;
}

// Throws DatasetError unless a field and the data have the same number of rows. `what` is "target" or
// "field". In episodes, the rows that do not belong to rows of the data one by one have been checked before.
void check_rows_of(const char* what, const DatasetInfo& field, const DatasetInfo& data,
                   const std::optional<SampleRows>& placed) {
  if (field.rows() == data.rows()) return;
  if (placed && (placed->per() != FieldUnit::row || placed->window().extra_rows > 0)) return;
  refuse_rows(what, fmt::format("{}: {}", field.file, field.path), field.rows(), data.path, data.rows());
}

// Reads a small field into memory, unless it is cut into tiles.
Field small_field_read(Field field) {
  if (field.map.tiled()) return field;
  const std::uint64_t bytes = field.info().total_bytes();
  if (bytes > 0 && bytes <= kResidentFieldBytes)
    field.resident = read_all(*field.reader, system_limits().cpus);
  return field;
}

std::string_view name_of(Collate collate) noexcept { return collate == Collate::pad ? "pad" : "ragged"; }

void check_types(const FieldOptions& options) {
  const DType to = options.dtype.value_or(DType::f32);
  if (options.normalize && is_integer(to)) {
    throw OptionError(fmt::format("field \"{}\": dtype must be f32, f16, bf16 or f64 with normalize; got {}",
                                  options.name, h5feed::name_of(to)));
  }
}

}  // namespace

ImageSource image_source(const ImageOptions& images, InputLayout layout) {
  // Largest side that OpenCV scales to; a larger one is a mistake.
  constexpr std::int64_t kMaxSide = 32'767;
  if (images.height < 0 || images.width < 0 || images.height > kMaxSide || images.width > kMaxSide ||
      (images.height == 0) != (images.width == 0)) {
    throw OptionError(fmt::format("{} must be 1 to {}, or both 0; got {} and {}", spelled(kImageSize),
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
  if (layout != InputLayout::automatic) source.planar = layout == InputLayout::nchw;
  return source;
}

void open_file(const std::filesystem::path& path, std::span<PartOpener* const> fields,
               const DatasetAccess::WrapSource& wrap, FilePool& pool) {
  constexpr int kAttempts = 3;
  check_interrupt();
  for (int attempt = 1;; ++attempt) {
    const auto file = pool.open(path);
    const auto beside_writer = [&] {
      return file->swmr_writer() || std::ranges::any_of(fields, &PartOpener::beside_writer);
    };
    try {
      // Only the byte source of the data is wrapped.
      for (PartOpener* const field : fields)
        field->look(file, field == fields.front() ? wrap : DatasetAccess::WrapSource());
      if (beside_writer()) keep_common_rows(fields);
      std::uint64_t rows = 0;
      for (PartOpener* const field : fields) {
        const bool first = field == fields.front();
        const std::uint64_t own = rows_of(*field);
        if (first) rows = own;
        if (!first) check_groups(*field, *fields.front(), file->path().string());
        const auto datasets = static_cast<std::uint64_t>(field->looked().size());
        const bool one_more = field->row_count() == RowCount::one_more && own == rows + datasets;
        if (own != rows && !one_more && field->row_count() != RowCount::any) {
          refuse_rows(field->kind(), fmt::format("{}: {}", file->path().string(), field->place()), own,
                      fields.front()->place(), rows);
        }
      }
      for (PartOpener* const field : fields) field->keep();
      return;
    } catch (const FileError&) {
      if (attempt == kAttempts || (file->unchanged() && !beside_writer())) throw;
    }
  }
}

NamedFieldOpener::NamedFieldOpener(const FieldOptions& options, std::vector<std::filesystem::path> files,
                                   const DatasetOptions& dataset, std::shared_ptr<FilePool> pool)
    : options_(options), files_(std::move(files)) {
  check_types(options_);
  FieldSpec spec{options_.data.empty() ? options_.name : options_.data,
                 {.owner = fmt::format("field \"{}\"", options_.name)},
                 options_.sample.value_or(default_unit(dataset, options_)),
                 files_.size(),
                 {},
                 dataset.tiles.has_value(),
                 row_count_of(dataset, options_.window, options_.per)};
  bool ragged = spec.unit == SampleUnit::dataset && options_.collate != Collate::stack;
  if (options_.images) {
    spec.images = image_source(*options_.images, options_.input_layout);
    ragged = false;
  } else if (spec.unit == SampleUnit::row) {
    const auto file = pool->open(files_.front());
    const auto first = pool->follow_links(file, expand_path(*file, spec.path, spec.option).front());
    ragged = first.file->describe_vlen(first.path).has_value();
  }
  if (ragged) {
    if (!options_.window.empty()) {
      throw OptionError(fmt::format(
          "field \"{}\": samples that differ in length have no windows; leave window unset", options_.name));
    }
    ragged_.emplace(std::move(spec), std::move(pool));
  } else {
    alike_.emplace(std::move(spec), std::move(pool));
  }
}

PartOpener& NamedFieldOpener::opener() noexcept {
  if (alike_) return *alike_;
  return *ragged_;
}

NamedField NamedFieldOpener::finish(const DatasetInfo& data, const std::optional<Tiling>& tiling,
                                    const std::optional<SampleRows>& placed) {
  if (ragged_) return finish_ragged(data, tiling, placed);
  FieldOpener::Found found = alike_->found();
  check_rows_of("field", found.whole, data, placed);
  const InputLayout layout =
      decided_layout(found.whole, alike_->decodes() ? InputLayout::nhwc : options_.input_layout);
  if (options_.collate != Collate::stack && !options_.window.empty()) {
    throw OptionError(fmt::format("field \"{}\": a window needs collate = stack", options_.name));
  }
  if (options_.collate != Collate::stack && (layout != InputLayout::none || found.whole.shape.size() < 2)) {
    throw OptionError(
        fmt::format("{}:{} ({}): collate = {} is for samples of one dimension and more that are delivered as "
                    "stored; use collate = stack for field \"{}\"",
                    found.whole.file, short_path(found.whole.path), found.whole.shape_text(),
                    name_of(options_.collate), options_.name));
  }
  Field rows = field_of(std::move(found), tiling, placed, "field", layout, data_geometry);
  NamedField field{.options = options_, .rows = {}, .ragged = {}};
  // Of encoded images only the first is read at open: another that does not decode fails its batch.
  field.rows.emplace(alike_->decodes() ? std::move(rows) : small_field_read(std::move(rows)));
  return field;
}

NamedField NamedFieldOpener::finish_ragged(const DatasetInfo& data, const std::optional<Tiling>& tiling,
                                           const std::optional<SampleRows>& placed) {
  NamedField field{.options = options_, .rows = {}, .ragged = ragged_->finish()};
  const RaggedField& rows = *field.ragged;
  if (rows.rows() != data.rows() && !(placed && placed->per() != FieldUnit::row))
    refuse_rows("field", rows.place(), rows.rows(), data.path, data.rows());
  if (tiling) field.belonging = SampleRows::of_images(*tiling);
  if (placed) field.belonging = *placed;
  if (options_.collate != Collate::stack) return field;
  for (std::uint64_t row = 0; row < rows.rows(); ++row) {
    if (rows.length(row) == rows.length(0)) continue;
    throw DatasetError(
        fmt::format("{}: sample {} has length {}, sample 0 has {}; set collate = pad or ragged for field "
                    "\"{}\"",
                    rows.place(), row, rows.length(row), rows.length(0), options_.name));
  }
  return field;
}

DType NamedField::dtype() const noexcept {
  const DType stored = rows ? rows->info().dtype : ragged->dtype();
  return options.dtype.value_or(options.normalize ? DType::f32 : stored);
}

void check_field_names(std::span<const FieldOptions> fields) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name.empty()) {
      throw OptionError(fmt::format("field {} has no name; give it one, by which Batch::field finds it", i));
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (fields[j].name == fields[i].name)
        throw OptionError(fmt::format("field \"{}\" comes twice; name each once", fields[i].name));
    }
  }
}

Field make_target(FieldOpener::Found found, const DatasetInfo& data, const std::optional<Tiling>& of_data,
                  const std::optional<SampleRows>& placed) {
  check_rows_of("target", found.whole, data, placed);
  const auto geometry_of = [](const DatasetInfo& info, InputLayout) { return target_geometry(info); };
  return small_field_read(
      field_of(std::move(found), of_data, placed, "target", InputLayout::none, geometry_of));
}

}  // namespace h5feed
