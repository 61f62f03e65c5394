// SPDX-License-Identifier: Apache-2.0
// Patches of volumes at random places, turned, and chosen by labels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/sample_reader.hpp"
#include "support/files/volume_patches.hpp"
#include "support/loaders/decode_bound.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

// Image, depth, row and column of a patch.
using Place = std::array<std::int64_t, 4>;

// Returns the places of an epoch by sample.
std::map<std::int64_t, Place> places_of(DataLoader& loader) {
  std::map<std::int64_t, Place> places;
  while (const auto batch = loader.next()) {
    for (std::size_t i = 0; i < batch->origins.size(); ++i) {
      const SampleOrigin& origin = batch->origins[i];
      places[batch->indices[i]] = {origin.image, origin.z, origin.y, origin.x};
    }
  }
  return places;
}

TEST_F(Patches, at_random_places_equal_the_slices_of_their_volumes) {
  write_volumes({{20, 30, 40}, {9, 31, 17}, {33, 12, 12}}, {8, 16, 16});
  DatasetOptions options = options_of({.size = {9, 12, 12}, .per_image = 7});
  options.target = "label";
  const Dataset dataset = Dataset::open(options);
  EXPECT_EQ(dataset.size(), 21);
  EXPECT_EQ(dataset.tile_grid(), std::nullopt);
  for (std::int64_t sample = 0; sample < 21; ++sample) EXPECT_EQ(dataset.origin(sample).image, sample / 7);
  check_patches(dataset, {9, 12, 12});
}

TEST_F(Patches, at_random_places_are_drawn_from_seed_epoch_and_number) {
  write_volumes({{64, 64, 64}, {64, 64, 64}}, {16, 16, 16});
  const Dataset dataset = Dataset::open(options_of({.size = {16, 16, 16}, .per_image = 50}));
  const auto loader_of = [&](std::uint64_t seed, std::int64_t workers, const char* shuffle) {
    return std::make_unique<DataLoader>(
        dataset,
        DataLoaderOptions{
            .batch_size = 7, .shuffle = shuffle, .seed = seed, .num_workers = workers, .provenance = true});
  };
  const auto loader = loader_of(1, 2, "full");
  const auto first = places_of(*loader);
  const auto second = places_of(*loader);
  EXPECT_EQ(first.size(), 100u);
  EXPECT_NE(first, second);
  const auto again = loader_of(1, 0, "sequential");
  EXPECT_EQ(places_of(*again), first);
  EXPECT_EQ(places_of(*again), second);
  EXPECT_NE(places_of(*loader_of(2, 2, "full")), first);
  // Each of the 49 places along an axis is equally likely.
  std::array<std::int64_t, 3> sums = {};
  std::set<Place> different;
  for (const auto& [sample, place] : first) {
    different.insert(place);
    EXPECT_EQ(place[0], sample / 50);
    for (std::size_t axis = 0; axis < 3; ++axis) {
      EXPECT_GE(place[axis + 1], 0);
      EXPECT_LE(place[axis + 1], 48);
      sums[axis] += place[axis + 1];
    }
  }
  EXPECT_GT(different.size(), 95u);
  for (const std::int64_t sum : sums) EXPECT_NEAR(static_cast<double>(sum) / 100, 24, 6);  // 4 deviations
}

TEST_F(Patches, a_sample_reader_reads_what_the_loader_draws_in_its_epoch) {
  write_volumes({{20, 30, 40}, {20, 30, 40}}, {8, 16, 16});
  const Dataset dataset =
      Dataset::open(options_of({.size = {9, 9, 9}, .per_image = 4, .turns = TileTurns::all}));
  DataLoader loader(dataset, {.batch_size = 8, .seed = 3});
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    const SampleReader reader(dataset, {.seed = 3, .epoch = epoch});
    const auto batch = loader.next();
    const Batch read = reader.read(std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7});
    EXPECT_EQ(std::memcmp(batch->data.bytes.get(), read.data.bytes.get(), 8 * 729 * 2), 0) << epoch;
    EXPECT_FALSE(loader.next().has_value());
  }
}

