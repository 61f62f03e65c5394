// Filters as people write and read them.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>
#include <utility>

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
    {filter_id::kSzip, "szip"},
    {5, "nbit"},
    {filter_id::kScaleOffset, "scaleoffset"},
    {filter_id::kBzip2, "bzip2"},
    {filter_id::kLzf, "lzf"},
    {filter_id::kBlosc, "blosc"},
    {filter_id::kLz4, "lz4"},
    {filter_id::kBitshuffle, "bitshuffle"},
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
      "filter \"{}\": accepted are none and [shuffle+|bitshuffle+]gzip:0..9|lz4|zstd:1..22|lzf|bzip2:1..9|"
      "bitshuffle:lz4|bitshuffle:zstd:1..22|blosc:blosclz|lz4|lz4hc|zlib|zstd:0..9[+fletcher32], for example "
      "shuffle+gzip:4",
      text));
}

struct LevelRange {
  unsigned least;
  unsigned most;
  unsigned otherwise;
};

constexpr LevelRange kGzipLevels{0, 9, 4};
constexpr LevelRange kBzip2Levels{1, 9, 9};
constexpr LevelRange kZstdLevels{1, 22, 3};
constexpr LevelRange kBloscLevels{0, 9, 5};

// The level behind "name:" in `stage`; the usual one for the bare name; empty for something else.
std::optional<unsigned> level_of(std::string_view stage, std::string_view name, const LevelRange& range) {
  if (!stage.starts_with(name)) return std::nullopt;
  stage.remove_prefix(name.size());
  if (stage.empty()) return range.otherwise;
  if (!stage.starts_with(':')) return std::nullopt;
  stage.remove_prefix(1);
  unsigned level = 0;
  const auto [end, error] = std::from_chars(stage.data(), stage.data() + stage.size(), level);
  if (error != std::errc() || end != stage.data() + stage.size()) return std::nullopt;
  if (level < range.least || level > range.most) return std::nullopt;
  return level;
}

// Compressors inside a blosc container, by the number its parameters give them. Snappy (3) is read,
// but not every libblosc can write it.
struct BloscCodec {
  unsigned number;
  std::string_view name;
};
constexpr unsigned kBloscLz4 = 1;
constexpr std::array<BloscCodec, 5> kBloscCodecs = {
    {{0, "blosclz"}, {kBloscLz4, "lz4"}, {2, "lz4hc"}, {4, "zlib"}, {5, "zstd"}}};

// What the public plugins store as their own version.
constexpr unsigned kBloscFilterVersion = 2, kBloscFormatVersion = 2;
constexpr unsigned kLzfFilterVersion = 4, kLzfLibraryVersion = 0x0105;
constexpr unsigned kBitshuffleMajor = 0, kBitshuffleMinor = 4;
constexpr unsigned kBitshuffleNone = 0, kBitshuffleLz4 = 2, kBitshuffleZstd = 3;

// Optional on writing, as libhdf5 flags deflate: a writer may store a chunk without it.
FilterSpec compressor(unsigned id, std::vector<unsigned> params) {
  return {.id = id, .optional = true, .params = std::move(params), .name = std::string(filter_name(id))};
}

FilterSpec bitshuffle(std::size_t element_bytes, std::vector<unsigned> codec_and_level) {
  std::vector<unsigned> params = {kBitshuffleMajor, kBitshuffleMinor, static_cast<unsigned>(element_bytes),
                                  0};
  params.insert(params.end(), codec_and_level.begin(), codec_and_level.end());
  return compressor(filter_id::kBitshuffle, std::move(params));
}

std::optional<FilterSpec> parse_blosc(std::string_view stage, std::size_t element_bytes, bool shuffled) {
  const auto with = [&](unsigned codec, unsigned level) {
    // Larger elements are shuffled as bytes are: not at all.
    const unsigned type_bytes = element_bytes <= 255 ? static_cast<unsigned>(element_bytes) : 1;
    return compressor(filter_id::kBlosc, {kBloscFilterVersion, kBloscFormatVersion, type_bytes, 0, level,
                                          shuffled ? 0U : 1U, codec});
  };
  if (stage == "blosc") return with(kBloscLz4, kBloscLevels.otherwise);
  if (!stage.starts_with("blosc:")) return std::nullopt;
  stage.remove_prefix(std::string_view("blosc:").size());
  for (const BloscCodec& codec : kBloscCodecs) {
    if (const auto level = level_of(stage, codec.name, kBloscLevels)) return with(codec.number, *level);
  }
  return std::nullopt;
}

