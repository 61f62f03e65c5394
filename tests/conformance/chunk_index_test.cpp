// SPDX-License-Identifier: Apache-2.0
// build_chunk_index against H5Dget_chunk_info, chunk by chunk, for every index of the format.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "conformance/storage_matrix.hpp"
#include "h5feed/error.hpp"
#include "h5feed/log.hpp"
#include "store/filters/filters.hpp"
#include "store/format/chunk_geometry.hpp"
#include "store/index/chunk_index.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/read_all.hpp"
#include "store/read/reader_factories.hpp"
#include "support/files/damage.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/shape.hpp"
#include "support/files/temp_dir.hpp"

namespace h5feed::test {
void PrintTo(const IndexKind& kind, std::ostream* out) { *out << kind.name; }
namespace {

// Stored chunks by their offset in elements, as libhdf5's own query lists them. Its addresses leave
// out the user block before 1.14.4. The offsets are text: libstdc++ 12 orders vectors of unsigned numbers
// wrongly on big-endian machines.
std::map<std::string, ChunkLocation> chunk_info(const std::filesystem::path& path,
                                                [[maybe_unused]] std::uint64_t user_block) {
  const Hid file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const Hid dataset(H5Dopen2(file.get(), "x", H5P_DEFAULT));
  const Hid space(H5Dget_space(dataset.get()));
  hsize_t chunks = 0;
  test::require(H5Dget_num_chunks(dataset.get(), space.get(), &chunks), "H5Dget_num_chunks");
  std::map<std::string, ChunkLocation> result;
  for (hsize_t i = 0; i < chunks; ++i) {
    std::array<hsize_t, H5S_MAX_RANK> offset = {};
    unsigned mask = 0;
    haddr_t address = 0;
    hsize_t bytes = 0;
    test::require(H5Dget_chunk_info(dataset.get(), space.get(), i, offset.data(), &mask, &address, &bytes),
                  "H5Dget_chunk_info");
    if (address == HADDR_UNDEF) continue;
#if !H5_VERSION_GE(1, 14, 4)
    address += user_block;
#endif
    const Shape place(offset.begin(), offset.begin() + H5Sget_simple_extent_ndims(space.get()));
    result[testing::PrintToString(place)] = {address, bytes, mask};
  }
  return result;
}

class ChunkIndexOf : public testing::TestWithParam<IndexKind> {
 protected:
  bool single() const { return GetParam().type == H5D_CHUNK_IDX_SINGLE; }
  bool implicit() const { return GetParam().type == H5D_CHUNK_IDX_NONE; }

  TestDataset dataset(Shape shape, const Shape& chunk) const {
    TestDataset result{.path = "x", .shape = shape, .chunk = single() ? shape : chunk};
    if (!implicit()) result.filters = parse_filters("gzip:4+fletcher32", 1);
    result.early_allocation = implicit();
    if (GetParam().type == H5D_CHUNK_IDX_EARRAY) shape[GetParam().unlimited] = kUnlimited;
    if (GetParam().type == H5D_CHUNK_IDX_BT2) shape[0] = shape[1] = kUnlimited;
    result.max_shape = shape;
    return result;
  }

  std::filesystem::path path() const { return dir_ / "x.h5"; }