TEST_F(Patches, of_smaller_volumes_lie_between_zeros_on_both_sides) {
  write_volumes({{5, 30, 8}, {20, 9, 40}}, {4, 8, 8});
  const TileOptions tiles{.size = {8, 12, 12}, .edges = TileEdges::pad, .per_image = 5};
  DatasetOptions options = options_of(tiles);
  options.target = "label";
  const Dataset dataset = Dataset::open(options);
  check_patches(dataset, {8, 12, 12});
  DataLoader loader(dataset, {.batch_size = 10, .provenance = true});
  const auto batch = loader.next();
  for (const SampleOrigin& origin : batch->origins) {
    if (origin.image == 0) {
      EXPECT_EQ(origin.z, -1);  // 3 more than the volume: 1 in front, 2 behind
      EXPECT_EQ(origin.x, -2);
      EXPECT_GE(origin.y, 0);
    } else {
      EXPECT_EQ(origin.y, -1);
    }
  }
  TileOptions without = tiles;
  for (const TileEdges edges : {TileEdges::drop, TileEdges::shift}) {
    without.edges = edges;
    EXPECT_EQ(refusal(options_of(without)),
              "volume_1.h5:/raw (1×5×30×8 u16): tiles of 8×12×12 do not fit into images of 5×30×8; use a "
              "smaller tiles.size, or tiles.edges = pad");
  }
}

TEST_F(Patches, are_centred_on_classes_with_the_probability_of_foreground) {
  // One voxel of class 2 among many of class 1: each class has half of the patches.
  write_volumes({{40, 40, 40}, {40, 40, 40}}, {16, 16, 16});
  std::vector<std::uint8_t> one_voxel(40 * 40 * 40);
  for (std::size_t i = 0; i < 40 * 40 * 10; ++i) one_voxel[i] = 1;
  const std::size_t rare = (35 * 40 + 20) * 40 + 2;
  one_voxel[rare] = 2;
  std::vector<std::filesystem::path> label_files;
  for (int i = 0; i < 2; ++i) {
    label_files.push_back(dir_ / ("labels_" + std::to_string(i) + ".h5"));
    H5TestFile file(label_files.back());
    file.create({.path = "classes", .shape = {40, 40, 40}, .chunk = {9, 40, 13}});
    // The second volume has no labels.
    if (i == 0) file.write("classes", std::as_bytes(std::span(one_voxel)));
  }
  DatasetOptions options =
      options_of({.size = {8, 8, 8}, .per_image = 400, .foreground = 0.5, .labels = "classes"});
  options.fields = {{.name = "classes", .files = label_files, .input_layout = InputLayout::ndhw}};
  const Dataset dataset = Dataset::open(options);
  DataLoader loader(dataset, {.batch_size = 100, .seed = 4, .num_workers = 2, .provenance = true});
  int on_rare = 0;
  int on_common = 0;
  std::set<std::int64_t> rows;
  while (const auto batch = loader.next()) {
    const auto classes = batch->field("classes").values.as<std::uint8_t>();
    for (std::size_t i = 0; i < batch->origins.size(); ++i) {
      const SampleOrigin& origin = batch->origins[i];
      // Centred as far as the volume allows: column 2 is too near to the edge.
      const bool centred = origin.image == 0 && origin.z == 31 && origin.y == 16 && origin.x == 0;
      on_rare += centred ? 1 : 0;
      if (centred) {
        EXPECT_EQ(classes[i * 512 + (4 * 8 + 4) * 8 + 2], 2);
      }
      if (origin.image == 0 && origin.z < 6) {
        ++on_common;
        rows.insert(origin.y);
      }
    }
  }
  EXPECT_NEAR(on_rare, 100, 35);  // of 400, with 4 standard deviations
  EXPECT_NEAR(on_common, 100 + 200 * 6 / 33, 45);
  EXPECT_GT(rows.size(), 15u);  // from all over the class
}

TEST_F(Patches, centred_on_classes_equal_the_slices_of_their_volumes) {
  write_volumes({{20, 30, 40}, {9, 31, 17}, {33, 12, 12}}, {8, 16, 16});
  DatasetOptions options = options_of({.size = {9, 12, 12}, .per_image = 7, .foreground = 1});
  options.target = "label";
  const Dataset dataset = Dataset::open(options);
  check_patches(dataset, {9, 12, 12});
  DataLoader loader(dataset, {.batch_size = 21});
  const auto batch = loader.next();
  const auto target = batch->target.as<std::int64_t>();
  for (std::ptrdiff_t patch = 0; patch < 21; ++patch) {
    const auto begin = target.begin() + patch * 9 * 12 * 12;
    EXPECT_TRUE(std::any_of(begin, begin + 9 * 12 * 12, [](std::int64_t label) { return label > 0; }));
  }
}

