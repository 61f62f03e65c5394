// SPDX-License-Identifier: Apache-2.0
// Virtual datasets whose sources are not runs of whole rows: tiles, interleaved rows, gaps, overlaps. Their
// values are those that libhdf5 reads, however the sources are stored.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "store/format/selection.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/read_all.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/loaders/loaded_rows.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using Shape = std::vector<std::uint64_t>;

// Elements of the source `dataset` of `file`, and where they go; an empty `from` selects all.
struct Piece {
  std::string file;
  std::string dataset;
  Shape source_shape;
  Selection to;
  Selection from;
};

Hid space_of(const Shape& shape, const Selection& selection) {
  std::vector<hsize_t> extent(shape.begin(), shape.end()), start, stride, count, block;
  Hid space(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr));
  for (const SelectedIndices& indices : selection) {
    start.push_back(indices.start);
    stride.push_back(indices.stride);
    count.push_back(indices.count);
    block.push_back(indices.block);
  }
  if (!selection.empty()) {
    require(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), stride.data(), count.data(),
                                block.data()),
            "H5Sselect_hyperslab");
  }
  return space;
}

SelectedIndices one(std::uint64_t index) { return SelectedIndices::run_of(index, 1); }
SelectedIndices run(std::uint64_t first, std::uint64_t number) {
  return SelectedIndices::run_of(first, number);
}

std::size_t elements_of(const Shape& shape) {
  std::size_t elements = 1;
  for (const std::uint64_t extent : shape) elements *= extent;
  return elements;
}

std::vector<std::uint16_t> numbers_of(std::span<const std::byte> bytes) {
  std::vector<std::uint16_t> numbers(bytes.size() / sizeof(std::uint16_t));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

// Returns the places of the selected elements in an array of `shape`, in row-major order.
std::vector<std::size_t> places_of(const Shape& shape, const Selection& selection) {
  std::vector<std::size_t> places = {0};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<std::size_t> next;
    for (const std::size_t place : places) {
      for (std::uint64_t number = 0; number < selection[d].extent(); ++number)
        next.push_back(place * shape[d] + selection[d].at(number));
    }
    places = std::move(next);
  }
  return places;
}

class VirtualSelections : public testing::Test {
 protected:
  static constexpr std::uint16_t kFill = 4711;

  // Writes random values of uint16; chunks, if any, are compressed.
  std::vector<std::uint16_t> source(const std::string& name, const Shape& shape, const Shape& chunk = {},
                                    hid_t type = H5T_STD_U16LE) {
    const std::vector<std::byte> bytes = random_bytes(elements_of(shape) * sizeof(std::uint16_t), seed_++);
    H5TestFile file(dir_ / name);
    TestDataset dataset{.file_type = type, .shape = shape, .chunk = chunk};
    if (!chunk.empty()) dataset.filters = {gzip_filter(1)};
    file.create(dataset);
    file.write("x", bytes);
    return numbers_of(bytes);
  }

  void make(const std::string& name, const Shape& shape, const std::vector<Piece>& pieces) {
    const H5TestFile file(dir_ / name);
    const Hid plist(H5Pcreate(H5P_DATASET_CREATE));
    require(H5Pset_fill_value(plist.get(), H5T_NATIVE_UINT16, &kFill), "H5Pset_fill_value");
    for (const Piece& piece : pieces) {
      const Hid to = space_of(shape, piece.to);
      const Hid from = space_of(piece.source_shape, piece.from);
      require(H5Pset_virtual(plist.get(), to.get(), piece.file.c_str(), piece.dataset.c_str(), from.get()),
              "H5Pset_virtual");
    }
    const Hid space = space_of(shape, {});
    const Hid dataset(
        H5Dcreate2(file.id(), "x", H5T_STD_U16LE, space.get(), H5P_DEFAULT, plist.get(), H5P_DEFAULT));
  }

  Dataset open(const std::string& name, Isolation isolation = Isolation::none) const {
    return Dataset::open(
        {.files = {dir_ / name}, .data = "x", .input_layout = InputLayout::none, .isolation = isolation});
  }

