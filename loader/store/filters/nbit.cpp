// SPDX-License-Identifier: Apache-2.0
// HDF5 filter 5 (nbit).
#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <functional>
#include <numeric>

#include "store/filters/bytes.hpp"
#include "store/filters/entry.hpp"
#include "store/filters/packed_values.hpp"
#include "store/format/byte_order.hpp"

namespace h5feed {
namespace {

// Client data, which libhdf5 derives from the dataset: {number of parameters, whether the chunks are stored
// as they are, elements per chunk, class, element bytes, byte order, bits of a value, unused bits below
// them}. The last five are those of integers and floats; libhdf5 packs compounds and arrays too, which h5feed
// does not read.
struct NbitParams {
  // Returns empty if h5feed cannot decode the filter: other numbers of parameters, classes or sizes than
  // libhdf5 writes for integers.
  static std::optional<NbitParams> from(const std::vector<unsigned>& params) noexcept;

  bool stores_as_is = false;  // Values that fill their bytes: the filter changes nothing, the rest is unset
  std::size_t elements = 0;
  std::size_t element_bytes = 1;  // 1, 2, 4 or 8
  bool big_endian = false;
  ValueBits bits = {};

  // Returns the bytes of a decoded chunk.
  std::size_t decoded_bytes() const noexcept { return elements * element_bytes; }
};

// Indices in the client data.
enum NbitPlace : std::size_t {
  kNbitCount,
  kNbitAsIs,
  kNbitElements,
  kNbitClass,
  kNbitBytes,
  kNbitOrder,
  kNbitBits,
  kNbitFirstBit,
  kNbitParams
};
constexpr unsigned kNbitNumbers = 1;

std::optional<NbitParams> NbitParams::from(const std::vector<unsigned>& params) noexcept {
  if (params.size() <= kNbitAsIs || params[kNbitCount] != params.size()) return std::nullopt;
  if (params[kNbitAsIs] != 0) return NbitParams{.stores_as_is = true};
  if (params.size() != kNbitParams || params[kNbitClass] != kNbitNumbers) return std::nullopt;
  const NbitParams result{.elements = params[kNbitElements],
                          .element_bytes = params[kNbitBytes],
                          .big_endian = params[kNbitOrder] != 0,
                          .bits = {params[kNbitFirstBit], params[kNbitBits]}};
  if (!std::has_single_bit(result.element_bytes) || result.element_bytes > 8 || params[kNbitOrder] > 1)
    return std::nullopt;
  // Values of all bits are stored as they are.
  const unsigned element_bits = 8 * params[kNbitBytes];
  if (result.bits.count == 0 || result.bits.count >= element_bits ||
      result.bits.first > element_bits - result.bits.count) {
    return std::nullopt;
  }
  return result;
}

template <typename T>
void unpack_values(std::span<const std::byte> packed, const NbitParams& params, std::byte* out) noexcept {
  const auto unpack = [&](const auto& in_order) {
    PackedValues(packed, params.bits.count)
        .for_each(params.elements, [&](std::size_t i, std::uint64_t value) {
          const T element = in_order(static_cast<T>(value << params.bits.first));
          std::memcpy(out + i * sizeof(T), &element, sizeof(T));
        });
  };
  if (params.big_endian != kHostIsBigEndian) return unpack([](T element) { return swapped(element); });
  unpack([](T element) { return element; });
}

// Decodes a chunk to elements in the dataset's byte order whose unused bits are 0. What is stored are the
// bits of the values, most significant bit first without gaps.
std::size_t decode_nbit(const FilterSpec& filter, std::span<const std::byte> in, std::span<std::byte> out,
                        CodecState&) {
  const auto params = parsed<NbitParams>(filter);
  if (params.stores_as_is) {
    require_fits(in.size(), out, "nbit");
    std::copy(in.begin(), in.end(), out.begin());
    return in.size();
  }
  const std::size_t bytes = params.decoded_bytes();
  require_fits(bytes, out, "nbit");
  // No overflow: the element count has 32 bits and a value at most 63.
  const std::span<const std::byte> packed =
      take(in, (std::uint64_t{params.elements} * params.bits.count + 7) / 8, "nbit");
  switch (params.element_bytes) {
    case 1:
      unpack_values<std::uint8_t>(packed, params, out.data());
      break;
    case 2:
      unpack_values<std::uint16_t>(packed, params, out.data());
      break;
    case 4:
      unpack_values<std::uint32_t>(packed, params, out.data());
      break;
    default:
      unpack_values<std::uint64_t>(packed, params, out.data());
      break;
  }
  return bytes;
}

std::string unsupported_nbit(const FilterSpec& filter) {
  return NbitParams::from(filter.params) ? "" : foreign_parameters(filter);
}

// Returns a text for the parameters, "24 elements of 16 bits in big-endian order with values of 12 bits at
// bit 2", to compare with a dataset's.
std::string nbit_text(std::uint64_t elements, std::size_t element_bytes, bool big_endian, ValueBits bits) {
  const char* const order = big_endian ? " in big-endian order" : " in little-endian order";
  return fmt::format("{} elements of {} bits{} with values of {} bits at bit {}", elements, 8 * element_bytes,
                     element_bytes > 1 ? order : "", bits.count, bits.first);
}

std::string nbit_contradicted_by(const FilterSpec& filter, const DatasetInfo& info) {
  const auto params = NbitParams::from(filter.params);
  if (!params) return foreign_parameters(filter);
  if (params->stores_as_is) return {};
  const std::uint64_t elements = std::accumulate(info.chunk_shape.begin(), info.chunk_shape.end(),
                                                 std::uint64_t{1}, std::multiplies<>());
  const std::string stated =
      nbit_text(params->elements, params->element_bytes, params->big_endian, params->bits);
  const std::size_t element_bytes = size_of(info.dtype);
  const ValueBits bits =
      info.bits.count > 0 ? info.bits : ValueBits{0, static_cast<unsigned>(8 * element_bytes)};
  const bool big_endian = info.byte_swapped != kHostIsBigEndian;
  const std::string real = nbit_text(elements, element_bytes, big_endian, bits);
  if (stated == real) return {};
  return fmt::format("was set up for chunks of {}, and those of the dataset have {}", stated, real);
}

}  // namespace

extern constinit const FilterEntry nbit_filter = {.id = filter_id::kNbit,
                                                  .name = "nbit",
                                                  .unsupported = unsupported_nbit,
                                                  .contradiction = nbit_contradicted_by,
                                                  .does_nothing =
                                                      [](const FilterSpec& filter) noexcept {
                                                        const auto params = NbitParams::from(filter.params);
                                                        return params && params->stores_as_is;
                                                      },
                                                  .decode = decode_nbit,
                                                  .encoded_size = compressed_size};

}  // namespace h5feed
