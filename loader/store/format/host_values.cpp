// SPDX-License-Identifier: Apache-2.0
#include "store/format/host_values.hpp"

#include <cstring>
#include <type_traits>

#include "base/with_type.hpp"
#include "store/format/byte_order.hpp"

namespace h5feed {
namespace {

// Moves the value's highest bit to the top of the element, then all down: the second shift repeats the sign.
template <typename T>
void take_bits(ValueBits bits, std::span<std::byte> values) noexcept {
  const unsigned element_bits = 8 * sizeof(T);
  const unsigned above = element_bits - bits.first - bits.count;
  for (std::size_t i = 0; i + sizeof(T) <= values.size(); i += sizeof(T)) {
    std::make_unsigned_t<T> element = 0;
    std::memcpy(&element, values.data() + i, sizeof(T));
    element = static_cast<std::make_unsigned_t<T>>(element << above);
    const T value = static_cast<T>(static_cast<T>(element) >> (element_bits - bits.count));
    std::memcpy(values.data() + i, &value, sizeof(T));
  }
}

}  // namespace

void to_host_values(const DatasetInfo& info, std::span<std::byte> values) noexcept {
  if (info.byte_swapped) swap_byte_order(values, size_of(info.dtype));
  take_value_bits(info, values);
}

void take_value_bits(const DatasetInfo& info, std::span<std::byte> values) noexcept {
  if (info.bits.count == 0) return;
  with_type_of(info.dtype, [&](auto type) {
    if constexpr (std::is_integral_v<decltype(type)>) take_bits<decltype(type)>(info.bits, values);
  });
}

}  // namespace h5feed