  static const ChunkReader& reader_of(const Dataset& dataset) {
    return *DatasetAccess::state(dataset)->data.reader;
  }

  std::uint64_t rows_per_chunk(const std::string& name) const {
    return reader_of(open(name)).rows().rows_per_chunk();
  }

  // Returns the first difference to what libhdf5 reads; the dataset must be read directly.
  std::string difference(const std::string& name) const {
    // First: libhdf5 does not open a file twice with different settings for locks.
    const std::vector<std::byte> expected = read_through_libhdf5(dir_ / name, "x");
    const Dataset dataset = open(name);
    if (!reader_of(dataset).direct()) return "not direct: " + reader_of(dataset).fallback_reason();
    return first_difference(dataset, expected);
  }

  std::string refusal(const std::string& name) const {
    return refusal_in<Error>(dir_.path(), [&] { open(name); });
  }

  TempDir dir_;
  unsigned seed_ = 1;
};

TEST_F(VirtualSelections, put_the_tiles_of_a_detector_together) {
  // Two by two modules with gaps between them.
  std::vector<Piece> pieces;
  for (std::uint64_t i = 0; i < 4; ++i) {
    const std::string name = "m" + std::to_string(i) + ".h5";
    source(name, {23, 6, 5}, {4, 6, 5});
    pieces.push_back({name, "x", {23, 6, 5}, {run(0, 23), run(i / 2 * 8, 6), run(i % 2 * 7, 5)}, {}});
  }
  make("v.h5", {23, 14, 12}, pieces);
  EXPECT_EQ(difference("v.h5"), "");
  EXPECT_EQ(rows_per_chunk("v.h5"), 4U);
}

TEST_F(VirtualSelections, interleave_the_rows_of_files) {
  source("a.h5", {10, 3}, {4, 3});
  source("b.h5", {9, 3}, {2, 3});
  source("c.h5", {9, 3});
  make("v.h5", {28, 3},
       {{"a.h5", "x", {10, 3}, {{0, 3, 10, 1}, run(0, 3)}, {}},
        {"b.h5", "x", {9, 3}, {{1, 3, 9, 1}, run(0, 3)}, {}},
        {"c.h5", "x", {9, 3}, {{2, 3, 9, 1}, run(0, 3)}, {}}});
  EXPECT_EQ(difference("v.h5"), "");
}

TEST_F(VirtualSelections, stack_files_in_a_dimension_of_their_own) {
  source("a.h5", {9, 4, 5}, {3, 4, 5});
  source("b.h5", {9, 4, 5}, {3, 2, 5});
  source("c.h5", {4, 5}, {4, 5});
  make("v.h5", {9, 3, 4, 5},
       {{"a.h5", "x", {9, 4, 5}, {run(0, 9), one(0), run(0, 4), run(0, 5)}, {}},
        {"b.h5", "x", {9, 4, 5}, {run(0, 9), one(2), run(0, 4), run(0, 5)}, {}},
        {"c.h5", "x", {4, 5}, {one(4), one(1), run(0, 4), run(0, 5)}, {}}});
  EXPECT_EQ(difference("v.h5"), "");
  EXPECT_EQ(rows_per_chunk("v.h5"), 3U);
}

TEST_F(VirtualSelections, take_every_other_element_of_a_source) {
  source("a.h5", {20, 12}, {6, 5});
  make("v.h5", {10, 4}, {{"a.h5", "x", {20, 12}, {run(0, 10), run(0, 4)}, {{1, 2, 10, 1}, {2, 3, 4, 1}}}});
  EXPECT_EQ(difference("v.h5"), "");
  EXPECT_EQ(rows_per_chunk("v.h5"), 3U);
}