TEST_F(Patches, with_too_little_foreground_are_left_out_and_counted) {
  write_volumes({{20, 30, 40}, {9, 31, 17}, {33, 12, 12}}, {8, 16, 16});
  const TileOptions all{.size = {6, 10, 10}, .overlap = TileExtent{2, 3, 3}, .edges = TileEdges::pad};
  const Dataset whole = Dataset::open(options_of(all));
  TileOptions filtered = all;
  filtered.min_foreground = 0.04;
  DatasetOptions options = options_of(filtered);
  options.target = "label";
  const Dataset dataset = Dataset::open(options);
  std::vector<std::int64_t> expected;
  for (std::int64_t tile = 0; tile < whole.size(); ++tile) {
    const SampleOrigin origin = whole.origin(tile);
    const auto patch = labels[static_cast<std::size_t>(origin.image)].patch(first_of(origin), {6, 10, 10});
    const auto labelled = std::ranges::count_if(patch, [](std::uint8_t label) { return label > 0; });
    if (labelled >= 24) expected.push_back(tile);
  }
  ASSERT_GT(expected.size(), 5u);
  ASSERT_LT(expected.size(), static_cast<std::size_t>(whole.size()) / 2);
  EXPECT_EQ(dataset.size(), static_cast<std::int64_t>(expected.size()));
  EXPECT_EQ(dataset.tiles_left_out(), whole.size() - dataset.size());
  EXPECT_EQ(whole.tiles_left_out(), 0);
  DataLoader loader(dataset, {.batch_size = 4, .num_workers = 2, .provenance = true});
  std::vector<std::int64_t> delivered;
  for (const auto& [sample, times] : check_epoch(loader, {6, 10, 10})) delivered.push_back(sample);
  EXPECT_EQ(delivered, expected);
  check_patches(dataset, {6, 10, 10});
  EXPECT_EQ(dataset.split({0.5, 0.5}, 1, SplitBy::sample).front().size(), (dataset.size() + 1) / 2);
  Dataset refreshed = dataset;
  refreshed.refresh();
  EXPECT_EQ(refreshed.size(), dataset.size());
}

TEST_F(Patches, are_turned_alike_with_their_labels_and_in_every_way) {
  const std::int64_t n = 3;
  write_volumes({{n, n, n}}, {2, 2, 2}, 2, true);
  // The field numbers the voxels, so that it tells how a patch was turned.
  std::vector<std::uint8_t> numbers(27);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::uint8_t>(i);
  {
    H5TestFile file(dir_ / "numbers.h5");
    file.create({.path = "number", .shape = {3, 3, 3}});
    file.write("number", std::as_bytes(std::span(numbers)));
  }
  struct Case {
    TileTurns turns;
    std::size_t ways;
  };
  for (const Case& one : {Case{TileTurns::none, 1}, Case{TileTurns::flips, 8}, Case{TileTurns::planar, 16},
                          Case{TileTurns::all, 48}}) {
    DatasetOptions options =
        options_of({.size = {3, 3, 3}, .per_image = 600, .turns = one.turns}, InputLayout::ndhwc);
    options.fields = {{.name = "number", .files = {dir_ / "numbers.h5"}, .input_layout = InputLayout::ndhw}};
    const Dataset dataset = Dataset::open(options);
    DataLoader loader(dataset, {.batch_size = 100, .num_workers = 2});
    std::map<std::vector<int>, int> ways;
    while (const auto batch = loader.next()) {
      const auto number = batch->field("number").values.as<std::uint8_t>();
      const auto values = batch->data.as<std::uint16_t>();
      for (std::size_t i = 0; i < 100; ++i) {
        std::vector<int> way;
        for (std::size_t voxel = 0; voxel < 27; ++voxel) {
          way.push_back(number[i * 27 + voxel]);
          for (std::size_t c = 0; c < 2; ++c) {
            ASSERT_EQ(values[(i * 2 + c) * 27 + voxel], images[0].values[c * 27 + number[i * 27 + voxel]]);
          }
        }
        ++ways[way];
      }
    }
    EXPECT_EQ(ways.size(), one.ways);
    for (const auto& [way, times] : ways) {
      // Turned cubes: neighbours stay neighbours.
      const int step = std::abs(way[1] - way[0]);
      EXPECT_TRUE(step == 1 || step == 3 || step == 9);
      EXPECT_EQ(std::set<int>(way.begin(), way.end()).size(), 27u);
      EXPECT_NEAR(times, 600.0 / static_cast<double>(one.ways),
                  4 * std::sqrt(600.0 / static_cast<double>(one.ways)));
    }
  }
}

