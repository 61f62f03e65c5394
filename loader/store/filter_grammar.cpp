// Filters as people write and read them.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>

#include "h5feed/error.hpp"
#include "store/filters.hpp"

namespace h5feed {
namespace {

struct KnownFilter {
  unsigned id;
  std::string_view name;
};

constexpr std::array<KnownFilter, 20> kKnownFilters = {{
    {filter_id::kDeflate, "gzip"},
    {filter_id::kShuffle, "shuffle"},
    {filter_id::kFletcher32, "fletcher32"},
    {4, "szip"},
    {5, "nbit"},
    {6, "scaleoffset"},
    {307, "bzip2"},
    {32000, "lzf"},
    {32001, "blosc"},
    {filter_id::kLz4, "lz4"},
    {32008, "bitshuffle"},
    {32013, "zfp"},
    {filter_id::kZstd, "zstd"},
    {32017, "sz"},
    {32019, "jpeg"},
    {32024, "sz3"},
    {32026, "blosc2"},
    {32028, "sperr"},
    {32031, "jpeg2000"},
    {32012, "lpc-rice"},
}};

[[noreturn]] void refuse(std::string_view text) {
  throw OptionError(fmt::format(
      "filter \"{}\": accepted are none and [shuffle+]gzip:0..9|lz4|zstd:1..22[+fletcher32], for example "
      "shuffle+gzip:4",
      text));
}

// The level behind "name:" in `stage`; `fallback` for the bare name; empty when it is something else.
std::optional<unsigned> level_of(std::string_view stage, std::string_view name, unsigned fallback) {
  if (!stage.starts_with(name)) return std::nullopt;
  stage.remove_prefix(name.size());
  if (stage.empty()) return fallback;
  if (!stage.starts_with(':')) return std::nullopt;
  stage.remove_prefix(1);
  unsigned level = 0;
  const auto [end, error] = std::from_chars(stage.data(), stage.data() + stage.size(), level);
  if (error != std::errc() || end != stage.data() + stage.size()) return std::nullopt;
  return level;
}

std::optional<FilterSpec> parse_compressor(std::string_view stage) {
  // Optional on writing, as libhdf5 flags deflate: a writer may store a chunk without it.
  if (stage == "lz4") return FilterSpec{.id = filter_id::kLz4, .optional = true, .name = "lz4"};
  if (const auto level = level_of(stage, "gzip", 4); level && *level <= 9) {
    return FilterSpec{.id = filter_id::kDeflate, .optional = true, .params = {*level}, .name = "gzip"};
  }
  if (const auto level = level_of(stage, "zstd", 3); level && *level >= 1 && *level <= 22) {
    return FilterSpec{.id = filter_id::kZstd, .optional = true, .params = {*level}, .name = "zstd"};
  }
  return std::nullopt;
}

// Takes the text up to the next '+' off the front.
std::string_view take_stage(std::string_view& rest) {
  const std::size_t plus = rest.find('+');
  const std::string_view stage = rest.substr(0, plus);
  rest = plus == std::string_view::npos ? std::string_view() : rest.substr(plus + 1);
  return stage;
}

}  // namespace

std::string_view filter_name(unsigned id) noexcept {
  for (const KnownFilter& filter : kKnownFilters) {
    if (filter.id == id) return filter.name;
  }
  return {};
}

std::vector<FilterSpec> parse_filters(std::string_view text, std::size_t element_bytes) {
  if (text == "none") return {};
  if (text.empty() || text.ends_with('+')) refuse(text);
  std::vector<FilterSpec> filters;
  std::string_view rest = text;
  std::string_view stage = take_stage(rest);
  if (stage == "shuffle") {
    filters.push_back({.id = filter_id::kShuffle,
                       .optional = true,
                       .params = {static_cast<unsigned>(element_bytes)},
                       .name = "shuffle"});
    // Shuffling alone saves nothing: a compressor must follow.
    stage = take_stage(rest);
    if (stage == "fletcher32") refuse(text);
  }
  if (stage != "fletcher32") {
    const std::optional<FilterSpec> compressor = parse_compressor(stage);
    if (!compressor) refuse(text);
    filters.push_back(*compressor);
    if (rest.empty()) return filters;
    stage = take_stage(rest);
  }
  if (stage != "fletcher32" || !rest.empty()) refuse(text);
  filters.push_back({.id = filter_id::kFletcher32, .name = "fletcher32"});
  return filters;
}

std::string format_filters(const std::vector<FilterSpec>& filters) {
  if (filters.empty()) return "none";
  std::string text;
  for (const FilterSpec& filter : filters) {
    if (!text.empty()) text += '+';
    text += filter.name;
    const bool has_level = filter.id == filter_id::kDeflate || filter.id == filter_id::kZstd;
    if (has_level && !filter.params.empty()) text += fmt::format(":{}", filter.params.front());
  }
  return text;
}

}  // namespace h5feed