TEST_F(VirtualSelections, have_the_fill_value_where_no_source_is) {
  source("a.h5", {6, 4}, {4, 4});
  const Selection all = {run(0, 6), run(0, 4)};
  make("gap.h5", {17, 4},
       {{"a.h5", "x", {6, 4}, all, {}}, {"a.h5", "x", {6, 4}, {run(9, 6), run(0, 4)}, {}}});
  make("side.h5", {8, 7}, {{"a.h5", "x", {6, 4}, {run(1, 6), run(2, 4)}, {}}});
  make("empty.h5", {5, 4}, {});
  for (const char* const name : {"gap.h5", "side.h5"}) EXPECT_EQ(difference(name), "") << name;
  // What rows of a source are is read as the source is.
  const Dataset gap = open("gap.h5");
  EXPECT_EQ(gap.origin(10).file, (dir_ / "a.h5").string());
  EXPECT_EQ(gap.origin(10).row, 1);
}

TEST_F(VirtualSelections, have_the_last_of_several_sources) {
  source("a.h5", {8, 6}, {3, 6});
  source("b.h5", {4, 3}, {4, 3});
  make(
      "v.h5", {8, 6},
      {{"a.h5", "x", {8, 6}, {run(0, 8), run(0, 6)}, {}}, {"b.h5", "x", {4, 3}, {run(2, 4), run(1, 3)}, {}}});
  make(
      "w.h5", {8, 6},
      {{"b.h5", "x", {4, 3}, {run(2, 4), run(1, 3)}, {}}, {"a.h5", "x", {8, 6}, {run(0, 8), run(0, 6)}, {}}});
  make("rows.h5", {10, 6},
       {{"a.h5", "x", {8, 6}, {run(0, 8), run(0, 6)}, {}},
        {"a.h5", "x", {8, 6}, {run(5, 5), run(0, 6)}, {run(1, 5), run(0, 6)}}});
  for (const char* const name : {"v.h5", "w.h5", "rows.h5"}) EXPECT_EQ(difference(name), "") << name;
}

TEST_F(VirtualSelections, begin_chunks_where_those_of_the_sources_begin) {
  // Two files one after the other, of two halves each; the first rows of the sources are left out.
  std::vector<Piece> pieces;
  for (std::uint64_t i = 0; i < 4; ++i) {
    const std::string name = std::to_string(i) + ".h5";
    source(name, {20, 3}, {8, 3});
    pieces.push_back({name, "x", {20, 3}, {run(i / 2 * 15, 15), run(i % 2 * 3, 3)}, {run(5, 15), run(0, 3)}});
  }
  make("v.h5", {30, 6}, pieces);
  EXPECT_EQ(difference("v.h5"), "");
  const Dataset dataset = open("v.h5");
  const RowLayout& rows = reader_of(dataset).rows();
  std::vector<std::uint64_t> beginnings;
  for (std::uint64_t chunk = 0; chunk < rows.num_chunks(); ++chunk)
    beginnings.push_back(rows.rows_of(chunk).first);
  EXPECT_EQ(beginnings, (std::vector<std::uint64_t>{0, 3, 11, 15, 18, 26}));
}

TEST_F(VirtualSelections, of_virtual_datasets_are_read_from_the_last_sources) {
  source("a.h5", {12, 4}, {5, 4});
  source("b.h5", {12, 4}, {3, 2}, H5T_STD_U16BE);
  make("v.h5", {12, 8},
       {{"a.h5", "x", {12, 4}, {run(0, 12), run(0, 4)}, {}},
        {"b.h5", "x", {12, 4}, {run(0, 12), run(4, 4)}, {}}});
  make("w.h5", {16, 10},
       {{"v.h5", "x", {12, 8}, {run(0, 12), run(1, 8)}, {}},
        {"v.h5", "x", {12, 8}, {{12, 1, 4, 1}, {0, 2, 5, 1}}, {{0, 3, 4, 1}, run(2, 5)}}});
  EXPECT_EQ(difference("v.h5"), "");
  EXPECT_EQ(difference("w.h5"), "");
}

