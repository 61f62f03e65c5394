// SPDX-License-Identifier: Apache-2.0
// Names of options, for programs that read options from a file or write them into one.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <optional>
#include <string_view>
#include <type_traits>

#include "h5feed/augment.hpp"
#include "h5feed/dataset.hpp"
#include "h5feed/episodes.hpp"
#include "h5feed/field.hpp"
#include "h5feed/options.hpp"
#include "h5feed/sparse.hpp"
#include "h5feed/tiles.hpp"

namespace h5feed {

/// One value of an enumeration, and the word that stands for it in configuration files, in Python and on the
/// command line.
template <typename Enum>
struct OptionWord {
  std::string_view text;  ///< such as "by_chunk"; lives as long as the program
  Enum value;             ///< the value that it stands for
};

/// Words of the enumeration `Enum`, a `std::array` of `OptionWord<Enum>`. If a value has several words, the
/// first is the one to write. `DType` has `name_of` and `dtype_from_name` instead.
template <typename Enum>
inline constexpr std::array<OptionWord<Enum>, 0> kOptionWords = {};
/// Words of `InputLayout`.
template <>
inline constexpr std::array<OptionWord<InputLayout>, 9> kOptionWords<InputLayout> = {
    {{"auto", InputLayout::automatic},
     {"automatic", InputLayout::automatic},
     {"nchw", InputLayout::nchw},
     {"nhwc", InputLayout::nhwc},
     {"nhw", InputLayout::nhw},
     {"ncdhw", InputLayout::ncdhw},
     {"ndhwc", InputLayout::ndhwc},
     {"ndhw", InputLayout::ndhw},
     {"none", InputLayout::none}}};
/// Words of `Isolation`.
template <>
inline constexpr std::array<OptionWord<Isolation>, 2> kOptionWords<Isolation> = {
    {{"none", Isolation::none}, {"process", Isolation::process}}};
/// Words of `SampleUnit`.
template <>
inline constexpr std::array<OptionWord<SampleUnit>, 2> kOptionWords<SampleUnit> = {
    {{"row", SampleUnit::row}, {"dataset", SampleUnit::dataset}}};
/// Words of `ImageColor`.
template <>
inline constexpr std::array<OptionWord<ImageColor>, 4> kOptionWords<ImageColor> = {
    {{"rgb", ImageColor::rgb},
     {"bgr", ImageColor::bgr},
     {"gray", ImageColor::gray},
     {"unchanged", ImageColor::unchanged}}};
/// Words of `TileEdges`.
template <>
inline constexpr std::array<OptionWord<TileEdges>, 3> kOptionWords<TileEdges> = {
    {{"drop", TileEdges::drop}, {"pad", TileEdges::pad}, {"shift", TileEdges::shift}}};
/// Words of `TileTurns`.
template <>
inline constexpr std::array<OptionWord<TileTurns>, 4> kOptionWords<TileTurns> = {
    {{"none", TileTurns::none},
     {"flips", TileTurns::flips},
     {"planar", TileTurns::planar},
     {"all", TileTurns::all}}};
/// Words of `EpisodeOptions::Index`.
template <>
inline constexpr std::array<OptionWord<EpisodeOptions::Index>, 5> kOptionWords<EpisodeOptions::Index> = {
    {{"datasets", EpisodeOptions::Index::datasets},
     {"lengths", EpisodeOptions::Index::lengths},
     {"ends", EpisodeOptions::Index::ends},
     {"ids", EpisodeOptions::Index::ids},
     {"series", EpisodeOptions::Index::series}}};
/// Words of `EpisodeOptions::Anchors`.
template <>
inline constexpr std::array<OptionWord<EpisodeOptions::Anchors>, 2> kOptionWords<EpisodeOptions::Anchors> = {
    {{"every", EpisodeOptions::Anchors::every}, {"one_random", EpisodeOptions::Anchors::one_random}}};
/// Words of `EpisodeOptions::Fill`.
template <>
inline constexpr std::array<OptionWord<EpisodeOptions::Fill>, 2> kOptionWords<EpisodeOptions::Fill> = {
    {{"repeat", EpisodeOptions::Fill::repeat}, {"zero", EpisodeOptions::Fill::zero}}};
/// Words of `FieldUnit`.
template <>
inline constexpr std::array<OptionWord<FieldUnit>, 3> kOptionWords<FieldUnit> = {
    {{"row", FieldUnit::row}, {"episode", FieldUnit::episode}, {"file", FieldUnit::file}}};
/// Words of `SplitBy`.
template <>
inline constexpr std::array<OptionWord<SplitBy>, 4> kOptionWords<SplitBy> = {
    {{"automatic", SplitBy::automatic},
     {"auto", SplitBy::automatic},
     {"sample", SplitBy::sample},
     {"part", SplitBy::part}}};
/// Words of `SparseFormat`.
template <>
inline constexpr std::array<OptionWord<SparseFormat>, 2> kOptionWords<SparseFormat> = {
    {{"csr", SparseFormat::csr}, {"dense", SparseFormat::dense}}};
/// Words of `Collate`.
template <>
inline constexpr std::array<OptionWord<Collate>, 3> kOptionWords<Collate> = {
    {{"stack", Collate::stack}, {"pad", Collate::pad}, {"ragged", Collate::ragged}}};
/// Words of `Shard`.
template <>
inline constexpr std::array<OptionWord<Shard>, 3> kOptionWords<Shard> = {
    {{"strided", Shard::strided}, {"contiguous", Shard::contiguous}, {"by_chunk", Shard::by_chunk}}};
/// Words of `Uneven`.
template <>
inline constexpr std::array<OptionWord<Uneven>, 3> kOptionWords<Uneven> = {
    {{"exact", Uneven::exact}, {"pad", Uneven::pad}, {"drop", Uneven::drop}}};
/// Words of `CachePolicy`.
template <>
inline constexpr std::array<OptionWord<CachePolicy>, 3> kOptionWords<CachePolicy> = {
    {{"lru", CachePolicy::lru},
     {"clairvoyant", CachePolicy::clairvoyant},
     {"keep_first", CachePolicy::keep_first}}};
/// Words of `RowReads`.
template <>
inline constexpr std::array<OptionWord<RowReads>, 4> kOptionWords<RowReads> = {
    {{"automatic", RowReads::automatic},
     {"auto", RowReads::automatic},
     {"always", RowReads::always},
     {"never", RowReads::never}}};
/// Words of `OnError`.
template <>
inline constexpr std::array<OptionWord<OnError>, 3> kOptionWords<OnError> = {
    {{"fail", OnError::fail}, {"skip", OnError::skip}, {"replace", OnError::replace}}};
/// Words of `OutputLayout`.
template <>
inline constexpr std::array<OptionWord<OutputLayout>, 2> kOptionWords<OutputLayout> = {
    {{"nchw", OutputLayout::nchw}, {"channels_last", OutputLayout::channels_last}}};
/// Words of `OutputMemory`.
template <>
inline constexpr std::array<OptionWord<OutputMemory>, 2> kOptionWords<OutputMemory> = {
    {{"ring", OutputMemory::ring}, {"consumer", OutputMemory::consumer}}};

/// Returns the value that a word of `Enum` stands for, or nothing for other texts. Words of `InputLayout` may
/// be in any case, such as "NCHW".
template <typename Enum>
constexpr std::optional<Enum> option_value(std::string_view text) noexcept {
  const auto same = [](char given, char in_word) {
    const bool folds = std::same_as<Enum, InputLayout> && given >= 'A' && given <= 'Z';
    return (folds ? static_cast<char>(given - 'A' + 'a') : given) == in_word;
  };
  for (const OptionWord<Enum>& word : kOptionWords<Enum>) {
    if (std::ranges::equal(text, word.text, same)) return word.value;
  }
  return std::nullopt;
}

/// Whether `Options` is the struct of options `Struct`, const or not.
template <typename Options, typename Struct>
concept OptionsOf = std::same_as<std::remove_const_t<Options>, Struct>;

/// Calls `visit(name, value)` for every option that is a value, in the order of declaration: `name` is the
/// member's name as a `const char*`, `value` a reference to the member. Functions, samplers, probes and
/// backends have no values and are left out. Options that are structs have overloads of their own. Throws
/// what `visit` throws.
template <OptionsOf<Normalize> Options, typename Visit>
void visit_options(Options& options, Visit visit) {
  visit("scale", options.scale);
  visit("mean", options.mean);
  visit("std", options.std);
}

/// Visits the options of image decoding, as the overload for `Normalize` does.
template <OptionsOf<ImageOptions> Options, typename Visit>
void visit_options(Options& options, Visit visit) {
  visit("height", options.height);
  visit("width", options.width);
  visit("color", options.color);
  visit("shapes", options.shapes);
}

/// Visits the options of tiles, as the overload for `Normalize` does.
template <OptionsOf<TileOptions> Options, typename Visit>
void visit_options(Options& options, Visit visit) {
  visit("size", options.size);
  visit("stride", options.stride);
  visit("overlap", options.overlap);
  visit("edges", options.edges);
  visit("per_image", options.per_image);
  visit("foreground", options.foreground);
  visit("min_foreground", options.min_foreground);
  visit("labels", options.labels);
  visit("turns", options.turns);
}

/// Visits the options of a field, as the overload for `Normalize` does.
template <OptionsOf<FieldOptions> Options, typename Visit>
void visit_options(Options& options, Visit visit) {
  visit("name", options.name);
  visit("data", options.data);
  visit("files", options.files);
  visit("sample", options.sample);
  visit("input_layout", options.input_layout);
  visit("images", options.images);
  visit("collate", options.collate);
  visit("dtype", options.dtype);
  visit("normalize", options.normalize);
  visit("window", options.window);
  visit("per", options.per);
}

/// Visits the options of episodes, as the overload for `Normalize` does.
template <OptionsOf<EpisodeOptions> Options, typename Visit>
void visit_options(Options& options, Visit visit) {
  visit("index", options.index);
  visit("table", options.table);
  visit("only", options.only);
  visit("anchors", options.anchors);
  visit("missing_before", options.missing_before);
  visit("missing_after", options.missing_after);
  visit("fill", options.fill);
}

/// Visits the options of sparse rows, as the overload for `Normalize` does.
template <OptionsOf<SparseOptions> Options, typename Visit>
void visit_options(Options& options, Visit visit) {
  visit("format", options.format);
  visit("columns", options.columns);
}

/// Visits the options of a dataset, as the overload for `Normalize` does.
template <OptionsOf<DatasetOptions> Options, typename Visit>
void visit_options(Options& options, Visit visit) {
  visit("files", options.files);
  visit("data", options.data);
  visit("target", options.target);
  visit("target_files", options.target_files);
  visit("sample", options.sample);
  visit("input_layout", options.input_layout);
  visit("unit_range", options.unit_range);
  visit("images", options.images);
  visit("tiles", options.tiles);
  visit("episodes", options.episodes);
  visit("window", options.window);
  visit("channels", options.channels);
  visit("target_window", options.target_window);
  visit("sparse", options.sparse);
  visit("fields", options.fields);
  visit("stage_dir", options.stage_dir);
  visit("isolation", options.isolation);
  visit("isolation_timeout", options.isolation_timeout);
  visit("isolation_memory_bytes", options.isolation_memory_bytes);
}

/// Visits the options of a crop, as the overload for `Normalize` does.
template <OptionsOf<Augment::RandomCrop> Options, typename Visit>
void visit_options(Options& options, Visit visit) {
  visit("height", options.height);
  visit("width", options.width);
  visit("padding", options.padding);
}

/// Visits the options of a resized crop, as the overload for `Normalize` does.
template <OptionsOf<Augment::RandomResizedCrop> Options, typename Visit>
void visit_options(Options& options, Visit visit) {
  visit("height", options.height);
  visit("width", options.width);
  visit("min_scale", options.min_scale);
  visit("max_scale", options.max_scale);
  visit("min_ratio", options.min_ratio);
  visit("max_ratio", options.max_ratio);
}

/// Visits the options of crops and flips, as the overload for `Normalize` does.
template <OptionsOf<Augment> Options, typename Visit>
void visit_options(Options& options, Visit visit) {
  visit("horizontal_flip", options.horizontal_flip);
  visit("vertical_flip", options.vertical_flip);
  visit("random_crop", options.random_crop);
  visit("random_resized_crop", options.random_resized_crop);
}

/// Visits the options of echo, as the overload for `Normalize` does.
template <OptionsOf<Echo> Options, typename Visit>
void visit_options(Options& options, Visit visit) {
  visit("factor", options.factor);
}

/// Visits the options of a loader, as the overload for `Normalize` does.
template <OptionsOf<DataLoaderOptions> Options, typename Visit>
void visit_options(Options& options, Visit visit) {
  visit("batch_size", options.batch_size);
  visit("drop_last", options.drop_last);
  visit("in_order", options.in_order);
  visit("timeout", options.timeout);
  visit("echo", options.echo);
  visit("shuffle", options.shuffle);
  visit("seed", options.seed);
  visit("num_workers", options.num_workers);
  visit("cpu_limit", options.cpu_limit);
  visit("prefetch_factor", options.prefetch_factor);
  visit("prefetch_bytes", options.prefetch_bytes);
  visit("io_depth", options.io_depth);
  visit("rank", options.rank);
  visit("world_size", options.world_size);
  visit("local_world_size", options.local_world_size);
  visit("shard", options.shard);
  visit("uneven", options.uneven);
  visit("cache_bytes", options.cache_bytes);
  visit("cache_policy", options.cache_policy);
  visit("memory_budget_bytes", options.memory_budget_bytes);
  visit("preload", options.preload);
  visit("row_reads", options.row_reads);
  visit("on_error", options.on_error);
  visit("max_bad_share", options.max_bad_share);
  visit("bad_list", options.bad_list);
  visit("normalize", options.normalize);
  visit("output_dtype", options.output_dtype);
  visit("output_layout", options.output_layout);
  visit("augment", options.augment);
  visit("target_dtype", options.target_dtype);
  visit("device", options.device);
  visit("pin_memory", options.pin_memory);
  visit("copy_depth", options.copy_depth);
  visit("output_memory", options.output_memory);
  visit("gpu_cache_bytes", options.gpu_cache_bytes);
  visit("provenance", options.provenance);
  visit("trace_path", options.trace_path);
  visit("epoch_log", options.epoch_log);
  visit("headroom", options.headroom);
}

}  // namespace h5feed
