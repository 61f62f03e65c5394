// SPDX-License-Identifier: Apache-2.0
#include "store/checks/local_heap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace h5feed {

// Signature, version, reserved; size of the segment, place of the first free block, address of the segment.
LocalHeap::LocalHeap(const MetadataBytes& bytes, std::uint64_t address) : bytes_(bytes), address_(address) {
  constexpr std::size_t kSizeAt = 8;
  const std::size_t width = bytes.length_bytes();
  const std::vector<std::byte> head =
      bytes.head(address, "HEAP", kSizeAt + 2 * width + bytes.address_bytes());
  if (head.empty()) return;
  size_ = number_in(head, kSizeAt, width);
  segment_ = bytes.address_in(head, kSizeAt + 2 * width);
  // libhdf5 1.10 goes on without the segment where it could not read it.
  if (size_ > bytes.left(segment_) || (size_ > 0 && segment_ + size_ > bytes.end())) {
    damage_ = fmt::format("the local heap at byte {} claims {} bytes, more than the file has behind them",
                          address, size_);
    return;
  }
  damage_ = damage_of_free_blocks(number_in(head, kSizeAt + width, width));
  end_of_texts_ = find_end_of_texts();
  examined_ = damage_.empty();
}

// Of each free block, the place of the next one and the size.
std::string LocalHeap::damage_of_free_blocks(std::uint64_t first) const {
  constexpr std::uint64_t kNone = 1;
  const std::size_t width = bytes_.length_bytes();
  std::uint64_t most = size_ / (2 * width);
  for (std::uint64_t at = first; at != kNone;) {
    if (at > size_ || size_ - at < 2 * width)
      return fmt::format("the local heap at byte {} has a free block at its byte {}, beyond its {} bytes",
                         address_, at, size_);
    if (most-- == 0)
      return fmt::format("the local heap at byte {} has a list of free blocks that leads in a circle",
                         address_);
    const std::vector<std::byte> block = bytes_.read(segment_ + at, 2 * width);
    const std::uint64_t block_bytes = number_in(block, width, width);
    if (block_bytes > size_ - at)
      return fmt::format(
          "the local heap at byte {} has a free block of {} bytes at its byte {}, beyond its {} bytes",
          address_, block_bytes, at, size_);
    at = number_in(block, 0, width);
  }
  return {};
}

bool LocalHeap::is_empty(std::uint64_t offset) const {
  return examined_ && offset < size_ && number_in(bytes_.read(segment_ + offset, 1), 0, 1) == 0;
}

std::uint64_t LocalHeap::find_end_of_texts() const {
  constexpr std::uint64_t kStepBytes = 4096;
  for (std::uint64_t end = size_; end > 0;) {
    const std::uint64_t begin = end - std::min(end, kStepBytes);
    const std::vector<std::byte> block = bytes_.read(segment_ + begin, static_cast<std::size_t>(end - begin));
    const auto last = std::find(block.rbegin(), block.rend(), std::byte{0});
    if (last != block.rend()) return begin + static_cast<std::uint64_t>(block.rend() - last);
    end = begin;
  }
  return 0;
}

}  // namespace h5feed
