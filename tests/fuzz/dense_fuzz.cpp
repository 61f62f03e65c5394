// SPDX-License-Identifier: Apache-2.0
// The checks of heaps that hold many links and attributes. An input is the address of the header of a group
// (u16), then a file. Checksums are made right, as who means harm would.
#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>

#include "fuzz/fuzz_target.hpp"
#include "fuzz/input_source.hpp"
#include "store/checks/structure_check.hpp"
#include "store/format/byte_order.hpp"
#include "store/format/metadata_checksum.hpp"
#include "support/files/damage.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"

namespace h5feed::test::fuzz {
namespace {

// Returns the places of all structures with the signature.
std::vector<std::size_t> places(std::span<const std::byte> file, std::string_view signature) {
  std::vector<std::size_t> found;
  const auto same = [](std::byte a, char b) { return std::to_integer<char>(a) == b; };
  for (auto at = file.begin();; ++at) {
    at = std::search(at, file.end(), signature.begin(), signature.end(), same);
    if (at == file.end()) return found;
    found.push_back(static_cast<std::size_t>(at - file.begin()));
  }
}

std::uint64_t number_at(std::span<const std::byte> file, std::size_t at, std::size_t bytes) {
  return at + bytes <= file.size() ? little_endian(file.subspan(at, bytes)) : 0;
}

// Makes the checksum behind `bytes` at `at` right, if it is in the file.
void seal(Bytes& file, std::size_t at, std::uint64_t bytes) {
  if (bytes > file.size() || at + bytes + 4 > file.size()) return;
  const auto end = at + static_cast<std::size_t>(bytes);
  put_little_endian(file, end, metadata_checksum(std::span(file).subspan(at, end - at)));
}

// Heaps, and the leaves of the trees, of which each is the root of its own.
void seal_all(Bytes& file) {
  constexpr std::size_t kHeapBytes = 142;
  for (const std::size_t heap : places(file, "FRHP")) {
    const std::uint64_t filters = number_at(file, heap + 7, 2);
    seal(file, heap, kHeapBytes + (filters > 0 ? 12 + filters : 0));
  }
  const std::vector<std::size_t> trees = places(file, "BTHD"), leaves = places(file, "BTLF");
  for (std::size_t i = 0; i < std::min(trees.size(), leaves.size()); ++i)
    seal(file, leaves[i], 6 + number_at(file, trees[i] + 24, 2) * number_at(file, trees[i] + 10, 2));
}

std::string damage_of(std::span<const std::byte> input) {
  Reader reader(input);
  const unsigned address = reader.u16();
  const std::span<const std::byte> rest = reader.rest();
  Bytes file(rest.begin(), rest.end());
  seal_all(file);
  return header_damage(InputSource(file), address);
}

}  // namespace

void fuzz_one(std::span<const std::byte> input) { damage_of(input); }

// Links, links that are compressed, attributes: each alone, as the tool that runs the targets limits the size
// of an input.
std::vector<Bytes> seeds() {
  enum class Kind { links, filtered_links, attributes };
  const TempDir dir;
  std::vector<Bytes> result;
  for (const Kind kind : {Kind::links, Kind::filtered_links, Kind::attributes}) {
    const std::filesystem::path path = dir / "x.h5";
    {
      H5TestFile file(path, {.latest = true});
      const Hid list(H5Pcreate(H5P_GROUP_CREATE));
      if (kind == Kind::filtered_links) test::require(H5Pset_deflate(list.get(), 1), "H5Pset_deflate");
      const Hid group(H5Gcreate2(file.id(), "g", H5P_DEFAULT, list.get(), H5P_DEFAULT));
      const Hid space(H5Screate(H5S_SCALAR));
      for (int i = 0; i < 12; ++i) {
        const std::string name = std::to_string(i);
        if (kind == Kind::attributes) {
          const Hid attribute(
              H5Acreate2(group.get(), name.c_str(), H5T_STD_I32LE, space.get(), H5P_DEFAULT, H5P_DEFAULT));
        } else {
          test::require(H5Lcreate_soft("/", group.get(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT),
                        "H5Lcreate_soft");
        }
      }
    }
    result.push_back(
        Writer().u16(static_cast<unsigned>(header_address(path, "g"))).bytes(file_bytes(path)).done());
    require(result.back().size() < 4096, "a seed is small enough");
    require(damage_of(result.back()).empty(), "a seed is intact");
    std::filesystem::remove(path);
  }
  return result;
}

}  // namespace h5feed::test::fuzz
