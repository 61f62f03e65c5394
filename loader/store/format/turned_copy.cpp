// SPDX-License-Identifier: Apache-2.0
#include "store/format/turned_copy.hpp"

#include <cstring>
#include <vector>

namespace h5feed {
namespace {

// One dimension of the copy: its extent, and the distance in bytes of its neighbours in the source.
struct Step {
  std::ptrdiff_t count = 1;
  std::ptrdiff_t from = 0;
};

template <std::size_t kBytes>
std::byte* copy_elements(const Step& step, const std::byte* from, std::byte* to) noexcept {
  for (std::ptrdiff_t i = 0; i < step.count; ++i, from += step.from, to += kBytes)
    std::memcpy(to, from, kBytes);
  return to;
}

// Copies the elements of the last dimension and returns their end.
std::byte* copy_last(const Step& step, std::size_t element_bytes, const std::byte* from,
                     std::byte* to) noexcept {
  const auto bytes = static_cast<std::ptrdiff_t>(element_bytes);
  if (step.from == bytes) {
    std::memcpy(to, from, static_cast<std::size_t>(step.count * bytes));
    return to + step.count * bytes;
  }
  switch (element_bytes) {
    case 1:
      return copy_elements<1>(step, from, to);
    case 2:
      return copy_elements<2>(step, from, to);
    case 4:
      return copy_elements<4>(step, from, to);
    default:
      return copy_elements<8>(step, from, to);
  }
}

std::byte* copy_steps(std::span<const Step> steps, std::size_t element_bytes, const std::byte* from,
                      std::byte* to) noexcept {
  const Step& step = steps.front();
  if (steps.size() == 1) return copy_last(step, element_bytes, from, to);
  for (std::ptrdiff_t i = 0; i < step.count; ++i, from += step.from)
    to = copy_steps(steps.subspan(1), element_bytes, from, to);
  return to;
}

}  // namespace

void turned_copy(std::span<const std::uint64_t> shape, std::span<const TurnedDimension> dimensions,
                 std::size_t element_bytes, const std::byte* from, std::byte* to) {
  std::vector<std::ptrdiff_t> distance(shape.size());
  auto bytes = static_cast<std::ptrdiff_t>(element_bytes);
  for (std::size_t d = shape.size(); d-- > 0;) {
    distance[d] = bytes;
    bytes *= static_cast<std::ptrdiff_t>(shape[d]);
  }
  std::vector<Step> steps(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const auto& [source, mirrored] = dimensions[d];
    steps[d] = {static_cast<std::ptrdiff_t>(shape[d]), mirrored ? -distance[source] : distance[source]};
    if (mirrored) from += (steps[d].count - 1) * distance[source];
  }
  copy_steps(steps, element_bytes, from, to);
}

}  // namespace h5feed
