// Checksums of HDF5 metadata, for files that are damaged on purpose.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace h5feed::test {

/// The checksum of metadata blocks (HDF5 File Format Specification: "Jenkins' lookup3", R. Jenkins,
/// "lookup3.c", 2006, public domain): hashlittle with an initial value of 0.
inline std::uint32_t lookup3(std::span<const std::byte> bytes) {
  const auto rotate = [](std::uint32_t x, int by) { return x << by | x >> (32 - by); };
  std::uint32_t a = 0xdeadbeef + static_cast<std::uint32_t>(bytes.size());
  std::uint32_t b = a;
  std::uint32_t c = a;
  const auto add = [&](std::span<const std::byte> block) {
    std::array<std::uint32_t, 3> words = {};
    for (std::size_t i = 0; i < block.size(); ++i)
      words[i / 4] += std::to_integer<std::uint32_t>(block[i]) << (i % 4 * 8);
    a += words[0];
    b += words[1];
    c += words[2];
  };
  if (bytes.empty()) return c;
  for (; bytes.size() > 12; bytes = bytes.subspan(12)) {
    add(bytes.first(12));
    // x takes in y and turns, y takes in z: the six steps of a round, by the amount turned.
    const auto step = [&](std::uint32_t& x, std::uint32_t& y, std::uint32_t& z, int by) {
      x -= z;
      x ^= rotate(z, by);
      z += y;
    };
    step(a, b, c, 4);
    step(b, c, a, 6);
    step(c, a, b, 8);
    step(a, b, c, 16);
    step(b, c, a, 19);
    step(c, a, b, 4);
  }
  add(bytes);
  const auto last = [&](std::uint32_t& x, std::uint32_t y, int by) {
    x ^= y;
    x -= rotate(y, by);
  };
  last(c, b, 14);
  last(a, c, 11);
  last(b, a, 25);
  last(c, b, 16);
  last(a, c, 4);
  last(b, a, 14);
  last(c, b, 24);
  return c;
}

/// Metadata that its checksum follows.
struct ChecksummedBlock {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// The object headers of an intact file, found by their signatures; how long each is, by where its
/// checksum comes out right. None in files of the oldest format, whose headers have no checksum.
inline std::vector<ChecksummedBlock> checksummed_headers(std::span<const std::byte> file) {
  constexpr std::size_t kMaxHeader = 2048;
  std::vector<ChecksummedBlock> blocks;
  for (std::size_t at = 0; at + 4 <= file.size(); ++at) {
    const auto starts_here = [&](std::string_view name) {
      return std::memcmp(&file[at], name.data(), name.size()) == 0;
    };
    if (!starts_here("OHDR") && !starts_here("OCHK")) continue;
    for (std::size_t bytes = 8; bytes <= kMaxHeader && at + bytes + 4 <= file.size(); ++bytes) {
      std::uint32_t stored = 0;
      std::memcpy(&stored, &file[at + bytes], sizeof stored);
      if (stored != lookup3(file.subspan(at, bytes))) continue;
      blocks.push_back({at, bytes});
      break;
    }
  }
  return blocks;
}

/// Makes the checksums of `blocks` right, whatever they now hold.
inline void mend_checksums(std::span<std::byte> file, std::span<const ChecksummedBlock> blocks) {
  for (const ChecksummedBlock& block : blocks) {
    const std::uint32_t sum = lookup3(file.subspan(block.offset, block.bytes));
    std::memcpy(&file[block.offset + block.bytes], &sum, sizeof sum);
  }
}

}  // namespace h5feed::test