  TempDir dir_;
};

TEST_P(ChunkIndexOf, equals_that_of_the_librarys_query) {
  for (const std::uint64_t user_block : {0U, 512U, 8192U}) {
    SCOPED_TRACE(user_block);
    const TestDataset created = dataset({80, 23}, {2, 3});
    {
      H5TestFile file(path(), {.latest = GetParam().latest, .user_block = user_block});
      file.create(created);
      ASSERT_EQ(file.index_type("x"), GetParam().type);
      const Shape grid = chunk_grid(created.shape, created.chunk);
      std::size_t bytes = 1;
      for (const std::uint64_t extent : created.chunk) bytes *= extent;
      // Every third chunk stays missing; of the others some skip a filter.
      for (std::uint64_t c = 0; c < grid[0] * grid[1]; ++c) {
        if (c % 3 == 2) continue;
        Shape offset = chunk_coordinates(c, grid);
        for (std::size_t d = 0; d < offset.size(); ++d) offset[d] *= created.chunk[d];
        const std::uint32_t mask = implicit() || c % 4 != 1 ? 0 : 2;
        const std::vector<FilterSpec> applied(created.filters.begin(),
                                              created.filters.end() - (mask == 0 ? 0 : 1));
        const std::vector<std::byte> stored =
            FilterPipeline(applied, bytes, 1).encode(test::patterned_bytes(bytes, static_cast<unsigned>(c)));
        file.write_chunk("x", offset, stored, mask);
      }
    }
    const std::map<std::string, ChunkLocation> expected = chunk_info(path(), user_block);
    EXPECT_EQ(expected.size(), single() ? 1U : implicit() ? 320U : 214U);
    const auto file = H5File::open(path());
    const ChunkIndex index = build_chunk_index(*file, file->describe("x"));
    for (std::uint64_t c = 0; c < index.locations.size(); ++c) {
      Shape offset = chunk_coordinates(c, index.grid);
      for (std::size_t d = 0; d < offset.size(); ++d) offset[d] *= created.chunk[d];
      const std::string place = testing::PrintToString(offset);
      SCOPED_TRACE(place);
      const auto found = expected.find(place);
      // libhdf5 leaves the mask of a chunk that is not stored as it was, garbage as a rule.
      const ChunkLocation location = found == expected.end() ? ChunkLocation() : found->second;
      EXPECT_EQ(index.locations[c].address, location.address);
      EXPECT_EQ(index.locations[c].stored_bytes, location.stored_bytes);
      EXPECT_EQ(index.locations[c].filter_mask, location.filter_mask);
    }
  }
}

TEST_P(ChunkIndexOf, nothing_stored_is_the_fill_value_or_zeros) {
  const std::byte seven{7};
  for (const H5D_fill_value_t fill :
       {H5D_FILL_VALUE_DEFAULT, H5D_FILL_VALUE_USER_DEFINED, H5D_FILL_VALUE_UNDEFINED}) {
    SCOPED_TRACE(fill);
    TestDataset created = dataset({13, 7}, {4, 3});
    // Stored at creation otherwise.
    if (implicit()) created.early_allocation = true;
    created.undefined_fill_value = fill == H5D_FILL_VALUE_UNDEFINED;
    if (fill == H5D_FILL_VALUE_USER_DEFINED) created.fill_value = {seven};
    { H5TestFile(path(), {.latest = GetParam().latest}).create(created); }
    const auto file = H5File::open(path());
    const DatasetInfo info = file->describe("x");
    const ChunkIndex index = build_chunk_index(*file, info);
    EXPECT_EQ(std::ranges::count_if(index.locations, &ChunkLocation::allocated),
              implicit() ? static_cast<std::ptrdiff_t>(index.locations.size()) : 0);
    // libhdf5 leaves what it stores without a fill value undefined.
    if (implicit() && fill == H5D_FILL_VALUE_UNDEFINED) continue;
    const ByteBuffer bytes = read_all(*open_chunk_reader(file, info), 1);
    const std::byte expected = fill == H5D_FILL_VALUE_USER_DEFINED ? seven : std::byte{0};
    EXPECT_TRUE(
        std::all_of(bytes.data(), bytes.data() + bytes.size(), [&](std::byte b) { return b == expected; }));
  }
}

// Those whose chunks the library's query gives at the right places.
std::vector<IndexKind> rightly_listed_kinds() {
  std::vector<IndexKind> kinds;
  std::ranges::copy_if(index_kinds(), std::back_inserter(kinds),
                       [](const IndexKind& kind) { return kind.unlimited == 0; });
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(All, ChunkIndexOf, testing::ValuesIn(rightly_listed_kinds()),
                         [](const auto& kind) { return std::string(kind.param.name); });

// libhdf5 lists the chunks of such an array at wrong places.
TEST(ChunkIndex, of_an_array_that_grows_in_its_middle_dimension_gives_each_chunk_its_bytes) {
  const TempDir dir;
  const Shape chunk = {2, 3, 2};
  for (const std::size_t most_stored : {60U, 7U, 1U}) {
    SCOPED_TRACE(most_stored);
    Shape grid;
    {
      H5TestFile file(dir / "x.h5", {.latest = true});
      file.create({.path = "x", .shape = {7, 14, 6}, .max_shape = {9, kUnlimited, 6}, .chunk = chunk});
      ASSERT_EQ(file.index_type("x"), H5D_CHUNK_IDX_EARRAY);
      grid = chunk_grid(Shape{7, 14, 6}, chunk);
      for (std::uint64_t c = 0; c < 60; c += 60 / most_stored) {
        Shape offset = chunk_coordinates(c, grid);
        for (std::size_t d = 0; d < offset.size(); ++d) offset[d] *= chunk[d];
        file.write_chunk("x", offset, test::patterned_bytes(12, static_cast<unsigned>(c)), 0);
      }
    }
    const auto file = H5File::open(dir / "x.h5");
    const ChunkIndex index = build_chunk_index(*file, file->describe("x"));
    const std::vector<std::byte> bytes = test::file_bytes(dir / "x.h5");
    for (std::uint64_t c = 0; c < 60; ++c) {
      SCOPED_TRACE(c);
      const ChunkLocation& location = index.locations.at(c);
      ASSERT_EQ(location.allocated(), c % (60 / most_stored) == 0);
      if (!location.allocated()) continue;
      const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(location.address);
      EXPECT_EQ(std::vector<std::byte>(begin, begin + 12),
                test::patterned_bytes(12, static_cast<unsigned>(c)));
    }
    std::filesystem::remove(dir / "x.h5");
  }
}

// A large extensible array stores its entries in pages, and its pages in blocks of growing size.
TEST(LargeChunkIndex, has_the_paged_blocks_of_an_extensible_array) {
  const TempDir dir;
  constexpr std::uint64_t kChunks = 300'000;
  std::vector<std::byte> values(kChunks * 4);
  for (std::uint32_t i = 0; i < kChunks; ++i) std::memcpy(&values[i * 4], &i, 4);
  {
    H5TestFile file(dir / "x.h5", {.latest = true});
    file.create({.file_type = H5T_STD_U32LE,
                 .shape = {kChunks},
                 .max_shape = {kUnlimited},
                 .chunk = {1},
                 .early_allocation = true});
    ASSERT_EQ(file.index_type("x"), H5D_CHUNK_IDX_EARRAY);
    file.write("x", values);
  }
  const auto file = H5File::open(dir / "x.h5");
  const ByteBuffer bytes = read_all(*open_chunk_reader(file, file->describe("x")), 2);
  EXPECT_TRUE(std::equal(values.begin(), values.end(), bytes.data(), bytes.data() + bytes.size()));
}

// The chunk lists of hostile files are bounded by what the file itself takes.
TEST(LargeChunkIndex, a_huge_empty_grid_is_not_listed) {
  const TempDir dir;
  {
    H5TestFile file(dir / "x.h5");
    file.create({.shape = {std::uint64_t{1} << 40}, .chunk = {1}});
    file.write_box("x", Shape{5}, Shape{1}, test::patterned_bytes(1, 9));
  }
  set_log_sink([](LogLevel, std::string_view) {});
  const auto file = H5File::open(dir / "x.h5");
  const auto reader = open_chunk_reader(file, file->describe("x"));
  set_log_sink({});
  EXPECT_EQ(reader->fallback_reason(), "1099511627776 chunks are too many to list");
  ReadScratch scratch;
  std::byte value{};
  reader->read_chunk(5, {&value, 1}, scratch);
  EXPECT_EQ(value, test::patterned_bytes(1, 9).front());
  reader->read_chunk((std::uint64_t{1} << 40) - 1, {&value, 1}, scratch);
  EXPECT_EQ(value, std::byte{0});
}

// Version 1 object headers and B-trees carry no checksum, so that a test may edit them.
class EditedFile : public testing::Test {
 protected:
  std::vector<std::byte> write() const {
    H5TestFile file(path());
    file.create(
        {.path = "x", .shape = {0x151, 6}, .chunk = {0x50, 6}, .filters = parse_filters("gzip:4", 1)});
    const std::vector<std::byte> values = test::patterned_bytes(0x151 * 6);
    file.write("x", values);
    return values;
  }

  std::filesystem::path path() const { return dir_ / "x.h5"; }

  TempDir dir_;
};

TEST_F(EditedFile, chunks_beyond_the_extent_are_left_alone) {
  const std::vector<std::byte> values = write();
  // Extent and maximal extent of dimension 0: shorter by two chunks, whose entries stay in the index.
  replace_bytes(path(), {0x51, 0x01, 0, 0, 0, 0, 0, 0}, {0xa8, 0x00, 0, 0, 0, 0, 0, 0}, 2);
  set_log_sink([](LogLevel, std::string_view) {});
  const std::vector<std::byte> expected = test::read_through_libhdf5(path(), "x");
  ASSERT_TRUE(std::equal(expected.begin(), expected.end(), values.begin()));
  const auto file = H5File::open(path());
  const auto reader = open_chunk_reader(file, file->describe("x"));
  const ByteBuffer bytes = read_all(*reader, 2);
  set_log_sink({});
  EXPECT_TRUE(reader->direct()) << "no chunk of the dataset is missing";
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), bytes.data(), bytes.data() + bytes.size()));
}