std::optional<FilterSpec> parse_compressor(std::string_view stage, std::size_t element_bytes, bool shuffled) {
  if (stage == "lz4") return compressor(filter_id::kLz4, {});
  if (stage == "lzf") return compressor(filter_id::kLzf, {kLzfFilterVersion, kLzfLibraryVersion, 0});
  if (const auto level = level_of(stage, "gzip", kGzipLevels)) {
    return compressor(filter_id::kDeflate, {*level});
  }
  if (const auto level = level_of(stage, "zstd", kZstdLevels)) return compressor(filter_id::kZstd, {*level});
  if (const auto level = level_of(stage, "bzip2", kBzip2Levels)) {
    return compressor(filter_id::kBzip2, {*level});
  }
  if (stage == "bitshuffle:lz4") return bitshuffle(element_bytes, {kBitshuffleLz4});
  if (const auto level = level_of(stage, "bitshuffle:zstd", kZstdLevels)) {
    return bitshuffle(element_bytes, {kBitshuffleZstd, *level});
  }
  return parse_blosc(stage, element_bytes, shuffled);
}

// Takes the text up to the next '+' off the front.
std::string_view take_stage(std::string_view& rest) {
  const std::size_t plus = rest.find('+');
  const std::string_view stage = rest.substr(0, plus);
  rest = plus == std::string_view::npos ? std::string_view() : rest.substr(plus + 1);
  return stage;
}

// What the grammar says behind a filter's name.
std::string parameter_text(const FilterSpec& filter) {
  const std::vector<unsigned>& params = filter.params;
  switch (filter.id) {
    case filter_id::kDeflate:
    case filter_id::kZstd:
    case filter_id::kBzip2:
      return params.empty() ? "" : fmt::format(":{}", params.front());
    case filter_id::kBitshuffle:
      if (params.size() > 4 && params[4] == kBitshuffleLz4) return ":lz4";
      if (params.size() > 4 && params[4] == kBitshuffleZstd) {
        return params.size() > 5 ? fmt::format(":zstd:{}", params[5]) : ":zstd";
      }
      return "";
    case filter_id::kBlosc:
      for (const BloscCodec& codec : kBloscCodecs) {
        if (params.size() > 6 && params[6] == codec.number)
          return fmt::format(":{}:{}", codec.name, params[4]);
      }
      return "";
    default:
      return "";
  }
}

}  // namespace

std::string_view filter_name(unsigned id) noexcept {
  for (const KnownFilter& filter : kKnownFilters) {
    if (filter.id == id) return filter.name;
  }
  return {};
}

std::vector<unsigned> named_filters() {
  std::vector<unsigned> ids;
  for (const KnownFilter& filter : kKnownFilters) ids.push_back(filter.id);
  return ids;
}

std::vector<FilterSpec> parse_filters(std::string_view text, std::size_t element_bytes) {
  if (text == "none") return {};
  if (text.empty() || text.ends_with('+')) refuse(text);
  std::vector<FilterSpec> filters;
  std::string_view rest = text;
  std::string_view stage = take_stage(rest);
  const bool shuffled = stage == "shuffle" || stage == "bitshuffle";
  if (shuffled) {
    filters.push_back(stage == "shuffle"
                          ? compressor(filter_id::kShuffle, {static_cast<unsigned>(element_bytes)})
                          : bitshuffle(element_bytes, {kBitshuffleNone}));
    // Shuffling alone saves nothing: a compressor must follow.
    stage = take_stage(rest);
    if (stage == "fletcher32") refuse(text);
  }
  if (stage != "fletcher32") {
    const std::optional<FilterSpec> parsed = parse_compressor(stage, element_bytes, shuffled);
    if (!parsed) refuse(text);
    filters.push_back(*parsed);
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
    text += filter.name + parameter_text(filter);
  }
  return text;
}

}  // namespace h5feed
