// SPDX-License-Identifier: Apache-2.0
// Element types as they are found: every number in either byte order, bool, enumerations, complex numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/identity_filter.hpp"
#include "support/files/temp_dir.hpp"
#include "support/loaders/loaded_rows.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using testing::ElementsAre;

// Storage of 13 rows: contiguous, chunks that cut samples, and chunks that libhdf5 has to decode.
std::vector<test::TestDataset> storages() {
  return {{},
          {.chunk = {4, 2, 3}, .filters = {{.id = 2}, {.id = 1, .params = {1}}, {.id = 3}}},
          {.chunk = {4, 3, 4}, .filters = {identity_filter()}}};
}

class Types : public testing::Test {
 protected:
  // Expects that what is written in `type` arrives as `dtype`; `bytes`: of 13×3×4 elements in the host's
  // order.
  void check(hid_t type, DType dtype, const std::vector<std::byte>& bytes,
             const std::vector<std::int64_t>& shape) {
    for (test::TestDataset storage : storages()) {
      storage.path = "x";
      storage.file_type = type;
      storage.shape = {13, 3, 4};
      {
        H5TestFile file(path());
        file.create(storage);
        file.write("x", bytes);
      }
      const Dataset dataset =
          Dataset::open({.files = {path()}, .data = "x", .input_layout = InputLayout::none});
      EXPECT_EQ(dataset.dtype(), dtype);
      EXPECT_EQ(dataset.sample_shape(), shape);
      EXPECT_EQ(first_difference(dataset, bytes), "");
    }
  }

  std::filesystem::path path() const { return dir_ / "x.h5"; }
  TempDir dir_;
};

TEST_F(Types, of_every_number_are_read_in_either_byte_order) {
  const std::pair<hid_t, DType> types[] = {
      {H5T_STD_U8LE, DType::u8},    {H5T_STD_I8LE, DType::i8},    {H5T_STD_U16LE, DType::u16},
      {H5T_STD_U16BE, DType::u16},  {H5T_STD_I16LE, DType::i16},  {H5T_STD_I16BE, DType::i16},
      {H5T_STD_U32LE, DType::u32},  {H5T_STD_U32BE, DType::u32},  {H5T_STD_I32LE, DType::i32},
      {H5T_STD_I32BE, DType::i32},  {H5T_STD_U64LE, DType::u64},  {H5T_STD_U64BE, DType::u64},
      {H5T_STD_I64LE, DType::i64},  {H5T_STD_I64BE, DType::i64},  {H5T_IEEE_F32LE, DType::f32},
      {H5T_IEEE_F32BE, DType::f32}, {H5T_IEEE_F64LE, DType::f64}, {H5T_IEEE_F64BE, DType::f64}};
  for (const auto& [type, dtype] : types)
    check(type, dtype, test::patterned_bytes(13 * 12 * size_of(dtype), 5), {3, 4});
}

Hid half(H5T_order_t order) { return Hid(test::float16_type(10, 15, order)); }
Hid brain_float(H5T_order_t order) { return Hid(test::float16_type(7, 127, order)); }

TEST_F(Types, of_half_precision_and_bfloat16_are_read) {
  for (const H5T_order_t order : {H5T_ORDER_LE, H5T_ORDER_BE}) {
    check(half(order).get(), DType::f16, test::patterned_bytes(13 * 12 * 2, 2), {3, 4});
    check(brain_float(order).get(), DType::bf16, test::patterned_bytes(13 * 12 * 2, 2), {3, 4});
  }
}

TEST_F(Types, of_bitfields_arrive_as_unsigned_integers) {
  const std::pair<hid_t, DType> types[] = {{H5T_STD_B8LE, DType::u8},   {H5T_STD_B8BE, DType::u8},
                                           {H5T_STD_B16LE, DType::u16}, {H5T_STD_B16BE, DType::u16},
                                           {H5T_STD_B32LE, DType::u32}, {H5T_STD_B32BE, DType::u32},
                                           {H5T_STD_B64LE, DType::u64}, {H5T_STD_B64BE, DType::u64}};
  for (const auto& [type, dtype] : types) {
    check(type, dtype, test::patterned_bytes(13 * 12 * size_of(dtype), 5), {3, 4});
    EXPECT_EQ(H5File::open(path())->list_datasets().front().type_text,
              "bitfield of " + std::string(name_of(dtype)));
  }
}

TEST_F(Types, of_bitfields_and_bfloat16_fill_what_was_never_written) {
  const Hid brain = brain_float(H5T_ORDER_BE);
  const std::pair<hid_t, DType> types[] = {{H5T_STD_B16BE, DType::u16}, {brain.get(), DType::bf16}};
  for (const auto& [type, dtype] : types) {
    {
      H5TestFile file(path());
      file.create({.path = "x",
                   .file_type = type,
                   .shape = {5, 3},
                   .chunk = {2, 3},
                   .fill_value = {std::byte{0x3f}, std::byte{0x80}}});
    }
    std::vector<std::byte> expected;
    for (int i = 0; i < 15; ++i) expected.insert(expected.end(), {std::byte{0x80}, std::byte{0x3f}});
    const Dataset dataset = Dataset::open({.files = {path()}, .data = "x"});
    EXPECT_EQ(dataset.dtype(), dtype);
    EXPECT_EQ(first_difference(dataset, expected), "");
  }
}