TEST_F(VirtualSelections, follow_other_files_in_a_list) {
  source("a.h5", {6, 2}, {4, 2});
  source("plain.h5", {3, 4}, {2, 4});
  make(
      "v.h5", {6, 4},
      {{"a.h5", "x", {6, 2}, {run(0, 6), run(0, 2)}, {}}, {"a.h5", "x", {6, 2}, {run(0, 6), run(2, 2)}, {}}});
  std::vector<std::byte> expected = read_through_libhdf5(dir_ / "v.h5", "x");
  for (const char* const next : {"plain.h5", "v.h5"}) {
    const std::vector<std::byte> more = read_through_libhdf5(dir_ / next, "x");
    expected.insert(expected.end(), more.begin(), more.end());
  }
  const Dataset dataset = Dataset::open({.files = {dir_ / "v.h5", dir_ / "plain.h5", dir_ / "v.h5"},
                                         .data = "x",
                                         .input_layout = InputLayout::none});
  EXPECT_EQ(first_difference(dataset, expected), "");
}

TEST_F(VirtualSelections, are_read_in_isolation_alike) {
  source("a.h5", {6, 4}, {4, 3});
  make("v.h5", {12, 5}, {{"a.h5", "x", {6, 4}, {{0, 2, 6, 1}, run(1, 4)}, {}}});
  const std::vector<std::byte> expected = read_through_libhdf5(dir_ / "v.h5", "x");
  const Dataset dataset = open("v.h5", Isolation::process);
  EXPECT_TRUE(reader_of(dataset).direct());
  EXPECT_EQ(first_difference(dataset, expected), "");
}

TEST_F(VirtualSelections, that_are_not_regular_are_read_by_libhdf5) {
  source("a.h5", {6, 4});
  {
    const H5TestFile file(dir_ / "v.h5");
    const Hid plist(H5Pcreate(H5P_DATASET_CREATE));
    const Hid to = space_of({9, 4}, {run(0, 2), run(0, 4)});
    const std::array<hsize_t, 2> start = {5, 0}, count = {4, 4};
    require(H5Sselect_hyperslab(to.get(), H5S_SELECT_OR, start.data(), nullptr, count.data(), nullptr),
            "H5Sselect_hyperslab");
    const Hid from = space_of({6, 4}, {});
    require(H5Pset_virtual(plist.get(), to.get(), "a.h5", "x", from.get()), "H5Pset_virtual");
    const Hid space = space_of({9, 4}, {});
    const Hid dataset(
        H5Dcreate2(file.id(), "x", H5T_STD_U16LE, space.get(), H5P_DEFAULT, plist.get(), H5P_DEFAULT));
  }
  const std::vector<std::byte> expected = read_through_libhdf5(dir_ / "v.h5", "x");
  const Dataset dataset = open("v.h5");
  EXPECT_EQ(reader_of(dataset).fallback_reason(),
            "it is a virtual dataset whose sources are not regular selections");
  EXPECT_EQ(first_difference(dataset, expected), "");
}

TEST_F(VirtualSelections, beyond_their_source_are_refused) {
  source("a.h5", {6, 4});
  make("columns.h5", {6, 4}, {{"a.h5", "x", {6, 9}, {run(0, 6), run(0, 4)}, {run(0, 6), {1, 2, 4, 1}}}});
  make("all.h5", {6, 8}, {{"a.h5", "x", {6, 5}, {run(0, 6), run(2, 5)}, {}}});
  EXPECT_EQ(refusal("columns.h5"),
            "columns.h5:/x: source 0 of the virtual dataset: a.h5:/x has 4 elements in dimension 1, the "
            "virtual dataset takes 7 from element 1 on; complete it");
  EXPECT_EQ(
      refusal("all.h5"),
      "all.h5:/x: source 0 of the virtual dataset: a.h5:/x has 6 rows, the virtual dataset takes 6 from "
      "row 0 on; complete it");
}

// Draws the shape of a source and what is taken from it, for a virtual dataset of `shape`.
class RandomPieces {
 public:
  explicit RandomPieces(unsigned seed) : random_(seed) {}

  std::uint64_t number(std::uint64_t first, std::uint64_t last) {
    return std::uniform_int_distribution<std::uint64_t>(first, last)(random_);
  }
  bool one_in(std::uint64_t number_of) { return number(1, number_of) == 1; }

  Shape shape() {
    Shape shape = {number(1, 40)};
    for (std::uint64_t d = number(0, 2); d > 0; --d) shape.push_back(number(1, 9));
    return shape;
  }

