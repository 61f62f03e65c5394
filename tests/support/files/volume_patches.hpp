// SPDX-License-Identifier: Apache-2.0
// Fixture: volumes in files, and the patches of them that a dataset of tiles must deliver.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {

using Extents = std::array<std::int64_t, 3>;  // depth, height, width

/// A volume in memory: (C,D,H,W).
template <typename T>
struct Volume {
  std::int64_t channels = 1;
  Extents extents = {};
  std::vector<T> values;

  std::int64_t size() const { return extents[0] * extents[1] * extents[2]; }
  const T& at(std::int64_t c, std::int64_t z, std::int64_t y, std::int64_t x) const {
    return values[static_cast<std::size_t>(((c * extents[0] + z) * extents[1] + y) * extents[2] + x)];
  }
  /// Returns the patch of `patch` pixels that begins at `first`, (C,D,H,W), with zeros outside the volume.
  std::vector<T> patch(const Extents& first, const Extents& patch) const {
    std::vector<T> out;
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t z = first[0]; z < first[0] + patch[0]; ++z) {
        for (std::int64_t y = first[1]; y < first[1] + patch[1]; ++y) {
          for (std::int64_t x = first[2]; x < first[2] + patch[2]; ++x) {
            const bool inside =
                z >= 0 && y >= 0 && x >= 0 && z < extents[0] && y < extents[1] && x < extents[2];
            out.push_back(inside ? at(c, z, y, x) : T{});
          }
        }
      }
    }
    return out;
  }
};

/// Fixture for tests of patches. `images[i]` is volume i of all files, `labels[i]` its labels of 0 to 3, most
/// of which are 0.
class Patches : public testing::Test {
 protected:
  /// Returns a volume of values that differ from place to place.
  static Volume<std::uint16_t> make_volume(const Extents& extents, std::int64_t channels, unsigned seed) {
    Volume<std::uint16_t> volume{channels, extents, {}};
    const std::vector<std::byte> random =
        random_bytes(static_cast<std::size_t>(volume.size() * channels) * 2, seed);
    volume.values.resize(random.size() / 2);
    std::memcpy(volume.values.data(), random.data(), random.size());
    return volume;
  }

  /// Returns labels of small boxes.
  static Volume<std::uint8_t> make_labels(const Extents& extents, unsigned seed) {
    Volume<std::uint8_t> labels{1, extents, {}};
    labels.values.resize(static_cast<std::size_t>(labels.size()));
    for (std::int64_t z = 0; z < extents[0]; ++z) {
      for (std::int64_t y = 0; y < extents[1]; ++y) {
        for (std::int64_t x = 0; x < extents[2]; ++x) {
          const bool labelled = z < extents[0] / 3 && y < extents[1] / 2 && x % 7 < 2;
          if (labelled) {
            labels.values[static_cast<std::size_t>((z * extents[1] + y) * extents[2] + x)] =
                static_cast<std::uint8_t>(1 + (static_cast<unsigned>(x) / 7 + seed) % 3);
          }
        }
      }
    }
    return labels;
  }

  /// Writes a file for each of `extents`, each with one volume "raw" and its "label", in chunks of `chunk`
  /// cut to the extents. The volumes have the layout (C,D,H,W), or (D,H,W,C) with `channels_last`, or (D,H,W)
  /// with 0 channels.
  void write_volumes(const std::vector<Extents>& extents, const Extents& chunk, std::int64_t channels = 0,
                     bool channels_last = false) {
    for (const Extents& one : extents) {
      const auto seed = static_cast<unsigned>(images.size()) + 1;
      images.push_back(make_volume(one, std::max<std::int64_t>(1, channels), seed));
      labels.push_back(make_labels(one, seed));
      files.push_back(dir_ / ("volume_" + std::to_string(seed) + ".h5"));
      H5TestFile file(files.back());
      const auto put = [&](const char* name, hid_t type, std::int64_t own_channels,
                           const std::vector<std::byte>& bytes) {
        std::vector<std::uint64_t> shape(one.begin(), one.end());
        std::vector<std::uint64_t> cut;
        for (std::size_t axis = 0; axis < 3; ++axis)
          cut.push_back(static_cast<std::uint64_t>(std::min(chunk[axis], one[axis])));
        if (own_channels > 0) {
          shape.insert(channels_last ? shape.end() : shape.begin(), static_cast<std::uint64_t>(own_channels));
          cut.insert(channels_last ? cut.end() : cut.begin(),
                     channels_last ? static_cast<std::uint64_t>(own_channels) : 1);
        }
        TestDataset dataset{.path = name, .file_type = type, .shape = shape};
        if (chunk[0] > 0) {
          dataset.chunk = cut;
          dataset.filters = {gzip_filter(1)};
        }
        file.create(dataset);
        file.write(name, bytes);
      };
      const Volume<std::uint16_t>& image = images.back();
      std::vector<std::uint16_t> stored = image.values;
      if (channels_last) {
        for (std::int64_t pixel = 0; pixel < image.size(); ++pixel) {
          for (std::int64_t c = 0; c < image.channels; ++c)
            stored[static_cast<std::size_t>(pixel * image.channels + c)] =
                image.values[static_cast<std::size_t>(c * image.size() + pixel)];
        }
      }
      const auto* const bytes = reinterpret_cast<const std::byte*>(stored.data());
      put("raw", H5T_STD_U16LE, channels, {bytes, bytes + stored.size() * 2});
      const auto* const label_bytes = reinterpret_cast<const std::byte*>(labels.back().values.data());
      put("label", H5T_STD_U8LE, 0, {label_bytes, label_bytes + labels.back().values.size()});
    }
  }