// The upper half of a float each, so that the conversions are exact.
TEST_F(Types, of_bfloat16_convert_to_the_other_floats) {
  const std::vector<std::uint16_t> bits = {0x3F80, 0xC000, 0x4040, 0xBF00, 0x7F80, 0x0000};
  const std::vector<float> values = {1, -2, 3, -0.5F, INFINITY, 0};
  {
    H5TestFile file(path());
    const Hid type = brain_float(H5T_ORDER_BE);
    for (const char* const name : {"x", "y", "z"}) {
      const bool column = *name != 'x';
      file.create({.path = name,
                   .file_type = type.get(),
                   .shape = column ? std::vector<std::uint64_t>{6} : std::vector<std::uint64_t>{6, 1},
                   .chunk = column ? std::vector<std::uint64_t>{4} : std::vector<std::uint64_t>{4, 1}});
      file.write(name, std::as_bytes(std::span(bits)));
    }
  }
  DatasetOptions options{.files = {path()}, .data = "x", .target = "y"};
  options.fields = {{.name = "z"}, {.name = "wide", .data = "z", .dtype = DType::f64}};
  const Dataset dataset = Dataset::open(options);
  const auto first = [&](const DataLoaderOptions& loading) { return *DataLoader(dataset, loading).next(); };

  const Batch stored = first({.batch_size = 6});
  EXPECT_EQ(stored.data.dtype, DType::bf16);
  EXPECT_EQ(stored.target.dtype, DType::bf16);
  EXPECT_EQ(stored.field("z").values.dtype, DType::bf16);
  EXPECT_EQ(std::memcmp(stored.data.bytes.get(), bits.data(), 12), 0);
  EXPECT_EQ(std::memcmp(stored.target.bytes.get(), bits.data(), 12), 0);
  EXPECT_EQ(std::memcmp(stored.field("z").values.bytes.get(), bits.data(), 12), 0);
  EXPECT_THAT(stored.field("wide").values.as<double>(), ElementsAre(1, -2, 3, -0.5, INFINITY, 0));

  const Batch wide = first({.batch_size = 6, .output_dtype = DType::f32, .target_dtype = DType::f32});
  EXPECT_THAT(wide.data.as<float>(), testing::ElementsAreArray(values));
  EXPECT_THAT(wide.target.as<float>(), testing::ElementsAreArray(values));
  const Batch half_precision = first({.batch_size = 6, .output_dtype = DType::f16});
  const std::vector<std::uint16_t> halves = {0x3C00, 0xC000, 0x4200, 0xB800, 0x7C00, 0x0000};
  EXPECT_EQ(std::memcmp(half_precision.data.bytes.get(), halves.data(), 12), 0);
  const Batch normalized = first({.batch_size = 4, .normalize = Normalize{.mean = {1}, .std = {2}}});
  EXPECT_THAT(normalized.data.as<float>(), ElementsAre(0, -1.5F, 1, -0.75F));
}

Hid bool_type() {
  Hid type(H5Tenum_create(H5T_STD_I8LE));
  const std::int8_t values[] = {0, 1};
  test::require(H5Tenum_insert(type.get(), "FALSE", &values[0]), "H5Tenum_insert");
  test::require(H5Tenum_insert(type.get(), "TRUE", &values[1]), "H5Tenum_insert");
  return type;
}

TEST_F(Types, of_bool_arrive_as_0_and_1) {
  std::vector<std::byte> bytes = test::random_bytes(13 * 12);
  for (std::byte& byte : bytes) byte &= std::byte{1};
  check(bool_type().get(), DType::u8, bytes, {3, 4});
}

TEST_F(Types, of_enumerations_arrive_as_their_integers) {
  for (const hid_t base : {H5T_STD_I16LE, H5T_STD_I16BE}) {
    const Hid type(H5Tenum_create(base));
    // The values of members are in the base's order.
    std::vector<std::int16_t> values = {7, -2};
    test::require(H5Tconvert(H5T_NATIVE_INT16, base, values.size(), values.data(), nullptr, H5P_DEFAULT),
                  "H5Tconvert");
    test::require(H5Tenum_insert(type.get(), "cat", values.data()), "H5Tenum_insert");
    test::require(H5Tenum_insert(type.get(), "dog", &values[1]), "H5Tenum_insert");
    const std::int16_t native[] = {7, -2};
    std::vector<std::int16_t> stored;
    for (std::size_t i = 0; i < 13 * 12; ++i) stored.push_back(values[i * i % 7 % 2]);
    std::vector<std::byte> expected(stored.size() * 2);
    for (std::size_t i = 0; i < stored.size(); ++i)
      std::memcpy(expected.data() + i * 2, &native[i * i % 7 % 2], 2);
    {
      H5TestFile file(path());
      file.create({.path = "x", .file_type = type.get(), .shape = {13, 3, 4}, .chunk = {4, 3, 4}});
      const Hid dataset(H5Dopen2(file.id(), "x", H5P_DEFAULT));
      test::require(H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, stored.data()),
                    "H5Dwrite");
    }
    const Dataset dataset =
        Dataset::open({.files = {path()}, .data = "x", .input_layout = InputLayout::none});
    EXPECT_EQ(dataset.dtype(), DType::i16);
    EXPECT_EQ(first_difference(dataset, expected), "");
    EXPECT_EQ(H5File::open(path())->list_datasets().front().type_text, "enumeration of i16");
  }
}

