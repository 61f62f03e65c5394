// SPDX-License-Identifier: Apache-2.0
#include "tools/program/option_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "base/byte_units.hpp"
#include "base/option_spelling.hpp"
#include "base/terminal_text.hpp"
#include "h5feed/error.hpp"
#include "h5feed/option_names.hpp"

namespace h5feed::cli {
namespace {

[[noreturn]] void refuse(std::string_view option, std::string_view text, std::string_view accepted) {
  throw OptionError(fmt::format("{} \"{}\": give {}", option, abridged(text), accepted));
}

// Names no bound: most options have a smaller one than their integer type, which is checked later.
[[noreturn]] void refuse_large(std::string_view option, std::string_view text) {
  throw OptionError(fmt::format("{} \"{}\" is too large; give a smaller number", option, abridged(text)));
}

template <typename T>
std::optional<T> whole(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || stop != end) return std::nullopt;
  return value;
}

constexpr std::string_view kDigits = "0123456789";
constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

bool all_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of(kDigits) == std::string_view::npos;
}

// Returns whether a text that is not a valid size would be one if its number were smaller.
bool size_too_large(std::string_view text) {
  const auto whole_end = std::min(text.find_first_not_of(kDigits), text.size());
  std::string_view rest = text.substr(whole_end);
  if (rest.starts_with('.')) rest.remove_prefix(std::min(rest.find_first_not_of(kDigits, 1), rest.size()));
  return whole_end > 0 && parse_bytes(fmt::format("1 {}", rest)).has_value();
}