  /// Returns the options that open the written files with `tiles`.
  DatasetOptions options_of(const TileOptions& tiles, InputLayout layout = InputLayout::ndhw) const {
    return {
        .files = files, .data = "raw", .sample = SampleUnit::dataset, .input_layout = layout, .tiles = tiles};
  }

  static Extents extents_of(const TileExtent& extent) { return {extent.depth, extent.height, extent.width}; }
  static Extents first_of(const SampleOrigin& origin) { return {origin.z, origin.y, origin.x}; }

  /// Delivers an epoch and compares each patch, and its labels if the target is "label", with the volumes at
  /// the place that its origin tells. Returns how often each sample came.
  std::map<std::int64_t, int> check_epoch(DataLoader& loader, const Extents& patch) const {
    std::map<std::int64_t, int> seen;
    while (const auto batch = loader.next()) {
      EXPECT_EQ(batch->origins.size(), batch->indices.size());
      for (std::size_t i = 0; i < batch->origins.size(); ++i) {
        const SampleOrigin& origin = batch->origins[i];
        const auto& image = images[static_cast<std::size_t>(origin.image)];
        const auto expected = image.patch(first_of(origin), patch);
        const auto values = batch->data.as<std::uint16_t>();
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                               values.begin() + static_cast<std::ptrdiff_t>(i * expected.size())))
            << "patch " << batch->indices[i] << " of image " << origin.image << " at " << origin.z << ", "
            << origin.y << ", " << origin.x;
        EXPECT_EQ(origin.file, files[static_cast<std::size_t>(origin.image)].string());
        ++seen[batch->indices[i]];
        if (!batch->target.defined()) continue;
        const auto wanted = labels[static_cast<std::size_t>(origin.image)].patch(first_of(origin), patch);
        const auto target = batch->target.as<std::int64_t>();
        EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(),
                               target.begin() + static_cast<std::ptrdiff_t>(i * wanted.size())))
            << "labels of patch " << batch->indices[i];
      }
    }
    return seen;
  }

  /// Checks epochs of `dataset` with several numbers of workers, caches and orders: each patch is right, and
  /// each sample comes once.
  void check_patches(const Dataset& dataset, const Extents& patch) const {
    constexpr std::array<const char*, 3> kOrders = {"sequential", "full", "chunk:2"};
    std::size_t order = 0;
    for (const std::int64_t workers : {0, 1, 2, 4}) {
      for (const std::uint64_t cache : {std::uint64_t{0}, std::uint64_t{20'000}, std::uint64_t{1} << 30}) {
        // Each number of workers meets each order, with another cache.
        const char* const shuffle = kOrders.at((order + order / 3) % 3);
        ++order;
        DataLoader loader(dataset, {.batch_size = 5,
                                    .shuffle = shuffle,
                                    .seed = 9,
                                    .num_workers = workers,
                                    .cache_bytes = cache,
                                    .provenance = true});
        for (int epoch = 0; epoch < 2; ++epoch) {
          const auto seen = check_epoch(loader, patch);
          EXPECT_EQ(seen.size(), static_cast<std::size_t>(dataset.size()))
              << workers << " workers, cache " << cache << ", " << shuffle;
          EXPECT_TRUE(std::ranges::all_of(seen, [](const auto& one) { return one.second == 1; }));
        }
        if (testing::Test::HasFailure()) return;
      }
    }
  }

  std::string refusal(const DatasetOptions& options) const {
    return refusal_in<Error>(dir_.path(), [&] { Dataset::open(options); });
  }

  TempDir dir_;
  std::vector<std::filesystem::path> files;
  std::vector<Volume<std::uint16_t>> images;
  std::vector<Volume<std::uint8_t>> labels;
};

}  // namespace h5feed::test