  Selection within(const Shape& shape) {
    Selection selection;
    for (const std::uint64_t extent : shape) {
      selection.push_back(one_in(3) ? run(0, extent) : indices(extent, number(1, extent)));
    }
    return selection;
  }

  // Returns a source for what `to` selects: its dimensions of one index come and go.
  std::pair<Shape, Selection> source_of(const Selection& to) {
    Shape shape;
    Selection from;
    const auto add = [&](std::uint64_t extent) {
      shape.push_back(extent + (one_in(2) ? number(0, 5) : 0));
      from.push_back(indices(shape.back(), extent));
      if (!one_in(3)) {
        from.back() = run(number(0, shape.back() - extent), extent);
      } else if (one_in(2)) {
        shape.back() = extent * 3 + 2;
        from.back() = indices(shape.back(), extent);
      }
    };
    for (const SelectedIndices& taken : to) {
      if (one_in(8)) add(1);
      if (taken.extent() > 1 || !one_in(2)) add(taken.extent());
    }
    if (shape.empty()) add(1);
    return {shape, from};
  }

  Shape chunk_of(const Shape& shape) {
    Shape chunk;
    if (one_in(4)) return chunk;
    for (const std::uint64_t extent : shape) chunk.push_back(number(1, extent));
    return chunk;
  }

 private:
  // Returns `number_of` indices below `extent`, as far apart as chance has it.
  SelectedIndices indices(std::uint64_t extent, std::uint64_t number_of) {
    const std::uint64_t block = number_of % 2 == 0 && one_in(2) ? 2 : 1;
    const std::uint64_t count = number_of / block;
    if (count == 1) return run(number(0, extent - number_of), number_of);
    const std::uint64_t widest = (extent - block) / (count - 1);
    const std::uint64_t stride = number(std::min(block, widest), widest);
    if (stride < block) return run(number(0, extent - number_of), number_of);
    return {number(0, extent - block - (count - 1) * stride), stride, count, block};
  }

  std::mt19937 random_;
};

TEST_F(VirtualSelections, at_random_have_the_values_of_the_last_source_that_has_them) {
  for (unsigned seed = 1; seed <= 150; ++seed) {
    RandomPieces random(seed);
    const Shape shape = random.shape();
    std::vector<std::uint16_t> expected(elements_of(shape), kFill);
    std::vector<bool> has_source(expected.size());
    std::vector<Piece> pieces;
    for (std::uint64_t i = random.number(1, 5); i > 0; --i) {
      const std::string name = fmt::format("s{}-{}.h5", seed, i);
      Selection to = random.within(shape);
      auto [source_shape, from] = random.source_of(to);
      const std::vector<std::uint16_t> values = source(name, source_shape, random.chunk_of(source_shape),
                                                       random.one_in(4) ? H5T_STD_U16BE : H5T_STD_U16LE);
      const std::vector<std::size_t> places = places_of(shape, to), origins = places_of(source_shape, from);
      ASSERT_EQ(places.size(), origins.size());
      for (std::size_t k = 0; k < places.size(); ++k) {
        expected[places[k]] = values[origins[k]];
        has_source[places[k]] = true;
      }
      pieces.push_back({name, "x", std::move(source_shape), std::move(to), std::move(from)});
    }
    const std::string name = fmt::format("v{}.h5", seed);
    make(name, shape, pieces);
    const std::vector<std::uint16_t> by_libhdf5 = numbers_of(read_through_libhdf5(dir_ / name, "x"));
    const Dataset dataset = open(name);
    EXPECT_TRUE(reader_of(dataset).direct()) << seed << ": " << reader_of(dataset).fallback_reason();
    const ByteBuffer values = read_all(reader_of(dataset), 1);
    EXPECT_EQ(numbers_of(values.span()), expected) << "seed " << seed;
    // Where sources overlap, libhdf5 leaves memory as it was instead of writing the fill value.
    for (std::size_t k = 0; k < expected.size(); ++k) {
      if (has_source[k]) ASSERT_EQ(by_libhdf5[k], expected[k]) << "seed " << seed << ", element " << k;
    }
  }
}

}  // namespace
}  // namespace h5feed::test
