// SPDX-License-Identifier: Apache-2.0
// Integers that do not fill their bytes, packed by HDF5 filter 5 and not, against libhdf5, value for value:
// every size, byte order and number of bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "store/format/byte_order.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/read_all.hpp"
#include "store/read/reader_factories.hpp"
#include "support/files/bytes.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/shape.hpp"
#include "support/files/temp_dir.hpp"

namespace h5feed::test {
namespace {

const Shape kShape = {20, 7};
constexpr std::size_t kElements = 20 * 7;

// Values of `bits` bits, with their sign, in elements of `bytes` bytes.
Bytes narrow_values(std::size_t bytes, unsigned bits, bool is_signed, std::mt19937_64& random) {
  Bytes values(kElements * bytes);
  for (std::size_t i = 0; i < kElements; ++i) {
    std::uint64_t value = random() >> (64 - bits);
    if (is_signed && bits < 64 && (value >> (bits - 1) & 1U) != 0) value |= ~std::uint64_t{0} << bits;
    const auto* const low = reinterpret_cast<const std::byte*>(&value) + (kHostIsBigEndian ? 8 - bytes : 0);
    std::memcpy(values.data() + i * bytes, low, bytes);
  }
  return values;
}

class Nbit : public testing::TestWithParam<std::tuple<std::size_t, H5T_order_t, bool>> {
 protected:
  std::size_t bytes() const { return std::get<0>(GetParam()); }

  Hid type(unsigned bits, unsigned first) const {
    Hid made(H5Tcopy(std::get<2>(GetParam()) ? H5T_STD_I64LE : H5T_STD_U64LE));
    require(H5Tset_precision(made.get(), bits), "H5Tset_precision");
    require(H5Tset_offset(made.get(), first), "H5Tset_offset");
    require(H5Tset_size(made.get(), bytes()), "H5Tset_size");
    require(H5Tset_order(made.get(), std::get<1>(GetParam())), "H5Tset_order");
    return made;
  }
};

// The ways in which each type is stored, by name.
std::vector<std::pair<std::string, TestDataset>> narrow_storages() {
  const FilterSpec nbit{.id = filter_id::kNbit, .optional = true};
  const FilterSpec shuffle{.id = filter_id::kShuffle, .optional = true};
  const FilterSpec sum{.id = filter_id::kFletcher32};
  return {{"contiguous", {}},
          {"compact", {.compact = true}},
          {"plain", {.chunk = {6, 3}}},
          {"packed", {.chunk = {6, 3}, .filters = {nbit}}},
          {"packed_gzip", {.chunk = {6, 7}, .filters = {nbit, shuffle, gzip_filter(1)}}},
          {"packed_sum", {.chunk = {6, 3}, .filters = {nbit, sum}}}};
}

TEST_P(Nbit, delivers_what_libhdf5_reads) {
  TempDir dir;
  const std::filesystem::path path = dir / "x.h5";
  std::mt19937_64 random(1);
  const unsigned element_bits = static_cast<unsigned>(8 * bytes());
  std::vector<std::pair<std::string, Bytes>> written;
  {
    H5TestFile file(path);
    for (unsigned bits = 1; bits <= element_bits; bits += element_bits > 16 && bits > 12 ? 5 : 1) {
      for (const unsigned first : {0U, (element_bits - bits) / 2, element_bits - bits}) {
        const Hid stored = type(bits, first);
        for (auto [name, dataset] : narrow_storages()) {
          dataset.path = name + "_" + std::to_string(bits) + "_" + std::to_string(first);
          if (H5Lexists(file.id(), dataset.path.c_str(), H5P_DEFAULT) > 0) continue;
          dataset.file_type = stored.get();
          dataset.shape = kShape;
          const Bytes values = narrow_values(bytes(), bits, std::get<2>(GetParam()), random);
          file.create(dataset);
          file.write(dataset.path, values);
          written.emplace_back(dataset.path, values);
        }
      }
    }
  }
  // libhdf5 1.10 does not extend the sign of packed values in the other byte order.
  const bool right = std::get<1>(GetParam()) == H5T_ORDER_LE || !std::get<2>(GetParam());
  for (const auto& [name, values] : written) {
    if (!right) continue;
    ASSERT_EQ(read_through_libhdf5(path, name), values) << name << ": libhdf5 itself";
  }
  const auto file = H5File::open(path);
  for (const auto& [name, values] : written) {
    const DatasetInfo info = file->describe(name);
    const auto reader = open_chunk_reader(file, info);
    ASSERT_TRUE(reader->direct()) << name << ": " << reader->fallback_reason();
    const ByteBuffer ours = read_all(*reader, 1);
    ASSERT_TRUE(std::ranges::equal(ours.span(), values)) << name;
    Bytes through(values.size());
    file->read_rows(reader->info(), 0, info.rows(), through);
    ASSERT_EQ(through, values) << name << " by H5Dread";
  }
}

TEST_P(Nbit, delivers_fill_values_and_chunks_that_skip_the_filter) {
  TempDir dir;
  const std::filesystem::path path = dir / "x.h5";
  std::mt19937_64 random(2);
  const auto bits = static_cast<unsigned>(8 * bytes() - 3);
  const Hid stored = type(bits, 2);
  {
    H5TestFile file(path);
    Bytes fill(bytes());
    fill[std::get<1>(GetParam()) == H5T_ORDER_BE ? bytes() - 1 : 0] = std::byte{0x14};  // 5 at bit 2
    file.create({.path = "x",
                 .file_type = stored.get(),
                 .shape = kShape,
                 .chunk = {5, 7},
                 .filters = {{.id = filter_id::kNbit, .optional = true}},
                 .fill_value = fill});
    Bytes raw = narrow_values(bytes(), 8U * static_cast<unsigned>(bytes()), false, random);
    raw.resize(5 * 7 * bytes());
    for (std::size_t i = 0; i < raw.size(); ++i) raw[i] &= fill[i % bytes()];
    file.write_chunk("x", Shape{5, 0}, raw, 1);
  }
  const Bytes expected = read_through_libhdf5(path, "x");
  const auto file = H5File::open(path);
  const auto reader = open_chunk_reader(file, file->describe("x"));
  ASSERT_TRUE(reader->direct());
  const ByteBuffer ours = read_all(*reader, 1);
  EXPECT_TRUE(std::ranges::equal(ours.span(), expected));
  EXPECT_EQ(ours.data()[kHostIsBigEndian ? bytes() - 1 : 0], std::byte{5});
}

INSTANTIATE_TEST_SUITE_P(Types, Nbit,
                         testing::Combine(testing::Values(1, 2, 4, 8),
                                          testing::Values(H5T_ORDER_LE, H5T_ORDER_BE), testing::Bool()),
                         [](const auto& type) {
                           return std::string(std::get<2>(type.param) ? "i" : "u") +
                                  std::to_string(8 * std::get<0>(type.param)) +
                                  (std::get<1>(type.param) == H5T_ORDER_BE ? "_big_endian"
                                                                           : "_little_endian");
                         });

}  // namespace
}  // namespace h5feed::test
