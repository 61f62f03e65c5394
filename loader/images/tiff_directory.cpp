// SPDX-License-Identifier: Apache-2.0
#include "images/tiff_directory.hpp"

namespace h5feed {
namespace {

// Bytes of a value of a type of whole numbers (TIFF 6.0, section 2; LONG8 of BigTIFF); 0 for other types.
// libtiff takes those with a sign for sizes, too.
std::size_t bytes_of_type(std::uint64_t type) noexcept {
  switch (type) {
    case 1:  // BYTE
    case 6:  // SBYTE
      return 1;
    case 3:  // SHORT
    case 8:  // SSHORT
      return 2;
    case 4:  // LONG
    case 9:  // SLONG
      return 4;
    case 16:  // LONG8
    case 17:  // SLONG8
      return 8;
    default:
      return 0;
  }
}

// Bytes of an entry: tag, type, count, and the values or their offset.
std::size_t bytes_of_entry(std::size_t offset_bytes) noexcept { return 4 + 2 * offset_bytes; }

}  // namespace

std::optional<TiffDirectory> TiffDirectory::of(HeaderBytes tiff) noexcept {
  const bool little = has_text(tiff, 0, "II");
  if (tiff.size() < 8 || (!little && !has_text(tiff, 0, "MM"))) return std::nullopt;
  TiffDirectory directory(tiff, little);
  const std::uint64_t version = directory.number(2, 2);
  if (version == 43) directory.offset_bytes_ = 8;
  if (version != 42 && (version != 43 || tiff.size() < 16)) return std::nullopt;
  const std::size_t wide = directory.offset_bytes_;
  const std::size_t count_bytes = wide == 8 ? 8 : 2;
  const std::uint64_t at = directory.number(wide, wide);
  if (at > tiff.size() - count_bytes) return std::nullopt;
  directory.entries_at_ = at + count_bytes;
  directory.entries_ = directory.number(at, count_bytes);
  if (directory.entries_ > (tiff.size() - directory.entries_at_) / bytes_of_entry(wide)) return std::nullopt;
  return directory;
}

std::optional<std::uint64_t> TiffDirectory::value(Tag tag) const noexcept {
  const std::optional<std::size_t> at = find(tag);
  if (!at) return std::nullopt;
  const std::size_t size = bytes_of_type(number(*at + 2, 2));
  const std::uint64_t count = number(*at + 4, offset_bytes_);
  if (size == 0 || count == 0) return std::nullopt;
  std::uint64_t value_at = *at + 4 + offset_bytes_;
  if (count > offset_bytes_ / size) value_at = number(value_at, offset_bytes_);
  if (size > tiff_.size() || value_at > tiff_.size() - size) return std::nullopt;
  return number(value_at, size);
}

std::uint64_t TiffDirectory::count(Tag tag) const noexcept {
  const std::optional<std::size_t> at = find(tag);
  return at ? number(*at + 4, offset_bytes_) : 1;
}

bool TiffDirectory::may_turn() const noexcept {
  constexpr std::uint64_t kOrientation = 274, kShort = 3, kUpright = 1;
  for (std::size_t entry = 0; entry < entries_; ++entry) {
    const std::size_t at = entry_at(entry);
    const bool one_short = number(at + 2, 2) == kShort && number(at + 4, offset_bytes_) == 1;
    const bool upright = one_short && number(at + 4 + offset_bytes_, 2) == kUpright;
    if (number(at, 2) == kOrientation && !upright) return true;
  }
  return false;
}

// Returns where its entry begins.
std::optional<std::size_t> TiffDirectory::find(Tag tag) const noexcept {
  for (std::size_t entry = 0; entry < entries_; ++entry) {
    if (number(entry_at(entry), 2) == tag) return entry_at(entry);
  }
  return std::nullopt;
}

std::size_t TiffDirectory::entry_at(std::size_t entry) const noexcept {
  return entries_at_ + entry * bytes_of_entry(offset_bytes_);
}

}  // namespace h5feed
