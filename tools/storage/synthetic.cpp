// SPDX-License-Identifier: Apache-2.0
#include "tools/storage/synthetic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "h5feed/error.hpp"

namespace h5feed::cli {
namespace {

constexpr std::size_t kTileColumns = 32;
constexpr std::size_t kTileLines = 8;

// Independent streams of random numbers.
enum class Stream : std::uint64_t { label = 1, brightness, tile_class, tile_kind, grain, token };

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection that mixes all bits.
constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

constexpr std::uint64_t key(std::uint64_t seed, Stream stream, std::uint64_t a,
                            std::uint64_t b = 0) noexcept {
  return mix(mix(mix(seed ^ static_cast<std::uint64_t>(stream) << 56U) + a) + b);
}

// Uniform over [0, range) for range up to 2^32, by the upper 32 bits.
constexpr std::uint64_t below(std::uint64_t random, std::uint64_t range) noexcept {
  return ((random >> 32U) * range) >> 32U;
}

constexpr double as_share(std::uint64_t random) noexcept {
  return static_cast<double>(random >> 11U) * 0x1p-53;
}

// Returns the stored bytes per byte of noise under gzip:4; measured with libdeflate.
double grain_cost(DType dtype) {
  switch (dtype) {
    case DType::u8:
      return 0.95;
    case DType::f32:
      return 0.88;
    default:
      return 0.99;
  }
}

// Returns the stored bytes per byte of smooth tiles under gzip:4. A line of a tile is about one match; if no
// other tile is next to it, its lines are one run, of which a match covers up to 258 bytes.
double smooth_cost(std::size_t line_elements, std::size_t element_bytes) {
  constexpr double kMatchBytes = 3.2;
  constexpr std::size_t kLongestMatch = 258;
  const std::size_t run_bytes = line_elements > kTileColumns
                                    ? kTileColumns * element_bytes
                                    : std::min(kLongestMatch, kTileLines * line_elements * element_bytes);
  return std::min(1.0, kMatchBytes / static_cast<double>(run_bytes));
}

template <typename T>
T smooth_value(std::uint64_t brightness) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(brightness) / static_cast<T>(255);
  } else {
    return static_cast<T>(brightness * (std::numeric_limits<T>::max() / 255));
  }
}

// Returns noise around the brightness: half of the range is noise. `bits` has at least as many bits as T.
template <typename T>
T grain_value(std::uint64_t brightness, std::uint64_t bits) {
  if constexpr (std::is_floating_point_v<T>) {
    return smooth_value<T>(brightness) / 2 + static_cast<T>(bits & 0xFFFFFFU) * static_cast<T>(0x1p-25);
  } else {
    return static_cast<T>(smooth_value<T>(brightness) / 2 + (bits & (std::numeric_limits<T>::max() / 2)));
  }
}

template <typename T>
std::span<T> elements(std::span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

}  // namespace

std::uint64_t synthetic_label(std::uint64_t seed, std::uint64_t sample, std::uint64_t classes) noexcept {
  return below(key(seed, Stream::label, sample), classes);
}

const std::vector<DType>& SyntheticImages::dtypes() {
  static const std::vector<DType> kTypes = {DType::u8, DType::u16, DType::f32};
  return kTypes;
}

SyntheticImages::SyntheticImages(std::uint64_t seed, std::vector<std::uint64_t> shape, DType dtype,
                                 std::uint64_t classes, double ratio)
    : seed_(seed), dtype_(dtype), classes_(classes) {
  // Handles (…,H,W,3) as well as (…,3,H,W): a small last dimension belongs to the line.
  line_elements_ = static_cast<std::size_t>(shape.back());
  if (shape.size() >= 2 && shape.back() <= 4)
    line_elements_ *= static_cast<std::size_t>(shape[shape.size() - 2]);
  const double smooth = smooth_cost(line_elements_, size_of(dtype));
  grain_share_ = std::clamp((1 / ratio - smooth) / (grain_cost(dtype) - smooth), 0.0, 1.0);
}