std::optional<double> real(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (text.empty() || error != std::errc() || stop != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto at = text.find_first_of(separators);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

// Parses a word of `Enum`, in any case.
template <typename Enum>
Enum parse_word(std::string_view option, std::string_view text, std::string_view accepted) {
  const std::optional<Enum> value = option_value<Enum>(lower(text));
  if (!value) refuse(option, text, accepted);
  return *value;
}

// Parses one number for height and width, or both, or with `deep` depth, height and width.
TileExtent parse_extent(std::string_view option, std::string_view text, bool deep, std::int64_t lowest = 1) {
  const std::vector<std::string_view> parts = split(text, "x");
  std::vector<std::int64_t> extents;
  for (const std::string_view part : parts) {
    const auto extent = whole<std::int64_t>(part);
    if (all_digits(part) && !extent) refuse_large(option, part);
    if (extent && *extent >= lowest) extents.push_back(*extent);
  }
  if (extents.size() < parts.size() || parts.size() > (deep ? 3 : 2)) {
    refuse(option, text,
           deep ? "pixels, such as 512, or 512x768 for height and width, or 64x128x128 for depth, height and "
                  "width"
                : "pixels, such as 512, or 512x768 for height and width");
  }
  if (extents.size() == 3) return {extents[0], extents[1], extents[2]};
  return {extents.front(), extents.back()};
}

}  // namespace

std::optional<std::string> command_line_option(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 25> kOptions = {{
      {"data", "--data"},
      {"target", "--target"},
      {"dataset", "--dataset"},
      {"sample", "--sample"},
      {"input_layout", "--input-layout"},
      {kImageSize, "--image-size"},
      {"images.color", "--image-color"},
      {"images.shapes", "--image-shapes"},
      {"tiles.size", "--tile-size"},
      {"tiles.stride", "--tile-stride"},
      {"tiles.overlap", "--tile-overlap"},
      {"tiles.edges", "--tile-edges"},
      {"tiles.per_image", "--tile-per-image"},
      {"tiles.foreground", "--tile-foreground"},
      {"tiles.min_foreground", "--tile-min-foreground"},
      {"tiles.turns", "--tile-turns"},
      {"batch_size", "--batch-size"},
      {"num_workers", "--num-workers"},
      {"shuffle", "--shuffle"},
      {"cache_bytes", "--cache-bytes"},
      {"cache_policy", "--cache-policy"},
      {"memory_budget_bytes", "--memory-budget-bytes"},
      {"bad_list", "--bad-list"},
      {"on_error", "--on-error"},
      {"max_bad_share", "--max-bad-share"},
  }};
  const auto found = std::ranges::find(kOptions, name, [](const auto& option) { return option.first; });
  if (found == kOptions.end()) return std::nullopt;
  return std::string(found->second);
}

SampleUnit parse_unit(const SampleText& text) {
  if (text.unit.empty()) return SampleUnit::row;
  return parse_word<SampleUnit>("--sample", text.unit, "row, or dataset: each dataset as a whole");
}

ImageOptions parse_images(const SampleText& text) {
  ImageOptions images{.shapes = text.image_shapes};
  if (!text.image_size.empty()) {
    const TileExtent size = parse_extent("--image-size", text.image_size, false);
    images.height = size.height;
    images.width = size.width;
  }
  if (!text.image_color.empty()) {
    images.color = parse_word<ImageColor>("--image-color", text.image_color, "rgb, bgr, gray or unchanged");
  }
  return images;
}

std::optional<TileOptions> parse_tiles(const TileText& text) {
  if (text.size.empty()) {
    for (const auto& [option, value] :
         {std::pair("--tile-stride", &text.stride), std::pair("--tile-overlap", &text.overlap),
          std::pair("--tile-edges", &text.edges), std::pair("--tile-per-image", &text.per_image),
          std::pair("--tile-foreground", &text.foreground),
          std::pair("--tile-min-foreground", &text.min_foreground), std::pair("--tile-turns", &text.turns)}) {
      if (!value->empty()) throw OptionError(fmt::format("{} needs --tile-size", option));
    }
    return std::nullopt;
  }
  TileOptions tiles{.size = parse_extent("--tile-size", text.size, true)};
  if (!text.stride.empty()) tiles.stride = parse_extent("--tile-stride", text.stride, true);
  if (!text.overlap.empty()) tiles.overlap = parse_extent("--tile-overlap", text.overlap, true, 0);
  if (!text.edges.empty())
    tiles.edges = parse_word<TileEdges>("--tile-edges", text.edges, "drop, pad or shift");
  if (!text.per_image.empty())
    tiles.per_image = static_cast<std::int64_t>(parse_number("--tile-per-image", text.per_image));
  if (!text.foreground.empty()) tiles.foreground = parse_real("--tile-foreground", text.foreground, 0, 1);
  if (!text.min_foreground.empty())
    tiles.min_foreground = parse_real("--tile-min-foreground", text.min_foreground, 0, 1);
  if (!text.turns.empty())
    tiles.turns = parse_word<TileTurns>("--tile-turns", text.turns, "none, flips, planar or all");
  return tiles;
}

std::uint64_t parse_number(std::string_view option, std::string_view text, std::uint64_t lowest,
                           std::uint64_t highest) {
  const auto value = whole<std::uint64_t>(text);
  if (value && *value >= lowest && *value <= highest) return *value;
  if (highest >= kLargest) {
    if (all_digits(text) && (!value || *value > highest)) refuse_large(option, text);
    refuse(option, text, fmt::format("a whole number from {} on", lowest));
  }
  refuse(option, text, fmt::format("a whole number from {} to {}", lowest, highest));
}

std::int64_t parse_integer(std::string_view option, std::string_view text) {
  const auto value = whole<std::int64_t>(text);
  if (value) return *value;
  if (all_digits(text)) refuse_large(option, text);
  if (text.starts_with('-') && all_digits(text.substr(1)))
    throw OptionError(fmt::format("{} \"{}\" is too small; give a larger number", option, abridged(text)));
  refuse(option, text, "a whole number");
}

std::int64_t parse_count(std::string_view option, std::string_view text) {
  return static_cast<std::int64_t>(parse_number(option, text, 0, kLargest));
}

double parse_real(std::string_view option, std::string_view text, double lowest, double highest) {
  const auto value = real(text);
  if (!value || *value < lowest || *value > highest) {
    refuse(option, text, fmt::format("a number from {} to {}", lowest, highest));
  }
  return *value;
}

double parse_share(std::string_view option, std::string_view text) {
  std::string_view number = text;
  if (number.ends_with('%')) {
    number.remove_suffix(1);
    if (number.ends_with(' ')) number.remove_suffix(1);
    const auto value = real(number);
    if (value && *value > 0 && *value <= 100) return *value / 100;
  }
  refuse(option, text, "a percentage above 0 and up to 100, such as 1%");
}

std::uint64_t parse_size(std::string_view option, std::string_view text) {
  constexpr std::uint64_t kMost = std::uint64_t{1}
                                  << 62U;  // as for the bytes of a dataset; sums do not overflow
  const auto value = parse_bytes(text);
  if (value && *value <= kMost) return *value;
  if (!value && !size_too_large(text)) refuse(option, text, "a size such as 512MiB or 1.5GiB");
  throw OptionError(
      fmt::format("{} \"{}\" is too large; give at most 4 EiB (2^62 bytes)", option, abridged(text)));
}

std::chrono::nanoseconds parse_duration(std::string_view option, std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, double>, 4> kUnits = {
      {{"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"", 1e9}}};
  for (const auto& [unit, nanoseconds] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const auto value = real(text.substr(0, text.size() - unit.size()));
    if (!value || *value <= 0) break;
    // Limits times, so that sums of them cannot overflow.
    if (*value * nanoseconds > 86400e9)
      throw OptionError(
          fmt::format("{} \"{}\" is too long; give at most a day (1440m)", option, abridged(text)));
    return std::chrono::nanoseconds(static_cast<std::int64_t>(*value * nanoseconds));
  }
  refuse(option, text, "a time such as 3s, 500ms or 2m");
}

std::vector<std::uint64_t> parse_shape(std::string_view option, std::string_view text, const char* form) {
  std::vector<std::uint64_t> shape;
  std::uint64_t elements = 1;
  for (const std::string_view part : split(text, ",x")) {
    const auto extent = whole<std::uint64_t>(part);
    if (!all_digits(part) || extent == 0U) refuse(option, text, form);
    if (!extent || *extent > kLargest / elements)
      throw OptionError(
          fmt::format("{} \"{}\" is too large; its product must be below 2^63", option, abridged(text)));
    elements *= *extent;
    shape.push_back(*extent);
  }
  return shape;
}

std::vector<std::int64_t> parse_list(std::string_view option, std::string_view text) {
  std::vector<std::int64_t> values;
  for (const std::string_view part : split(text, ",")) {
    const auto value = whole<std::int64_t>(part);
    if (all_digits(part) && !value) refuse_large(option, part);
    if (!value || *value < 0) refuse(option, text, "numbers from 0 on, separated by commas, such as 0,1,2,4");
    values.push_back(*value);
  }
  return values;
}

std::vector<std::int64_t> parse_workers(std::string_view option, std::string_view text) {
  std::vector<std::int64_t> values;
  for (const std::string_view part : split(text, ",")) {
    const auto value = part == "auto" ? kAuto : whole<std::int64_t>(part);
    if (all_digits(part) && !value) refuse_large(option, part);
    if (!value || (*value < 0 && part != "auto"))
      refuse(option, text, "numbers from 0 on or auto, separated by commas, such as 0,1,2,auto");
    values.push_back(*value);
  }
  return values;
}

DType parse_dtype(std::string_view option, std::string_view text, const std::vector<DType>& allowed) {
  const auto dtype = dtype_from_name(text);
  if (dtype && std::find(allowed.begin(), allowed.end(), *dtype) != allowed.end()) return *dtype;
  std::vector<std::string_view> names;
  for (const DType candidate : allowed) names.push_back(name_of(candidate));
  refuse(option, text, fmt::format("one of {}", fmt::join(names, ", ")));
}

InputLayout parse_layout(std::string_view option, std::string_view text) {
  return parse_word<InputLayout>(option, text, "auto, NCHW, NHWC, NHW, NCDHW, NDHWC, NDHW or none");
}

CachePolicy parse_cache_policy(std::string_view option, std::string_view text) {
  return parse_word<CachePolicy>(option, text, "lru, clairvoyant or keep_first");
}

OnError parse_on_error(std::string_view option, std::string_view text) {
  return parse_word<OnError>(option, text, "fail, skip or replace");
}

Shard parse_shard(std::string_view option, std::string_view text) {
  return parse_word<Shard>(option, text, "strided, contiguous or by_chunk");
}

std::optional<std::uint64_t> parse_chunk(std::string_view option, std::string_view text, bool allow_auto) {
  if (allow_auto && text == "auto") return std::nullopt;
  if (text == "none") return 0;
  const auto samples = whole<std::uint64_t>(text);
  if (all_digits(text) && (!samples || *samples > kLargest)) refuse_large(option, text);
  if (!samples || *samples == 0) {
    refuse(option, text,
           fmt::format("samples per chunk, {}or none for contiguous storage", allow_auto ? "auto, " : ""));
  }
  return samples;
}

}  // namespace h5feed::cli
