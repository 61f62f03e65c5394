// SPDX-License-Identifier: Apache-2.0
#include "store/checks/layout_message.hpp"

namespace h5feed {
namespace {

// The versions before the third have the number of dimensions in front of the class.
std::uint64_t class_of(std::span<const std::byte> body, std::uint64_t version) noexcept {
  return number_in(body, version < 3 ? 2 : 1, 1);
}

}  // namespace

std::vector<std::uint64_t> chunk_extents(const MetadataBytes& bytes, std::span<const std::byte> body) {
  constexpr std::uint64_t kChunked = 2;
  const std::uint64_t version = number_in(body, 0, 1);
  if (version < 1 || version > 4 || class_of(body, version) != kChunked) return {};
  const bool old = version < 3;
  const auto width = static_cast<std::size_t>(version == 4 ? number_in(body, 4, 1) : 4);
  const std::size_t first = version == 4 ? 5 : (old ? 8 : 3) + bytes.address_bytes();
  if (width == 0 || width > 8) return {};
  const std::size_t count_at = old ? 1 : version == 3 ? 2 : 3;
  std::vector<std::uint64_t> extents(static_cast<std::size_t>(number_in(body, count_at, 1)));
  for (std::size_t i = 0; i < extents.size(); ++i) extents[i] = number_in(body, first + i * width, width);
  return extents;
}

bool ends_beyond_file(const MetadataBytes& bytes, std::span<const std::byte> body) noexcept {
  constexpr std::uint64_t kContiguous = 1;
  constexpr std::size_t kAddressAt = 2;
  const std::uint64_t version = number_in(body, 0, 1), end = bytes.end();
  const std::uint64_t begin = bytes.address_in(body, kAddressAt);
  if (version < 3 || version > 4 || class_of(body, version) != kContiguous || bytes.left(begin) == 0)
    return false;
  return begin > end ||
         number_in(body, kAddressAt + bytes.address_bytes(), bytes.length_bytes()) > end - begin;
}

}  // namespace h5feed
