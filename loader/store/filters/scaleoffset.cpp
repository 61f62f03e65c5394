// SPDX-License-Identifier: Apache-2.0
// HDF5 filter 6 (scaleoffset).
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <type_traits>

#include "store/filters/bytes.hpp"
#include "store/filters/entry.hpp"
#include "store/filters/packed_values.hpp"
#include "store/format/byte_order.hpp"

namespace h5feed {
namespace {

// Client data, which libhdf5 derives from the dataset: {scale type, scale factor, elements per chunk, class,
// element bytes, sign, byte order, whether a fill value is defined, the fill value in 12 words}.
struct ScaleOffsetParams {
  enum class Class : unsigned { integer = 0, floating = 1 };

  // Returns empty if h5feed cannot decode the filter: other numbers of parameters, sizes or scale types than
  // libhdf5 writes.
  static std::optional<ScaleOffsetParams> from(const std::vector<unsigned>& params) noexcept;

  Class value_class = Class::integer;
  int decimal_digits = 0;  // Floats: the power of ten that they were multiplied by
  std::size_t elements = 0;
  std::size_t element_bytes = 1;  // 1, 2, 4 or 8; floats: 4 or 8
  bool is_signed = false;         // Only for integers
  bool big_endian = false;
  bool stores_as_is = false;                // Integers with all their bits: the filter changes nothing
  std::optional<std::uint64_t> fill_value;  // The element's bits, in the low bytes

