// ChunkReader against H5Dread, byte for byte: every chunk index of the HDF5 format with every filter
// pipeline, in all the ways chunks come to be stored.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <ostream>
#include <string>

#include "store/chunk_geometry.hpp"
#include "store/chunk_reader.hpp"
#include "store/filters.hpp"
#include "support/h5_test_file.hpp"
#include "support/temp_dir.hpp"

namespace h5feed {
namespace {

using test::H5TestFile;
using test::TempDir;
using test::TestDataset;

constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

using Shape = std::vector<std::uint64_t>;

struct IndexKind {
  const char* name;
  H5D_chunk_index_t type;
  bool latest;  // file format
};

constexpr IndexKind kIndexKinds[] = {
    {"version_1_b_tree", H5D_CHUNK_IDX_BTREE, false}, {"single_chunk", H5D_CHUNK_IDX_SINGLE, true},
    {"implicit", H5D_CHUNK_IDX_NONE, true},           {"fixed_array", H5D_CHUNK_IDX_FARRAY, true},
    {"extensible_array", H5D_CHUNK_IDX_EARRAY, true}, {"version_2_b_tree", H5D_CHUNK_IDX_BT2, true},
};

struct Storage {
  IndexKind kind;
  std::string pipeline;
};

void PrintTo(const Storage& storage, std::ostream* out) {
  *out << storage.kind.name << ", " << storage.pipeline;
}

// Every index with every pipeline; an implicit index has no room for the sizes of filtered chunks.
std::vector<Storage> combinations(const std::vector<std::string>& pipelines) {
  std::vector<Storage> result;
  for (const IndexKind& kind : kIndexKinds) {
    for (const std::string& pipeline : pipelines) {
      if (kind.type != H5D_CHUNK_IDX_NONE || pipeline == "none") result.push_back({kind, pipeline});
    }
  }
  return result;
}

std::string name_of_case(const testing::TestParamInfo<Storage>& info) {
  std::string name = info.param.kind.name + ("_" + info.param.pipeline);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

class ChunkedConformance : public testing::TestWithParam<Storage> {
 protected:
  const IndexKind& kind() const { return GetParam().kind; }
  bool single() const { return kind().type == H5D_CHUNK_IDX_SINGLE; }
  bool implicit() const { return kind().type == H5D_CHUNK_IDX_NONE; }
  std::vector<FilterSpec> filters() const { return parse_filters(GetParam().pipeline, 4); }

  // A dataset of 4-byte elements whose chunks get this kind of index.
  TestDataset dataset(Shape shape, const Shape& chunk) const {
    TestDataset result{.file_type = H5T_STD_I32LE, .shape = shape, .chunk = chunk, .filters = filters()};
    if (single()) result.chunk = shape;
    result.early_allocation = implicit();
    if (kind().type == H5D_CHUNK_IDX_EARRAY) shape[0] = kUnlimited;
    if (kind().type == H5D_CHUNK_IDX_BT2) shape[0] = shape[1] = kUnlimited;
    result.max_shape = shape;
    return result;
  }

  H5TestFile create_file(std::uint64_t user_block = 0) const {
    return H5TestFile(path(), {.latest = kind().latest, .user_block = user_block});
  }

  std::filesystem::path path() const { return dir_ / "x.h5"; }

  // Every chunk through h5feed's own encoder; what the dataset then holds.
  std::vector<std::byte> write_encoded(H5TestFile& file, const TestDataset& created,
                                       bool with_masks = false) const {
    std::vector<std::byte> whole;
    std::uint64_t elements = 4;
    for (const std::uint64_t extent : created.shape) elements *= extent;
    whole.resize(elements);
    std::uint64_t chunk_bytes = 4;
    for (const std::uint64_t extent : created.chunk) chunk_bytes *= extent;
    const Shape grid = chunk_grid(created.shape, created.chunk);
    std::uint64_t chunks = 1;
    for (const std::uint64_t extent : grid) chunks *= extent;
    for (std::uint64_t c = 0; c < chunks; ++c) {
      Shape offset = chunk_coordinates(c, grid);
      const std::vector<std::byte> bytes = test::patterned_bytes(chunk_bytes, static_cast<unsigned>(c));
      Shape extent(offset.size());
      std::uint64_t first = 0;
      for (std::size_t d = 0; d < offset.size(); ++d) {
        offset[d] *= created.chunk[d];
        extent[d] = std::min(created.chunk[d], created.shape[d] - offset[d]);
        first = first * created.shape[d] + offset[d];
      }
      const std::uint32_t all = (1U << created.filters.size()) - 1U;
      const std::uint32_t mask = with_masks ? static_cast<std::uint32_t>(c) & all : 0;
      std::vector<FilterSpec> applied;
      for (std::size_t i = 0; i < created.filters.size(); ++i) {
        if ((mask >> i & 1U) == 0) applied.push_back(created.filters[i]);
      }
      file.write_chunk("x", offset, FilterPipeline(applied, chunk_bytes, 4).encode(bytes), mask);
      copy_box({extent, created.chunk, created.shape, 4}, bytes.data(), whole.data() + first * 4);
    }
    return whole;
  }

  // All the ways of reading agree with `expected`.
  void expect_delivers(const std::vector<std::byte>& expected) const {
    const auto file = H5File::open(path());
    const DatasetInfo info = file->describe("x");
    const auto reader = ChunkReader::open(file, info);
    EXPECT_TRUE(reader->direct()) << reader->fallback_reason();
    for (const unsigned threads : {1U, 3U}) {
      const ByteBuffer bytes = read_all(*reader, threads);
      ASSERT_EQ(bytes.size(), expected.size());
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), bytes.data())) << threads << " threads";
    }
    if (!reader->rows_readable()) return;
    std::vector<std::byte> row(info.row_bytes());
    for (std::uint64_t r = 0; r < info.rows(); ++r) {
      reader->read_rows(r, 1, row);
      EXPECT_TRUE(std::equal(row.begin(), row.end(), expected.data() + r * row.size())) << "row " << r;
    }
  }

