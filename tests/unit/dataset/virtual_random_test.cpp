// SPDX-License-Identifier: Apache-2.0
// Virtual datasets of selections drawn at random, against a model that copies one element at a time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/read_all.hpp"
#include "support/files/virtual_files.hpp"

namespace h5feed::test {
namespace {

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

TEST(RandomVirtual, has_the_values_of_the_last_source_that_has_them) {
  VirtualFiles files;
  for (unsigned seed = 1; seed <= 150; ++seed) {
    RandomPieces random(seed);
    const Shape shape = random.shape();
    std::vector<std::uint16_t> expected(elements_of(shape), VirtualFiles::kFill);
    std::vector<bool> has_source(expected.size());
    std::vector<VirtualPiece> pieces;
    for (std::uint64_t i = random.number(1, 5); i > 0; --i) {
      const std::string name = fmt::format("s{}-{}.h5", seed, i);
      Selection to = random.within(shape);
      auto [source_shape, from] = random.source_of(to);
      const std::vector<std::uint16_t> values =
          files.source(name, source_shape, random.chunk_of(source_shape),
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
    files.make(name, shape, pieces);
    const std::vector<std::uint16_t> by_libhdf5 =
        numbers_of(read_through_libhdf5(files.folder() / name, "x"));
    const Dataset dataset =
        Dataset::open({.files = {files.folder() / name}, .data = "x", .input_layout = InputLayout::none});
    const ChunkReader& reader = *DatasetAccess::state(dataset)->data.reader;
    EXPECT_TRUE(reader.direct()) << seed << ": " << reader.fallback_reason();
    const ByteBuffer values = read_all(reader, 1);
    EXPECT_EQ(numbers_of(values.span()), expected) << "seed " << seed;
    // Where sources overlap, libhdf5 leaves memory as it was instead of writing the fill value.
    for (std::size_t k = 0; k < expected.size(); ++k) {
      if (has_source[k]) {
        ASSERT_EQ(by_libhdf5[k], expected[k]) << "seed " << seed << ", element " << k;
      }
    }
  }
}

}  // namespace
}  // namespace h5feed::test
