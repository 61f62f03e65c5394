// SPDX-License-Identifier: Apache-2.0
// ChunkReader against H5Dread for data that is not chunked, and for every element type.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>

#include "conformance/storage_matrix.hpp"
#include "store/filters/filters.hpp"
#include "store/format/byte_order.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/read_all.hpp"
#include "store/read/reader_factories.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/shape.hpp"
#include "support/files/temp_dir.hpp"

namespace h5feed::test {
namespace {

struct StoredType {
  test::ElementType type;
  bool big_endian;
};

std::string text_of(const StoredType& stored) {
  return std::string(stored.type.name) + (stored.big_endian ? "_big_endian" : "");
}

void PrintTo(const StoredType& stored, std::ostream* out) { *out << text_of(stored); }

std::vector<StoredType> stored_types() {
  std::vector<StoredType> result;
  for (const test::ElementType& type : test::element_types()) {
    for (const bool big_endian : {false, true}) result.push_back({type, big_endian});
  }
  return result;
}

class TypeConformance : public testing::TestWithParam<StoredType> {
 protected:
  DType dtype() const { return GetParam().type.dtype; }

  TestDataset dataset(Shape shape) const {
    return {.file_type = GetParam().type.file_type(GetParam().big_endian ? H5T_ORDER_BE : H5T_ORDER_LE),
            .shape = std::move(shape)};
  }

  std::vector<std::byte> values(const Shape& shape) const {
    std::vector<std::byte> bytes = test::patterned_bytes(test::product(shape) * size_of(dtype()));
    // No bit pattern of a NaN: H5Dread may quiet it while it swaps bytes.
    for (std::byte& byte : bytes) byte &= std::byte{0x3f};
    return bytes;
  }

  // Writes one dataset; `written` false leaves it as created.
  void write(const TestDataset& created, bool written = true, std::uint64_t user_block = 0) const {
    H5TestFile file(path(), {.user_block = user_block});
    file.create(created);
    if (written) file.write("x", values(created.shape));
  }

  std::filesystem::path path() const { return dir_ / "x.h5"; }

  void expect_equals_libhdf5() const {
    const std::vector<std::byte> expected = test::read_through_libhdf5(path(), "x");
    const auto file = H5File::open(path());
    const DatasetInfo info = file->describe("x");
    EXPECT_EQ(info.dtype, dtype());
    EXPECT_EQ(info.byte_swapped, GetParam().big_endian != kHostIsBigEndian && size_of(dtype()) > 1);
    const auto reader = open_chunk_reader(file, info);
    EXPECT_TRUE(reader->direct()) << reader->fallback_reason();
    const ByteBuffer bytes = read_all(*reader, 2);
    ASSERT_EQ(bytes.size(), expected.size());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), bytes.data()));
    if (!reader->rows_readable()) return;
    std::vector<std::byte> row(info.row_bytes());
    for (std::uint64_t r = 0; r < info.rows(); ++r) {
      reader->read_rows(r, 1, row);
      EXPECT_TRUE(std::equal(row.begin(), row.end(), expected.data() + r * row.size())) << "row " << r;
    }
  }

 private:
  TempDir dir_;
};

TEST_P(TypeConformance, reads_contiguous_data) {
  write(dataset({11, 3, 5}));
  expect_equals_libhdf5();
}

TEST_P(TypeConformance, reads_contiguous_data_in_several_runs) {
  write(dataset({70000, 5, 4}));
  expect_equals_libhdf5();
}

TEST_P(TypeConformance, reads_contiguous_data_after_a_user_block) {
  write(dataset({11, 3, 5}), true, 512);
  expect_equals_libhdf5();
}

TEST_P(TypeConformance, reads_contiguous_data_that_were_never_written) {
  TestDataset created = dataset({11, 3, 5});
  created.fill_value = values({1});
  write(created, false);
  expect_equals_libhdf5();
}

TEST_P(TypeConformance, reads_contiguous_data_after_a_user_block_that_were_never_written) {
  TestDataset created = dataset({11, 3, 5});
  created.fill_value = values({1});
  write(created, false, 512);
  expect_equals_libhdf5();
}

TEST_P(TypeConformance, reads_compact_data) {
  TestDataset created = dataset({11, 3, 5});
  created.compact = true;
  write(created);
  expect_equals_libhdf5();
}

TEST_P(TypeConformance, reads_a_scalar) {
  write(dataset({}));
  expect_equals_libhdf5();
}

TEST_P(TypeConformance, reads_chunked_and_filtered_data) {
  TestDataset created = dataset({11, 3, 5});
  created.chunk = {4, 2, 5};
  created.filters = parse_filters("shuffle+gzip:4+fletcher32", size_of(dtype()));
  write(created);
  expect_equals_libhdf5();
}

INSTANTIATE_TEST_SUITE_P(All, TypeConformance, testing::ValuesIn(stored_types()),
                         [](const auto& stored) { return text_of(stored.param); });

TEST(EmptyConformance, zero_extents_deliver_nothing) {
  const TempDir dir;
  const std::filesystem::path path = dir / "x.h5";
  const std::vector<Shape> shapes = {{0}, {0, 3}, {5, 0}, {5, 0, 7}};
  {
    H5TestFile file(path);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      TestDataset created{.path = "flat" + std::to_string(i), .shape = shapes[i]};
      file.create(created);
      created.path = "chunked" + std::to_string(i);
      created.chunk = Shape(shapes[i].size(), 2);
      created.max_shape = Shape(shapes[i].size(), ~std::uint64_t{0});
      file.create(created);
    }
  }
  const auto file = H5File::open(path);
  for (const DatasetEntry& entry : file->list_datasets()) {
    SCOPED_TRACE(entry.path);
    const auto reader = open_chunk_reader(file, file->describe(entry.path));
    EXPECT_EQ(reader->num_chunks(), 0U);
    EXPECT_EQ(read_all(*reader, 2).size(), 0U);
  }
}

}  // namespace
}  // namespace h5feed::test