  void expect_equals_libhdf5() const { expect_delivers(test::read_through_libhdf5(path(), "x")); }

 private:
  TempDir dir_;
};

// Pipelines that libhdf5 runs itself: it writes, both read.
class LibraryPipelines : public ChunkedConformance {
 protected:
  // Creates the dataset and writes all of it.
  void write_all(const TestDataset& created, const std::vector<std::byte>& bytes) const {
    H5TestFile file = create_file();
    file.create(created);
    // The flag for unfiltered edges needs a newer format than the version 1 B-tree's.
    if (!created.unfiltered_edges) {
      EXPECT_EQ(file.index_type("x"), kind().type);
    }
    file.write("x", bytes);
  }
};

// Pipelines libhdf5 has no filter for: h5feed's own encoder writes, the values are known.
class OwnPipelines : public ChunkedConformance {};

const std::vector<std::byte> kFill = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};

TEST_P(LibraryPipelines, AlignedChunks) {
  write_all(dataset({12, 6, 10}, {4, 3, 5}), test::patterned_bytes(12 * 6 * 10 * 4));
  expect_equals_libhdf5();
}

TEST_P(LibraryPipelines, RaggedEdges) {
  write_all(dataset({13, 7, 11}, {4, 3, 5}), test::patterned_bytes(13 * 7 * 11 * 4));
  expect_equals_libhdf5();
}

TEST_P(LibraryPipelines, WholeRowChunks) {
  write_all(dataset({13, 7}, {4, 7}), test::patterned_bytes(13 * 7 * 4));
  expect_equals_libhdf5();
}

TEST_P(LibraryPipelines, IncompressibleChunks) {
  write_all(dataset({13, 7, 11}, {4, 3, 5}), test::random_bytes(13 * 7 * 11 * 4));
  expect_equals_libhdf5();
}

TEST_P(LibraryPipelines, ManyChunks) {
  write_all(dataset({2500, 2}, {1, 2}), test::patterned_bytes(2500 * 2 * 4));
  expect_equals_libhdf5();
}

TEST_P(LibraryPipelines, UnfilteredEdgeChunks) {
  TestDataset created = dataset({13, 7, 11}, {4, 3, 5});
  created.unfiltered_edges = true;
  write_all(created, test::patterned_bytes(13 * 7 * 11 * 4));
  expect_equals_libhdf5();
}