Hid complex_type(hid_t part) {
  const std::size_t bytes = H5Tget_size(part);
  Hid type(H5Tcreate(H5T_COMPOUND, 2 * bytes));
  test::require(H5Tinsert(type.get(), "r", 0, part), "H5Tinsert");
  test::require(H5Tinsert(type.get(), "i", bytes, part), "H5Tinsert");
  return type;
}

TEST_F(Types, of_complex_numbers_arrive_as_pairs) {
  const std::pair<hid_t, DType> parts[] = {{H5T_IEEE_F32LE, DType::f32},
                                           {H5T_IEEE_F32BE, DType::f32},
                                           {H5T_IEEE_F64LE, DType::f64},
                                           {H5T_IEEE_F64BE, DType::f64}};
  for (const auto& [part, dtype] : parts)
    check(complex_type(part).get(), dtype, test::patterned_bytes(13 * 12 * 2 * size_of(dtype), 9), {3, 4, 2});
}

TEST_F(Types, of_complex_numbers_fill_what_was_never_written) {
  const float fill[] = {1.5F, -2.5F};
  const auto bytes = std::as_bytes(std::span(fill));
  {
    H5TestFile file(path());
    file.create({.path = "x",
                 .file_type = complex_type(H5T_IEEE_F32LE).get(),
                 .shape = {5, 3},
                 .chunk = {2, 3},
                 .fill_value = {bytes.begin(), bytes.end()}});
  }
  std::vector<std::byte> expected;
  for (int i = 0; i < 15; ++i) expected.insert(expected.end(), bytes.begin(), bytes.end());
  EXPECT_EQ(first_difference(
                Dataset::open({.files = {path()}, .data = "x", .input_layout = InputLayout::none}), expected),
            "");
}

TEST_F(Types, that_are_pairs_of_other_things_are_refused) {
  const Hid mixed(H5Tcreate(H5T_COMPOUND, 12));
  test::require(H5Tinsert(mixed.get(), "r", 0, H5T_IEEE_F32LE), "H5Tinsert");
  test::require(H5Tinsert(mixed.get(), "i", 4, H5T_IEEE_F64LE), "H5Tinsert");
  const Hid padded(H5Tcreate(H5T_COMPOUND, 12));
  test::require(H5Tinsert(padded.get(), "r", 0, H5T_IEEE_F32LE), "H5Tinsert");
  test::require(H5Tinsert(padded.get(), "i", 8, H5T_IEEE_F32LE), "H5Tinsert");
  for (const hid_t type : {mixed.get(), padded.get()}) {
    {
      H5TestFile file(path());
      file.create({.path = "x", .file_type = type, .shape = {5, 3}});
    }
    EXPECT_THROW(H5File::open(path())->describe("x"), DatasetError);
  }
}

TEST_F(Types, of_labels_may_be_any_number) {
  const std::pair<hid_t, std::size_t> types[] = {
      {H5T_STD_I8LE, 1}, {H5T_STD_U16BE, 2}, {H5T_STD_I32BE, 4}, {H5T_STD_U64LE, 8}, {H5T_STD_I64BE, 8}};
  for (const auto& [type, bytes] : types) {
    std::vector<std::int64_t> wide;
    std::vector<std::byte> native;
    for (std::int64_t i = 0; i < 13; ++i) {
      wide.push_back(100 - i);
      const auto* const value = reinterpret_cast<const std::byte*>(&wide.back());
      native.insert(native.end(), value, value + bytes);  // the host is little-endian
    }
    const std::vector<std::byte> images = test::random_bytes(13 * 12);
    {
      H5TestFile file(path());
      file.create({.path = "x", .shape = {13, 3, 4}});
      file.write("x", images);
      file.create({.path = "y", .file_type = type, .shape = {13}, .chunk = {5}});
      file.write("y", native);
    }
    const auto expected = std::as_bytes(std::span(wide));
    EXPECT_EQ(first_difference(Dataset::open({.files = {path()}, .data = "x", .target = "y"}), images,
                               {expected.begin(), expected.end()}),
              "");
  }
}

}  // namespace
}  // namespace h5feed::test
