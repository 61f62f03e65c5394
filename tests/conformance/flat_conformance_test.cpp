// ChunkReader against H5Dread for data that is not chunked, and for every element type.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <ostream>
#include <string>

#include "store/chunk_reader.hpp"
#include "store/filters.hpp"
#include "support/h5_test_file.hpp"
#include "support/temp_dir.hpp"

namespace h5feed {
namespace {

using test::H5TestFile;
using test::TempDir;
using test::TestDataset;

using Shape = std::vector<std::uint64_t>;

struct ElementType {
  const char* name;
  hid_t (*file_type)();
  DType dtype;
  bool big_endian;
};

// IEEE half precision, which libhdf5 has no name for before 1.14.
hid_t half_type(H5T_order_t order) {
  const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
  test::require(H5Tset_fields(type, 15, 10, 5, 0, 10), "H5Tset_fields");
  test::require(H5Tset_size(type, 2), "H5Tset_size");
  test::require(H5Tset_ebias(type, 15), "H5Tset_ebias");
  test::require(H5Tset_order(type, order), "H5Tset_order");
  return type;
}

const ElementType kElementTypes[] = {
    {"u8", [] { return H5T_STD_U8LE; }, DType::u8, false},
    {"u8_big_endian", [] { return H5T_STD_U8BE; }, DType::u8, false},
    {"i8", [] { return H5T_STD_I8LE; }, DType::i8, false},
    {"u16", [] { return H5T_STD_U16LE; }, DType::u16, false},
    {"u16_big_endian", [] { return H5T_STD_U16BE; }, DType::u16, true},
    {"i16", [] { return H5T_STD_I16LE; }, DType::i16, false},
    {"i16_big_endian", [] { return H5T_STD_I16BE; }, DType::i16, true},
    {"u32", [] { return H5T_STD_U32LE; }, DType::u32, false},
    {"u32_big_endian", [] { return H5T_STD_U32BE; }, DType::u32, true},
    {"i32", [] { return H5T_STD_I32LE; }, DType::i32, false},
    {"i32_big_endian", [] { return H5T_STD_I32BE; }, DType::i32, true},
    {"u64", [] { return H5T_STD_U64LE; }, DType::u64, false},
    {"u64_big_endian", [] { return H5T_STD_U64BE; }, DType::u64, true},
    {"i64", [] { return H5T_STD_I64LE; }, DType::i64, false},
    {"i64_big_endian", [] { return H5T_STD_I64BE; }, DType::i64, true},
    {"f16", [] { return half_type(H5T_ORDER_LE); }, DType::f16, false},
    {"f16_big_endian", [] { return half_type(H5T_ORDER_BE); }, DType::f16, true},
    {"f32", [] { return H5T_IEEE_F32LE; }, DType::f32, false},
    {"f32_big_endian", [] { return H5T_IEEE_F32BE; }, DType::f32, true},
    {"f64", [] { return H5T_IEEE_F64LE; }, DType::f64, false},
    {"f64_big_endian", [] { return H5T_IEEE_F64BE; }, DType::f64, true},
};

void PrintTo(const ElementType& type, std::ostream* out) { *out << type.name; }

class TypeConformance : public testing::TestWithParam<ElementType> {
 protected:
  TestDataset dataset(Shape shape) const {
    return {.file_type = GetParam().file_type(), .shape = std::move(shape)};
  }

  std::vector<std::byte> values(const Shape& shape) const {
    const std::size_t elements =
        std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
    std::vector<std::byte> bytes = test::patterned_bytes(elements * size_of(GetParam().dtype));
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
    EXPECT_EQ(info.dtype, GetParam().dtype);
    EXPECT_EQ(info.byte_swapped, GetParam().big_endian);
    const auto reader = ChunkReader::open(file, info);
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

TEST_P(TypeConformance, Contiguous) {
  write(dataset({11, 3, 5}));
  expect_equals_libhdf5();
}

TEST_P(TypeConformance, ContiguousInSeveralRuns) {
  write(dataset({70000, 5, 4}));
  expect_equals_libhdf5();
}

TEST_P(TypeConformance, ContiguousAfterUserBlock) {
  write(dataset({11, 3, 5}), true, 512);
  expect_equals_libhdf5();
}

TEST_P(TypeConformance, ContiguousNeverWritten) {
  TestDataset created = dataset({11, 3, 5});
  created.fill_value = values({1});
  write(created, false);
  expect_equals_libhdf5();
}

TEST_P(TypeConformance, Compact) {
  TestDataset created = dataset({11, 3, 5});
  created.compact = true;
  write(created);
  expect_equals_libhdf5();
}

TEST_P(TypeConformance, Scalar) {
  write(dataset({}));
  expect_equals_libhdf5();
}

TEST_P(TypeConformance, ChunkedAndFiltered) {
  TestDataset created = dataset({11, 3, 5});
  created.chunk = {4, 2, 5};
  created.filters = parse_filters("shuffle+gzip:4+fletcher32", size_of(GetParam().dtype));
  write(created);
  expect_equals_libhdf5();
}

INSTANTIATE_TEST_SUITE_P(All, TypeConformance, testing::ValuesIn(kElementTypes),
                         [](const auto& element) { return std::string(element.param.name); });

TEST(EmptyConformance, ZeroExtentsDeliverNothing) {
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
    const auto reader = ChunkReader::open(file, file->describe(entry.path));
    EXPECT_EQ(reader->num_chunks(), 0U);
    EXPECT_EQ(read_all(*reader, 2).size(), 0U);
  }
}

}  // namespace
}  // namespace h5feed