TEST_F(EditedFile, a_damaged_size_of_an_unfiltered_chunk_is_not_trusted) {
  const std::vector<std::byte> values = test::patterned_bytes(0x151 * 6);
  {
    H5TestFile file(path());
    file.create({.path = "x", .shape = {0x151, 6}, .chunk = {0x50, 6}});
    file.write("x", values);
  }
  // The first key of the B-tree: size 0x1e0, no mask, offset 0.
  replace_bytes(path(), {0xe0, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
                {0xe0, 0x41, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 1);
  set_log_sink([](LogLevel, std::string_view) {});
  const auto file = H5File::open(path());
  const DatasetInfo info = file->describe("x");
  std::shared_ptr<const ChunkReader> direct;
  try {
    direct = open_chunk_reader(file, info);
  } catch (const Error&) {
    // Refused, since a chunk of that size overlaps the next: right as well.
  }
  const auto locked = make_fallback_reader(info, file, "the index cannot be listed");
  set_log_sink({});
  std::vector<std::byte> out(0x50 * 6);
  ReadScratch scratch;
  for (const auto& reader : {direct, locked}) {
    if (!reader) continue;
    try {
      reader->read_chunk(0, out, scratch);
      EXPECT_TRUE(std::equal(out.begin(), out.end(), values.begin()));
    } catch (const Error&) {
      // Refused: right as well.
    }
  }
}

TEST_F(EditedFile, a_layout_version_that_libhdf5_does_not_know_is_one_error) {
  write();
  // Layout message of version 3, chunked, of rank 2 + 1: what an older library sees of version 5, which
  // HDF5 2.0 writes.
  replace_bytes(path(), {3, 2, 3}, {9, 2, 3});
  try {
    H5File::open(path())->describe("x");
    FAIL() << "described";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find(path().string() + ":/x: libhdf5 cannot open it: "), 0U) << text;
    EXPECT_NE(text.find("; if a newer library than this libhdf5 "), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace h5feed::test