TEST_P(LibraryPipelines, MissingChunksTakeTheFillValue) {
  TestDataset created = dataset({13, 7, 11}, {4, 3, 5});
  created.fill_value = kFill;
  {
    H5TestFile file = create_file();
    file.create(created);
    // The only chunk of a single-chunk index stays missing.
    if (!single()) file.write_box("x", Shape{5, 4, 6}, Shape{5, 2, 3}, test::patterned_bytes(5 * 2 * 3 * 4));
  }
  expect_equals_libhdf5();
}

TEST_P(LibraryPipelines, FilterMaskOfEachChunk) {
  const TestDataset created = dataset({13, 7, 11}, {4, 3, 5});
  std::vector<std::byte> written;
  {
    H5TestFile file = create_file();
    file.create(created);
    written = write_encoded(file, created, true);
  }
  EXPECT_EQ(test::read_through_libhdf5(path(), "x"), written);
  expect_equals_libhdf5();
}

TEST_P(LibraryPipelines, UserBlock) {
  const TestDataset created = dataset({13, 7, 11}, {4, 3, 5});
  {
    H5TestFile file = create_file(1024);
    file.create(created);
    file.write("x", test::patterned_bytes(13 * 7 * 11 * 4));
  }
  expect_equals_libhdf5();
}

TEST_P(LibraryPipelines, BigEndian) {
  TestDataset created = dataset({13, 7, 11}, {4, 3, 5});
  created.file_type = H5T_STD_I32BE;
  created.fill_value = kFill;
  {
    H5TestFile file = create_file();
    file.create(created);
    file.write_box("x", Shape{5, 0, 6}, Shape{5, 2, 3}, test::patterned_bytes(5 * 2 * 3 * 4));
  }
  expect_equals_libhdf5();
}

TEST_P(LibraryPipelines, ShrunkDataset) {
  for (const bool unfiltered_edges : {false, true}) {
    SCOPED_TRACE(unfiltered_edges);
    TestDataset created = dataset({13, 7, 11}, {4, 3, 5});
    created.unfiltered_edges = unfiltered_edges;
    {
      H5TestFile file = create_file();
      file.create(created);
      file.write("x", test::patterned_bytes(13 * 7 * 11 * 4));
      file.set_extent("x", Shape{9, 5, 11});
    }
    expect_equals_libhdf5();
  }
}

INSTANTIATE_TEST_SUITE_P(All, LibraryPipelines,
                         testing::ValuesIn(combinations({"none", "gzip:4", "shuffle+gzip:1",
                                                         "gzip:6+fletcher32", "shuffle+gzip:9+fletcher32",
                                                         "fletcher32"})),
                         name_of_case);

TEST_P(OwnPipelines, RaggedEdges) {
  const TestDataset created = dataset({13, 7, 11}, {4, 3, 5});
  std::vector<std::byte> written;
  {
    H5TestFile file = create_file();
    file.create(created);
    written = write_encoded(file, created);
  }
  expect_delivers(written);
}

TEST_P(OwnPipelines, FilterMaskOfEachChunk) {
  const TestDataset created = dataset({13, 7, 11}, {4, 3, 5});
  std::vector<std::byte> written;
  {
    H5TestFile file = create_file();
    file.create(created);
    written = write_encoded(file, created, true);
  }
  expect_delivers(written);
}

TEST_P(OwnPipelines, UserBlock) {
  const TestDataset created = dataset({12, 6, 10}, {4, 3, 5});
  std::vector<std::byte> written;
  {
    H5TestFile file = create_file(1024);
    file.create(created);
    written = write_encoded(file, created);
  }
  expect_delivers(written);
}

TEST_P(OwnPipelines, NeverWrittenTakesTheFillValue) {
  TestDataset created = dataset({13, 7, 11}, {4, 3, 5});
  created.fill_value = kFill;
  {
    H5TestFile file = create_file();
    file.create(created);
  }
  std::vector<std::byte> expected(13 * 7 * 11 * 4);
  fill_with(kFill, expected);
  expect_delivers(expected);
}

INSTANTIATE_TEST_SUITE_P(All, OwnPipelines,
                         testing::ValuesIn(combinations({"lz4", "shuffle+lz4", "zstd:3",
                                                         "shuffle+zstd:1+fletcher32"})),
                         name_of_case);

}  // namespace
}  // namespace h5feed