template <typename T>
void SyntheticImages::fill_as(std::uint64_t sample, std::span<T> out) const {
  constexpr std::size_t kPerRandom = sizeof(std::uint64_t) / sizeof(T);
  const std::uint64_t label = synthetic_label(seed_, sample, classes_);
  const std::uint64_t lightness = below(key(seed_, Stream::brightness, sample), 96);
  const std::size_t tiles_across = (line_elements_ + kTileColumns - 1) / kTileColumns;
  const std::uint64_t grain = key(seed_, Stream::grain, sample);
  for (std::size_t begin = 0; begin < out.size();) {
    const std::size_t line = begin / line_elements_;
    const std::size_t column = begin % line_elements_;
    const std::uint64_t tile = line / kTileLines * tiles_across + column / kTileColumns;
    const std::size_t length = std::min({kTileColumns, line_elements_ - column, out.size() - begin});
    const std::span<T> run = out.subspan(begin, length);
    const std::uint64_t brightness = below(key(seed_, Stream::tile_class, label, tile), 160) + lightness;
    if (as_share(key(seed_, Stream::tile_kind, sample, tile)) >= grain_share_) {
      std::fill(run.begin(), run.end(), smooth_value<T>(brightness));
    } else {
      for (std::size_t i = 0; i < length; ++i) {
        const std::uint64_t random = mix(grain + (begin + i) / kPerRandom);
        const auto shift = static_cast<unsigned>((begin + i) % kPerRandom * sizeof(T) * 8);
        run[i] = grain_value<T>(brightness, random >> shift);
      }
    }
    begin += length;
  }
}

void SyntheticImages::fill(std::uint64_t sample, std::span<std::byte> out) const {
  switch (dtype_) {
    case DType::u16:
      return fill_as(sample, elements<std::uint16_t>(out));
    case DType::f32:
      return fill_as(sample, elements<float>(out));
    default:
      return fill_as(sample, elements<std::uint8_t>(out));
  }
}

const std::vector<DType>& SyntheticTokens::dtypes() {
  static const std::vector<DType> kTypes = {DType::u8,  DType::i8,  DType::u16, DType::i16,
                                            DType::u32, DType::i32, DType::u64, DType::i64};
  return kTypes;
}

namespace {

// Returns the lowest and highest value of an integer type, clipped to int64.
std::pair<std::int64_t, std::int64_t> value_range(DType dtype) {
  const auto bits = static_cast<unsigned>(size_of(dtype) * 8);
  const bool is_signed = name_of(dtype).starts_with('i');
  const std::int64_t highest = bits == 64 ? std::numeric_limits<std::int64_t>::max()
                                          : (std::int64_t{1} << (bits - (is_signed ? 1U : 0U))) - 1;
  return {is_signed ? -highest - 1 : 0, highest};
}

}  // namespace

SyntheticTokens::SyntheticTokens(std::uint64_t seed, DType dtype, std::int64_t low, std::int64_t high)
    : seed_(seed),
      dtype_(dtype),
      low_(low),
      range_(static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low)) {
  if (high <= low || range_ > (std::uint64_t{1} << 32U)) {
    throw OptionError(
        fmt::format("--low {} --high {}: high must be above low, by at most 4294967296", low, high));
  }
  const auto [lowest, highest] = value_range(dtype);
  if (low < lowest || high - 1 > highest) {
    throw OptionError(fmt::format("--low {} --high {}: {} holds {} to {}; choose a wider --dtype", low, high,
                                  name_of(dtype), lowest, highest));
  }
}

template <typename T>
void SyntheticTokens::fill_as(std::uint64_t sample, std::span<T> out) const {
  const std::uint64_t stream = key(seed_, Stream::token, sample);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<T>(static_cast<std::uint64_t>(low_) + below(mix(stream + i), range_));
  }
}

void SyntheticTokens::fill(std::uint64_t sample, std::span<std::byte> out) const {
  // The constructor has checked that the values fit, so the unsigned type has the same bits.
  switch (size_of(dtype_)) {
    case 1:
      return fill_as(sample, elements<std::uint8_t>(out));
    case 2:
      return fill_as(sample, elements<std::uint16_t>(out));
    case 4:
      return fill_as(sample, elements<std::uint32_t>(out));
    default:
      return fill_as(sample, elements<std::uint64_t>(out));
  }
}

}  // namespace h5feed::cli
