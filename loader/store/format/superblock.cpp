// SPDX-License-Identifier: Apache-2.0
#include "store/format/superblock.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "store/format/byte_order.hpp"

namespace h5feed {
namespace {

constexpr std::array<unsigned char, 8> kSignature = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};

std::optional<std::uint64_t> find_signature(const ByteSource& source) {
  std::array<std::byte, kSignature.size()> bytes = {};
  for (std::uint64_t offset = 0; offset + bytes.size() <= source.size();
       offset = offset == 0 ? 512 : offset * 2) {
    source.read(offset, bytes);
    const auto same = [](std::byte a, unsigned char b) { return std::to_integer<unsigned char>(a) == b; };
    if (std::equal(bytes.begin(), bytes.end(), kSignature.begin(), same)) return offset;
  }
  return std::nullopt;
}

// Driver information in the superblock's extension begins within these bytes.
constexpr std::size_t kDriverBytes = 512;

std::string_view driver_named(std::string_view text) {
  if (text.starts_with("NCSAfami")) return "family";
  if (text.starts_with("NCSAmult")) return "multi";
  return {};
}

// The old versions have a block of it: version, reserved, size, name.
std::string_view driver_of_block(const ByteSource& source, std::uint64_t address) {
  constexpr std::size_t kNameAt = 8;
  std::array<char, 2 * kNameAt> bytes = {};
  if (address >= source.size() || source.size() - address < bytes.size()) return {};
  source.read(address, std::as_writable_bytes(std::span(bytes)));
  return driver_named(std::string_view(bytes.data() + kNameAt, kNameAt));
}

// The newer versions have it in a message of the extension's header, which may be anywhere.
std::string_view find_driver(const ByteSource& source, std::uint64_t address) {
  if (address >= source.size()) return {};
  std::array<char, kDriverBytes> bytes = {};
  const auto present =
      static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), source.size() - address));
  source.read(address, std::as_writable_bytes(std::span(bytes).first(present)));
  const std::string_view text(bytes.data(), present);
  const std::size_t at = text.find("NCSA");
  return at == std::string_view::npos ? std::string_view() : driver_named(text.substr(at));
}

}  // namespace

bool has_hdf5_signature(const ByteSource& source) { return find_signature(source).has_value(); }

std::optional<Superblock> read_superblock(const ByteSource& source) {
  const std::optional<std::uint64_t> offset = find_signature(source);
  if (!offset) return std::nullopt;
  // The longest layout, version 1 with 8-byte offsets, has its fields within these bytes.
  std::array<std::byte, 96> bytes = {};
  const auto present =
      static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), source.size() - *offset));
  source.read(*offset, std::span(bytes).first(present));
  const auto at = [&bytes](std::size_t i) { return std::to_integer<std::size_t>(bytes[i]); };

  const std::size_t version = at(8);
  if (version > 3) return std::nullopt;
  // Base address, free-space or extension address, end-of-file address, each `width` bytes.
  const std::size_t width = at(version < 2 ? 13 : 9);
  const std::size_t length_width = at(version < 2 ? 14 : 10);
  const std::size_t addresses = version == 0 ? 24 : version == 1 ? 28 : 12;
  const auto usual = [](std::size_t count) { return count == 2 || count == 4 || count == 8; };
  if (!usual(width) || !usual(length_width)) return std::nullopt;
  const auto address = [&](std::size_t number) {
    return little_endian(std::span(bytes).subspan(addresses + number * width, width));
  };
  Superblock block;
  block.address_bytes = width;
  block.length_bytes = length_width;
  block.base_address = address(0);
  // The old versions have an entry of the root group behind four addresses, which begins with the place of a
  // name.
  block.root_header =
      version < 2 ? little_endian(std::span(bytes).subspan(addresses + 4 * width + length_width, width))
                  : address(3);
  if (version >= 2 && address(1) != undefined_address(width)) block.extension = address(1);
  block.user_block_bytes = *offset;
  block.end_of_file = address(2);
  // The driver's block is the fourth address, the extension the second one.
  const std::uint64_t driver = address(version < 2 ? 3 : 1);
  if (driver < source.size()) {
    block.driver =
        version < 2 ? driver_of_block(source, *offset + driver) : find_driver(source, *offset + driver);
  }
  constexpr std::size_t kWriterFlag = 0x1;
  constexpr std::size_t kSwmrFlag = 0x4;
  block.open_for_swmr = version == 3 && (at(11) & kSwmrFlag) != 0;
  block.open_for_write = block.open_for_swmr || (version == 3 && (at(11) & kWriterFlag) != 0);
  return block;
}

bool has_wide_numbers(const ByteSource& source) {
  const std::optional<std::uint64_t> offset = find_signature(source);
  constexpr std::size_t kVersionAt = 8, kNewestVersion = 3;
  std::array<std::byte, 16> bytes = {};
  if (!offset || source.size() - *offset < bytes.size()) return false;
  source.read(*offset, bytes);
  const auto at = [&](std::size_t i) { return std::to_integer<std::size_t>(bytes.at(i)); };
  const std::size_t version = at(kVersionAt), first = version < 2 ? 13 : 9;
  const auto wide = [](std::size_t count) { return count == 16 || count == 32; };
  return version <= kNewestVersion && (wide(at(first)) || wide(at(first + 1)));
}

bool has_swmr_writer(const ByteSource& source) {
  const std::optional<Superblock> block = read_superblock(source);
  return block && block->open_for_swmr;
}

bool left_open(const ByteSource& source) {
  const std::optional<Superblock> block = read_superblock(source);
  return block && block->open_for_write && !block->open_for_swmr;
}

}  // namespace h5feed
