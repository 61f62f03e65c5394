// SPDX-License-Identifier: Apache-2.0
// The check of the sources of a virtual dataset. An input is its number of dimensions (u8), the width of a
// length in the file (u8: 0 for 2 bytes, 1 for 4, 2 for 8), then a collection of the global heap, whose
// object 1 is the list of sources.
#include <span>
#include <string>
#include <string_view>

#include "fuzz/fuzz_target.hpp"
#include "fuzz/input_source.hpp"
#include "store/checks/virtual_mapping.hpp"
#include "store/format/superblock.hpp"

namespace h5feed::test::fuzz {
namespace {

constexpr unsigned kDimensions = 2;
constexpr unsigned kEightBytes = 2;  // The width of a length

Writer& text(Writer& writer, std::string_view characters) {
  return writer.bytes(std::as_bytes(std::span(characters))).u8(0);
}

Writer& number(Writer& writer, unsigned value) { return writer.u32(value).u32(0); }

// Blocks at regular distances: version 2 of such selections.
void add_regular(Writer& list) {
  list.u32(2).u32(2).u8(1).u32(68).u32(kDimensions);
  for (unsigned i = 0; i < kDimensions; ++i) {
    for (const unsigned value : {0U, 2U, 4U, 1U}) number(list, value);
  }
}

// Blocks anywhere: version 1.
void add_blocks(Writer& list) {
  list.u32(2).u32(1).u32(0).u32(40).u32(kDimensions).u32(2);
  for (const unsigned corner : {0U, 0U, 1U, 1U, 3U, 0U, 3U, 2U}) list.u32(corner);
}

void add_points(Writer& list) {
  list.u32(1).u32(1).u32(0).u32(24).u32(kDimensions).u32(2);
  for (const unsigned coordinate : {0U, 1U, 2U, 3U}) list.u32(coordinate);
}

void add_all(Writer& list) { list.u32(3).u32(1).u32(0).u32(0); }

// A collection with one list of a source with these selections, and free space.
Bytes seed(void (*from)(Writer&), void (*to)(Writer&)) {
  Writer list;
  number(list.u8(0), 1);
  text(text(list, "a.h5"), "x");
  from(list);
  to(list);
  list.u32(0);  // Checksum
  Bytes content = list.done();
  const auto bytes = static_cast<unsigned>(content.size());
  content.resize((content.size() + 7) / 8 * 8);
  constexpr unsigned kHead = 16, kFree = 32;
  Writer input;
  input.u8(kDimensions).u8(kEightBytes);
  number(input.bytes(std::as_bytes(std::span(std::string_view("GCOL\1\0\0\0", 8)))),
         2 * kHead + static_cast<unsigned>(content.size()) + kFree);
  number(input.u16(1).u16(1).u32(0), bytes).bytes(content);
  number(input.u16(0).u16(0).u32(0), kFree).bytes(Bytes(kFree - kHead));
  return input.done();
}

// Returns the damage of object 1 of the collection at the beginning of the file.
std::string damage_of(const ByteSource& file, const Superblock& block, std::size_t rank) {
  // Version, class, address and number of the object.
  const Bytes layout = Writer().u8(4).u8(3).u32(0).u32(0).u32(1).done();
  return virtual_mapping_damage(MetadataBytes(file, block), layout, rank);
}

}  // namespace

void fuzz_one(std::span<const std::byte> input) {
  Reader reader(input);
  const unsigned rank = reader.u8();
  const std::size_t length_bytes = std::size_t{1} << (1 + reader.u8() % 3);
  const InputSource file(reader.rest());
  const Superblock block{.length_bytes = length_bytes};
  damage_of(file, block, rank);
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> result;
  for (const auto from : {add_all, add_points, add_blocks, add_regular}) {
    for (const auto to : {add_all, add_blocks, add_regular}) {
      result.push_back(seed(from, to));
      const InputSource file(std::span(result.back()).subspan(2));
      require(damage_of(file, {}, kDimensions).empty(), "a seed is intact");
    }
  }
  return result;
}

}  // namespace h5feed::test::fuzz
