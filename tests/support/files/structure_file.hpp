// SPDX-License-Identifier: Apache-2.0
// A file whose structure tests damage.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "h5feed/error.hpp"
#include "store/format/byte_order.hpp"
#include "store/format/object_header.hpp"
#include "store/hdf5/h5_file.hpp"
#include "support/files/damage.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/shape.hpp"
#include "support/files/temp_dir.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {

class StoreStructure : public testing::Test {
 protected:
  std::filesystem::path path() const { return dir_ / "train.h5"; }

  void write(TestFileOptions options = {}) const {
    H5TestFile file(path(), options);
    file.create({.path = "images", .shape = {12, 6}, .max_shape = {kUnlimited, kUnlimited}, .chunk = {4, 6}});
    file.write("images", patterned_bytes(72));
    file.create({.path = "meta/labels", .shape = {12}});
  }

  // Returns the place of the first bytes that equal `what`.
  std::uint64_t find(std::string_view what) const { return find_from(what, 0); }
  // Returns the place of the first such bytes that do not begin before `from`.
  std::uint64_t find_from(std::string_view what, std::uint64_t from) const {
    const std::vector<std::byte> bytes = file_bytes(path());
    const auto found =
        std::search(bytes.begin() + static_cast<std::ptrdiff_t>(from), bytes.end(), what.begin(), what.end(),
                    [](std::byte a, char b) { return std::to_integer<char>(a) == b; });
    EXPECT_NE(found, bytes.end());
    return static_cast<std::uint64_t>(found - bytes.begin());
  }

  template <typename Number>
  void put(std::uint64_t at, Number number) const {
    std::vector<std::byte> bytes = file_bytes(path());
    bytes.resize(std::max<std::size_t>(bytes.size(), at + sizeof number));
    put_little_endian(bytes, at, number);
    replace_file(path(), bytes);
  }

  // Returns where the layout of /images is, in a header of the oldest version: type, size, flags, reserved,
  // contents.
  std::uint64_t layout_of_images() const {
    const std::vector<std::byte> bytes = file_bytes(path());
    std::uint64_t at = header_address(path(), "images") + 16;
    while (little_endian(std::span(bytes).subspan(at, 2)) != HeaderMessage::layout)
      at += 8 + little_endian(std::span(bytes).subspan(at + 2, 2));
    return at;
  }

  std::string open_message() const {
    return refusal_in<FileError>(dir_.path(), [this] { H5File::open(path()); });
  }
  std::string describe_message() const {
    return refusal_in<FileError>(dir_.path(), [this] { H5File::open(path())->describe("images"); });
  }

  // Makes the tree node at `node` one of level 1 whose first child is `child`. `key` is the size of a key.
  void make_parent(std::uint64_t node, std::uint64_t key, std::uint64_t child) const {
    put<std::uint8_t>(node + 5, 1);
    put<std::uint64_t>(node + 24 + key, child);
  }

  static constexpr std::uint64_t kGroupKey = 8;
  static constexpr std::uint64_t kChunkKey = 8 + 8 * 3;

  TempDir dir_;
};

}  // namespace h5feed::test
