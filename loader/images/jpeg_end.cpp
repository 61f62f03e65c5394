// SPDX-License-Identifier: Apache-2.0
#include "images/jpeg_end.hpp"

#include <cstdint>
#include <cstring>

namespace h5feed {
namespace {

constexpr std::uint8_t kStartOfImage = 0xD8, kEndOfImage = 0xD9, kFill = 0xFF;

// Returns whether a marker has no length field: TEM, and the restarts within a scan.
bool stands_alone(std::uint8_t marker) noexcept {
  return marker == 0x01 || (marker >= 0xD0 && marker <= 0xD7);
}

class Walk {
 public:
  explicit Walk(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool left(std::size_t count) const noexcept { return bytes_.size() - at_ >= count; }
  std::uint8_t byte(std::size_t offset) const noexcept {
    return std::to_integer<std::uint8_t>(bytes_[at_ + offset]);
  }
  void skip(std::size_t count) noexcept { at_ += count; }

  // Advances to the next 0xFF; returns false if there is none.
  bool to_marker() noexcept {
    if (!left(1)) return false;
    const void* const found = std::memchr(bytes_.data() + at_, kFill, bytes_.size() - at_);
    if (found == nullptr) return false;
    at_ = static_cast<std::size_t>(static_cast<const std::byte*>(found) - bytes_.data());
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

}  // namespace

bool jpeg_is_whole(std::span<const std::byte> bytes) noexcept {
  Walk walk(bytes);
  if (!walk.left(3) || walk.byte(0) != kFill || walk.byte(1) != kStartOfImage || walk.byte(2) != kFill)
    return true;
  walk.skip(2);
  // Also skips the data between markers: in the data of a scan, every 0xFF that is not a marker is followed
  // by 0.
  while (walk.to_marker()) {
    while (walk.left(2) && walk.byte(1) == kFill) walk.skip(1);
    if (!walk.left(2)) return false;
    const std::uint8_t marker = walk.byte(1);
    walk.skip(2);
    if (marker == kEndOfImage) return true;
    if (marker == 0 || stands_alone(marker)) continue;
    if (!walk.left(2)) return false;
    const std::size_t length = std::size_t{walk.byte(0)} << 8 | walk.byte(1);
    if (length < 2 || !walk.left(length)) return false;
    walk.skip(length);
  }
  return false;
}

}  // namespace h5feed