TEST_F(Patches, at_random_places_decode_every_touched_chunk_about_once) {
  std::vector<Extents> extents(12, Extents{64, 64, 64});
  extents[3] = {96, 64, 64};
  write_volumes(extents, {16, 16, 16});
  DatasetOptions patches = options_of({.size = {16, 16, 16}, .per_image = 8});
  patches.target = "label";
  for (const char* const shuffle : {"sequential", "chunk:1", "chunk:4"}) {
    for (const std::int64_t workers : {0, 2, 4}) {
      DataLoaderOptions options{.batch_size = 4,
                                .shuffle = shuffle,
                                .seed = 2,
                                .num_workers = workers,
                                .cache_bytes = 0,
                                .provenance = true};
      options.cache_bytes = plan(Dataset::open(patches), options).cache_bytes_decode_once;
      const Dataset dataset = Dataset::open(patches);
      DataLoader loader(dataset, options);
      const PlanReport report = loader.plan();
      EXPECT_LE(report.decodes_per_chunk.value_or(9), 1.2);
      for (int epoch = 0; epoch < 3; ++epoch) {
        const std::uint64_t before = loader.stats().chunk_loads;
        std::set<Place> touched;
        for (const auto& [sample, place] : places_of(loader)) {
          for (std::int64_t z = place[1] / 16; z <= (place[1] + 15) / 16; ++z)
            for (std::int64_t y = place[2] / 16; y <= (place[2] + 15) / 16; ++y)
              for (std::int64_t x = place[3] / 16; x <= (place[3] + 15) / 16; ++x)
                touched.insert({place[0], z, y, x});
        }
        const auto loads = static_cast<double>(loader.stats().chunk_loads - before);
        EXPECT_LE(loads, most_decodes(workers) * static_cast<double>(touched.size()))
            << shuffle << ", " << workers;
        EXPECT_NEAR(static_cast<double>(report.chunks), static_cast<double>(touched.size()),
                    0.15 * static_cast<double>(touched.size()));
      }
    }
  }
}

TEST_F(Patches, go_on_without_a_damaged_chunk) {
  write_volumes({{32, 32, 32}, {32, 32, 32}}, {16, 16, 16});
  {
    H5TestFile file(dir_ / "damaged.h5");
    file.create({.path = "raw",
                 .file_type = H5T_STD_U16LE,
                 .shape = {32, 32, 32},
                 .chunk = {16, 16, 16},
                 .filters = {gzip_filter(1)}});
    const auto* const bytes = reinterpret_cast<const std::byte*>(images[0].values.data());
    file.write("raw", {bytes, images[0].values.size() * 2});
    file.write_chunk("raw", std::vector<std::uint64_t>{16, 0, 16}, std::vector<std::byte>(40, std::byte{7}));
  }
  files[0] = dir_ / "damaged.h5";
  const Dataset dataset = Dataset::open(options_of({.size = {8, 8, 8}, .per_image = 60}));
  const auto bad = [](const SampleOrigin& origin) {
    return origin.image == 0 && origin.z + 8 > 16 && origin.y < 16 && origin.x + 8 > 16;
  };
  for (const OnError on_error : {OnError::skip, OnError::replace}) {
    DataLoader loader(dataset, {.batch_size = 10,
                                .shuffle = true,
                                .seed = 8,
                                .num_workers = 2,
                                .on_error = on_error,
                                .max_bad_share = 1,
                                .provenance = true});
    for (int epoch = 0; epoch < 3; ++epoch) {
      std::int64_t delivered = 0;
      while (const auto batch = loader.next()) {
        delivered += batch->size();
        for (std::size_t i = 0; i < batch->origins.size(); ++i) {
          const SampleOrigin& origin = batch->origins[i];
          EXPECT_FALSE(bad(origin));
          const auto expected =
              images[static_cast<std::size_t>(origin.image)].patch(first_of(origin), {8, 8, 8});
          EXPECT_EQ(std::memcmp(expected.data(), batch->data.bytes.get() + i * 1024, 1024), 0);
        }
      }
      EXPECT_EQ(delivered == 120, on_error == OnError::replace);
    }
  }
}

}  // namespace
}  // namespace h5feed::test
