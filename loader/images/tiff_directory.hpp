// SPDX-License-Identifier: Apache-2.0
// The first directory of a TIFF, which is also how JPEGs state their orientation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "images/header_bytes.hpp"

namespace h5feed {

/// The first directory of a TIFF (TIFF 6.0, section 2) or BigTIFF, whose offsets have 8 bytes. Refers to the
/// bytes that it was made of. Thread-safe.
class TiffDirectory {
 public:
  /// Tags that tell the memory which decoding takes (TIFF 6.0, Appendix A).
  enum Tag : std::uint64_t {
    width = 256,
    height = 257,
    bits = 258,
    color_space = 262,
    channels = 277,
    rows_per_strip = 278,
    tile_width = 322,
    tile_height = 323,
  };

  /// Returns nothing if the bytes are no TIFF, or its directory does not lie within them.
  static std::optional<TiffDirectory> of(HeaderBytes tiff) noexcept;

  /// Returns the first value of a tag of whole numbers; nothing if the tag is not there, or has other values.
  std::optional<std::uint64_t> value(Tag tag) const noexcept;

  /// Returns how many values a tag has; 1 if it is not there.
  std::uint64_t count(Tag tag) const noexcept;

  /// Returns whether any entry may state an orientation other than the default.
  bool may_turn() const noexcept;

 private:
  TiffDirectory(HeaderBytes tiff, bool little) noexcept : tiff_(tiff), little_(little) {}

  std::uint64_t number(std::size_t at, std::size_t count) const noexcept {
    return little_ ? little_endian(tiff_, at, count) : big_endian(tiff_, at, count);
  }

  std::size_t entry_at(std::size_t entry) const noexcept;
  std::optional<std::size_t> find(Tag tag) const noexcept;

  HeaderBytes tiff_;
  bool little_;
  std::size_t offset_bytes_ = 4;  // 8 in a BigTIFF
  std::size_t entries_at_ = 0;
  std::size_t entries_ = 0;
};

}  // namespace h5feed