  // Returns the bytes of a decoded chunk.
  std::size_t decoded_bytes() const noexcept { return elements * element_bytes; }
};

// Indices in the client data.
enum Place : std::size_t {
  kScaleType,
  kScaleFactor,
  kElements,
  kClass,
  kSize,
  kSign,
  kOrder,
  kHasFill,
  kFill
};
constexpr std::size_t kParams = 20;

// Values of the client data.
constexpr unsigned kDecimalScale = 0, kIntegerScale = 2;

// Packed values begin here, regardless of the minimum's size in the header.
constexpr std::size_t kScaleOffsetHeaderBytes = 21;
constexpr std::size_t kMostMinimumBytes = 8;

// Header of a chunk.
struct ScaleOffsetHeader {
  unsigned bits = 0;
  std::uint64_t minimum = 0;
};

// Stores value_of(packed value) for each element in the dataset's byte order. T: the unsigned integer of an
// element's size. With 0 bits per value every packed value is 0, and `packed` is empty.
template <typename T, typename Value>
void unpack(std::span<const std::byte> packed, unsigned bits, const ScaleOffsetParams& params, std::byte* out,
            const Value& value_of) noexcept {
  const auto put = [&](std::size_t i, T value) { std::memcpy(out + i * sizeof(T), &value, sizeof(T)); };
  const auto for_each = [&](const auto& visit) {
    if (bits > 0) return PackedValues(packed, bits).for_each(params.elements, visit);
    for (std::size_t i = 0; i < params.elements; ++i) visit(i, std::uint64_t{0});
  };
  if (params.big_endian != kHostIsBigEndian) {
    for_each([&](std::size_t i, std::uint64_t value) { put(i, swapped(value_of(value))); });
  } else {
    for_each([&](std::size_t i, std::uint64_t value) { put(i, value_of(value)); });
  }
}

// Stores value_of(packed value) for each element, and the fill value, if defined, for packed values with all
// bits set.
template <typename T, typename Value>
void unpack_filled(std::span<const std::byte> packed, unsigned bits, const ScaleOffsetParams& params,
                   std::byte* out, const Value& value_of) noexcept {
  if (!params.fill_value) return unpack<T>(packed, bits, params, out, value_of);
  const std::uint64_t mark = (std::uint64_t{1} << bits) - 1;
  const auto fill = static_cast<T>(*params.fill_value);
  unpack<T>(packed, bits, params, out,
            [=](std::uint64_t value) { return value == mark ? fill : value_of(value); });
}

// Wraps around like unsigned integers; signed integers have the same bits.
template <typename T>
void unpack_integers(std::span<const std::byte> packed, const ScaleOffsetHeader& header,
                     const ScaleOffsetParams& params, std::byte* out) noexcept {
  const auto minimum = static_cast<T>(header.minimum);
  unpack_filled<T>(packed, header.bits, params, out,
                   [=](std::uint64_t value) { return static_cast<T>(static_cast<T>(value) + minimum); });
}

template <typename T, typename Real>
void unpack_floats(std::span<const std::byte> packed, const ScaleOffsetHeader& header,
                   const ScaleOffsetParams& params, std::byte* out) noexcept {
  const Real minimum = std::bit_cast<Real>(static_cast<T>(header.minimum));
  const Real scale = std::pow(Real{10}, static_cast<Real>(params.decimal_digits));
  using Signed = std::make_signed_t<T>;  // Converted in one instruction; the top bit is 0
  unpack_filled<T>(packed, header.bits, params, out, [=](std::uint64_t value) {
    return std::bit_cast<T>(static_cast<Real>(static_cast<Signed>(value)) / scale + minimum);
  });
}

template <typename T>
void copy_elements(std::span<const std::byte> stored, const ScaleOffsetParams& params,
                   std::byte* out) noexcept {
  if (!params.big_endian) {
    std::memcpy(out, stored.data(), stored.size());
    return;
  }
  for (std::size_t i = 0; i < params.elements; ++i) {
    T value;
    std::memcpy(&value, stored.data() + i * sizeof(T), sizeof(T));
    value = swapped(value);
    std::memcpy(out + i * sizeof(T), &value, sizeof(T));
  }
}

template <typename T>
void decode_elements(std::span<const std::byte> stored, const ScaleOffsetHeader& header,
                     const ScaleOffsetParams& params, std::byte* out) noexcept {
  if (header.bits == 8 * sizeof(T)) return copy_elements<T>(stored, params, out);
  if (params.value_class == ScaleOffsetParams::Class::integer)
    return unpack_integers<T>(stored, header, params, out);
  if constexpr (sizeof(T) == 4) unpack_floats<T, float>(stored, header, params, out);
  if constexpr (sizeof(T) == 8) unpack_floats<T, double>(stored, header, params, out);
}

ScaleOffsetHeader take_header(std::span<const std::byte>& in) {
  const std::span<const std::byte> head = take(in, kScaleOffsetHeaderBytes, "scaleoffset");
  ScaleOffsetHeader header{.bits = read_little_endian32(head)};
  const std::size_t minimum_bytes = std::min(kMostMinimumBytes, std::to_integer<std::size_t>(head[4]));
  header.minimum = little_endian(head.subspan(5, minimum_bytes));
  return header;
}

std::optional<ScaleOffsetParams> ScaleOffsetParams::from(const std::vector<unsigned>& params) noexcept {
  if (params.size() != kParams) return std::nullopt;
  ScaleOffsetParams result{.decimal_digits = static_cast<int>(params[kScaleFactor]),
                           .elements = params[kElements],
                           .element_bytes = params[kSize],
                           .is_signed = params[kSign] != 0,
                           .big_endian = params[kOrder] != 0};
  const bool floating = params[kClass] == static_cast<unsigned>(Class::floating);
  if (!floating && params[kClass] != static_cast<unsigned>(Class::integer)) return std::nullopt;
  if (floating) result.value_class = Class::floating;
  if (params[kScaleType] != (floating ? kDecimalScale : kIntegerScale)) return std::nullopt;
  if (!std::has_single_bit(result.element_bytes) || result.element_bytes > 8 ||
      (floating && result.element_bytes < 4)) {
    return std::nullopt;
  }
  if (params[kSign] > 1 || params[kOrder] > 1 || params[kHasFill] > 1) return std::nullopt;
  result.stores_as_is = !floating && params[kScaleFactor] == 8 * result.element_bytes;
  if (params[kHasFill] != 0) {
    result.fill_value = std::uint64_t{params[kFill + 1]} << 32 | params[kFill];
  }
  return result;
}

// Decodes a chunk to the dataset's byte order: bits per packed value (u32, little-endian), bytes of the
// minimum (u8), the minimum (little-endian), and from byte 21 on the values, most significant bit first
// without gaps. Values that have all bits of an element are the elements themselves, in little-endian order.
std::size_t decode_scaleoffset(const FilterSpec& filter, std::span<const std::byte> in,
                               std::span<std::byte> out, CodecState&) {
  const auto params = parsed<ScaleOffsetParams>(filter);
  const ScaleOffsetHeader header = take_header(in);
  const std::size_t bytes = params.decoded_bytes();
  require_fits(bytes, out, "scaleoffset");
  if (header.bits > 8 * params.element_bytes) {
    throw FilterError(fmt::format("scaleoffset: values of {} bits, an element has {}", header.bits,
                                  8 * params.element_bytes));
  }
  // No overflow: the element count has 32 bits and a value at most 64.
  const std::uint64_t packed_bytes = (std::uint64_t{params.elements} * header.bits + 7) / 8;
  const std::span<const std::byte> stored = take(in, packed_bytes, "scaleoffset");
  switch (params.element_bytes) {
    case 1:
      decode_elements<std::uint8_t>(stored, header, params, out.data());
      break;
    case 2:
      decode_elements<std::uint16_t>(stored, header, params, out.data());
      break;
    case 4:
      decode_elements<std::uint32_t>(stored, header, params, out.data());
      break;
    default:
      decode_elements<std::uint64_t>(stored, header, params, out.data());
      break;
  }
  return bytes;
}

std::string unsupported_scaleoffset(const FilterSpec& filter) {
  return ScaleOffsetParams::from(filter.params) ? "" : foreign_parameters(filter);
}

// Returns a text for the parameters, "24 elements of f32 in big-endian order", to compare with a dataset's.
std::string chunk_text(std::uint64_t elements, std::string_view type, std::size_t element_bytes,
                       bool big_endian) {
  std::string text = fmt::format("{} elements of {}", elements, type);
  if (element_bytes > 1) text += big_endian ? " in big-endian order" : " in little-endian order";
  return text;
}

std::string type_text(const ScaleOffsetParams& params) {
  const bool floating = params.value_class == ScaleOffsetParams::Class::floating;
  const char kind = floating ? 'f' : params.is_signed ? 'i' : 'u';
  return fmt::format("{}{}", kind, 8 * params.element_bytes);
}

std::string contradicted_by(const FilterSpec& filter, const DatasetInfo& info) {
  const auto params = ScaleOffsetParams::from(filter.params);
  if (!params) return foreign_parameters(filter);
  const std::uint64_t elements = std::accumulate(info.chunk_shape.begin(), info.chunk_shape.end(),
                                                 std::uint64_t{1}, std::multiplies<>());
  const std::string stated =
      chunk_text(params->elements, type_text(*params), params->element_bytes, params->big_endian);
  const bool big_endian = info.byte_swapped != kHostIsBigEndian;
  const std::string real = chunk_text(elements, name_of(info.dtype), size_of(info.dtype), big_endian);
  if (stated == real) return {};
  return fmt::format("was set up for chunks of {}, and those of the dataset have {}", stated, real);
}

}  // namespace

extern constinit const FilterEntry scaleoffset_filter = {.id = filter_id::kScaleOffset,
                                                         .name = "scaleoffset",
                                                         .unsupported = unsupported_scaleoffset,
                                                         .contradiction = contradicted_by,
                                                         .does_nothing =
                                                             [](const FilterSpec& filter) noexcept {
                                                               const auto params =
                                                                   ScaleOffsetParams::from(filter.params);
                                                               return params && params->stores_as_is;
                                                             },
                                                         .decode = decode_scaleoffset,
                                                         .encoded_size = compressed_size};

}  // namespace h5feed
