// SPDX-License-Identifier: Apache-2.0
// Takes messages of object headers apart, which may end before what they claim to hold.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "store/format/byte_order.hpp"

namespace h5feed {

/// Widths of the numbers in a file, which its superblock gives.
struct NumberWidths {
  std::size_t address_bytes = 8;
  std::size_t length_bytes = 8;  ///< Sizes and extents
};

/// Most dimensions that a dataspace has in libhdf5 (H5S_MAX_RANK).
inline constexpr std::size_t kMostRank = 32;

/// Returns a length as older versions of messages store it, which pad it to a multiple of 8.
constexpr std::size_t padded(std::size_t bytes) noexcept { return (bytes + 7) / 8 * 8; }

/// The contents of a message, which are taken off its front. Once something is not there, nothing is.
class MessageContents {
 public:
  explicit MessageContents(std::span<const std::byte> bytes) noexcept : rest_(bytes) {}

  /// Returns a number of up to eight bytes; 0 at the end of the message.
  std::uint64_t number(std::size_t bytes) noexcept {
    const std::span<const std::byte> taken = skip(bytes);
    return whole_ ? little_endian(taken) : 0;
  }
  unsigned byte() noexcept { return static_cast<unsigned>(number(1)); }

  /// Returns the next bytes; none where there are fewer.
  std::span<const std::byte> skip(std::uint64_t count) noexcept {
    if (count > rest_.size()) whole_ = false;
    if (!whole_) return {};
    const std::span<const std::byte> bytes = rest_.first(static_cast<std::size_t>(count));
    rest_ = rest_.subspan(static_cast<std::size_t>(count));
    return bytes;
  }

  /// Skips `count` numbers of `bytes` each.
  void skip_numbers(std::uint64_t count, std::uint64_t bytes) noexcept {
    if (bytes != 0 && count > rest_.size() / bytes) whole_ = false;
    if (whole_) skip(count * bytes);
  }

  /// Skips bytes that nobody reads, and that may be missing.
  void skip_padding(std::size_t count) noexcept { rest_ = rest_.subspan(std::min(count, rest_.size())); }

  /// Skips a text and the zero that ends it, which may be padded.
  void skip_text(bool is_padded) noexcept {
    const auto end = std::ranges::find(rest_, std::byte{0});
    if (end == rest_.end()) whole_ = false;
    const auto bytes = static_cast<std::size_t>(end - rest_.begin()) + 1;
    skip(bytes);
    if (is_padded) skip_padding(padded(bytes) - bytes);
  }

  /// Skips a text of `bytes`, which must have the zero that ends it.
  void skip_name(std::size_t bytes) noexcept {
    const std::span<const std::byte> name = skip(bytes);
    if (std::ranges::find(name, std::byte{0}) == name.end()) whole_ = false;
  }

  /// Makes the message one that does not hold what it claims to.
  void fail() noexcept { whole_ = false; }
  /// Returns whether all that was asked for was there.
  bool whole() const noexcept { return whole_; }

  /// Ends the reading: libhdf5 refuses what was read last, and reads no more.
  void refuse() noexcept { refused_ = true; }
  /// Ends the reading if that of a part of the message has ended.
  void take_end_of(const MessageContents& part) noexcept {
    whole_ = whole_ && part.whole_;
    refused_ = refused_ || part.refused_;
  }
  /// Returns whether there is nothing more to read.
  bool ended() const noexcept { return refused_ || !whole_; }

 private:
  std::span<const std::byte> rest_;
  bool whole_ = true;
  bool refused_ = false;
};

}  // namespace h5feed
