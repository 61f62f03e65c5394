// SPDX-License-Identifier: Apache-2.0
// Fixture: images in files, and the windows of them that a dataset of tiles must deliver.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {

/// Images as stored in a file, in any layout.
struct StoredImages {
  std::vector<std::uint64_t> shape;  // shape as stored
  std::size_t y = 1;                 // dimension of height, and of width below
  std::size_t x = 2;
  std::vector<std::byte> bytes;

  /// Returns the stored element at `place`.
  std::byte at(const std::vector<std::uint64_t>& place) const {
    std::uint64_t element = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) element = element * shape[d] + place[d];
    return bytes[element];
  }

  /// Returns the window at (top, left) in the stored layout, with zeros beyond the image's edge.
  std::vector<std::byte> window(std::uint64_t image, std::uint64_t top, std::uint64_t left,
                                std::uint64_t height, std::uint64_t width) const {
    std::vector<std::uint64_t> extent = shape;
    extent[0] = 1;
    extent[y] = height;
    extent[x] = width;
    std::uint64_t elements = 1;
    for (const std::uint64_t n : extent) elements *= n;
    std::vector<std::byte> out(elements);
    for (std::uint64_t element = 0; element < elements; ++element) {
      std::vector<std::uint64_t> place(shape.size());
      std::uint64_t rest = element;
      for (std::size_t d = shape.size(); d-- > 0;) {
        place[d] = rest % extent[d];
        rest /= extent[d];
      }
      place[0] = image;
      place[y] += top;
      place[x] += left;
      if (place[y] < shape[y] && place[x] < shape[x]) out[element] = at(place);
    }
    return out;
  }
};

/// Returns the bytes of a tensor.
inline std::vector<std::byte> bytes_of(const HostTensor& tensor) {
  const auto size = static_cast<std::size_t>(tensor.elements()) * size_of(tensor.dtype);
  return {tensor.bytes.get(), tensor.bytes.get() + size};
}

/// Fixture for tests of datasets of tiles.
class Tiles : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const StoredImages& images,
                              std::vector<std::uint64_t> chunk = {}) {
    const std::filesystem::path path = dir_ / name;
    H5TestFile file(path);
    TestDataset dataset{.path = "images", .shape = images.shape, .chunk = std::move(chunk)};
    if (!dataset.chunk.empty()) dataset.filters = {{.id = 1, .params = {1}}};
    file.create(dataset);
    file.write("images", images.bytes);
    return path;
  }

  static StoredImages make(std::vector<std::uint64_t> shape, std::size_t y = 1, std::size_t x = 2) {
    std::size_t elements = 1;
    for (const std::uint64_t extent : shape) elements *= extent;
    return {std::move(shape), y, x, random_bytes(elements, static_cast<unsigned>(elements))};
  }

  // Compares every delivered tile with the image at the tile's origin.
  static void expect_tiles(const Dataset& dataset, const StoredImages& images, std::uint64_t height,
                           std::uint64_t width, const DataLoaderOptions& given) {
    DataLoaderOptions options = given;
    options.provenance = true;
    DataLoader loader(dataset, options);
    std::int64_t seen = 0;
    while (const auto batch = loader.next()) {
      ASSERT_EQ(batch->origins.size(), static_cast<std::size_t>(batch->size()));
      const std::vector<std::byte> bytes = bytes_of(batch->data);
      const std::size_t tile_bytes = bytes.size() / batch->origins.size();
      for (std::size_t i = 0; i < batch->origins.size(); ++i) {
        const SampleOrigin& origin = batch->origins[i];
        const auto tile =
            images.window(static_cast<std::uint64_t>(origin.image), static_cast<std::uint64_t>(origin.y),
                          static_cast<std::uint64_t>(origin.x), height, width);
        ASSERT_EQ(tile.size(), tile_bytes);
        ASSERT_EQ(std::memcmp(tile.data(), bytes.data() + i * tile_bytes, tile_bytes), 0)
            << "tile " << batch->indices[i] << " at " << origin.image << ", " << origin.y << ", " << origin.x;
        const SampleOrigin again = dataset.origin(batch->indices[i]);
        EXPECT_EQ(again.y, origin.y);
        EXPECT_EQ(again.x, origin.x);
        ++seen;
      }
    }
    EXPECT_EQ(seen, dataset.size());
  }

  std::string refusal(const DatasetOptions& options) const {
    return refusal_in<Error>(dir_.path(), [&] { Dataset::open(options); });
  }

  TempDir dir_;
};

}  // namespace h5feed::test
