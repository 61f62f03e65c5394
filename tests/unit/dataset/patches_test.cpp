// SPDX-License-Identifier: Apache-2.0
// Patches of volumes on a grid.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/sample_reader.hpp"
#include "support/files/volume_patches.hpp"
#include "support/loaders/decode_bound.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

TEST_F(Patches, of_a_grid_equal_the_slices_of_their_volumes) {
  write_volumes({{20, 30, 40}, {20, 30, 40}}, {8, 16, 16});
  struct Case {
    TileOptions tiles;
    std::int64_t per_image;
  };
  for (const Case& one :
       {Case{{.size = {8, 16, 16}}, 2 * 1 * 2},
        Case{{.size = {8, 16, 16}, .edges = TileEdges::pad}, 3 * 2 * 3},
        Case{{.size = {8, 16, 16}, .edges = TileEdges::shift}, 3 * 2 * 3},
        Case{{.size = {7, 9, 11}, .stride = TileExtent{5, 4, 13}}, 3 * 6 * 3},
        Case{{.size = {7, 9, 11}, .overlap = TileExtent{2, 3, 4}, .edges = TileEdges::shift}, 4 * 5 * 6},
        Case{{.size = {1, 30, 40}}, 20}}) {
    DatasetOptions options = options_of(one.tiles);
    options.target = "label";
    const Dataset dataset = Dataset::open(options);
    EXPECT_EQ(dataset.size(), 2 * one.per_image);
    EXPECT_EQ(dataset.tile_grid()->per_image(), one.per_image);
    EXPECT_EQ(dataset.tile_grid(1)->image_depth, 20);
    EXPECT_EQ(
        dataset.sample_shape(),
        (std::vector<std::int64_t>{1, one.tiles.size.depth, one.tiles.size.height, one.tiles.size.width}));
    check_patches(dataset, extents_of(one.tiles.size));
    if (HasFailure()) return;
  }
}

TEST_F(Patches, come_from_any_layout_of_volumes) {
  const TileOptions tiles{.size = {6, 7, 9}, .edges = TileEdges::shift};
  write_volumes({{13, 15, 17}, {13, 15, 17}}, {5, 6, 7}, 3);
  const Dataset planar = Dataset::open(options_of(tiles, InputLayout::ncdhw));
  EXPECT_EQ(planar.sample_shape(), (std::vector<std::int64_t>{3, 6, 7, 9}));
  check_patches(planar, {6, 7, 9});
  files.clear();
  images.clear();
  labels.clear();
  write_volumes({{13, 15, 17}, {9, 8, 21}}, {5, 6, 7}, 2, true);
  check_patches(Dataset::open(options_of(tiles, InputLayout::ndhwc)), {6, 7, 9});
}

TEST_F(Patches, come_from_rows_of_datasets_whose_chunks_hold_several_volumes) {
  DatasetOptions options{.data = "raw", .target = "label", .input_layout = InputLayout::ndhw};
  for (const Extents& extents : {Extents{12, 14, 16}, Extents{10, 20, 16}}) {
    const std::filesystem::path path = dir_ / ("rows_" + std::to_string(options.files.size()) + ".h5");
    options.files.push_back(path);
    std::vector<std::uint16_t> raw;
    std::vector<std::uint8_t> label;
    for (unsigned row = 0; row < 5; ++row) {
      files.push_back(path);
      images.push_back(make_volume(extents, 1, static_cast<unsigned>(images.size()) + 1));
      labels.push_back(make_labels(extents, row));
      raw.insert(raw.end(), images.back().values.begin(), images.back().values.end());
      label.insert(label.end(), labels.back().values.begin(), labels.back().values.end());
    }
    H5TestFile file(path);
    std::vector<std::uint64_t> shape(extents.begin(), extents.end());
    shape.insert(shape.begin(), 5);
    file.create({.path = "raw", .file_type = H5T_STD_U16LE, .shape = shape, .chunk = {2, 5, 6, 7}});
    file.write("raw", std::as_bytes(std::span(raw)));
    file.create({.path = "label", .shape = shape, .chunk = {3, 4, 9, 9}});
    file.write("label", std::as_bytes(std::span(label)));
  }
  for (const TileOptions& tiles : {TileOptions{.size = {5, 6, 7}, .edges = TileEdges::shift},
                                   TileOptions{.size = {5, 6, 7}, .per_image = 3, .foreground = 0.5},
                                   TileOptions{.size = {5, 6, 7}, .min_foreground = 0.03}}) {
    options.tiles = tiles;
    const Dataset dataset = Dataset::open(options);
    EXPECT_EQ(dataset.num_images(), 10);
    check_patches(dataset, {5, 6, 7});
  }
}

TEST_F(Patches, carry_masks_with_channels_before_or_after_their_extents) {
  write_volumes({{12, 14, 16}, {10, 20, 16}}, {5, 6, 7});
  std::vector<std::filesystem::path> masks;
  for (std::size_t i = 0; i < 2; ++i) {
    masks.push_back(dir_ / ("masks_" + std::to_string(i) + ".h5"));
    H5TestFile file(masks.back());
    const Volume<std::uint8_t>& own = labels[i];
    std::vector<std::uint64_t> shape(own.extents.begin(), own.extents.end());
    std::vector<std::uint8_t> first = own.values;
    first.insert(first.end(), own.values.begin(), own.values.end());
    std::vector<std::uint8_t> last;
    for (const std::uint8_t label : own.values) last.insert(last.end(), 3, label);
    shape.insert(shape.begin(), 2);
    file.create({.path = "first", .shape = shape});
    file.write("first", std::as_bytes(std::span(first)));
    shape.erase(shape.begin());
    shape.push_back(3);
    file.create({.path = "last", .shape = shape, .chunk = {4, 4, 4, 3}});
    file.write("last", std::as_bytes(std::span(last)));
  }
  DatasetOptions options = options_of({.size = {5, 6, 7}, .per_image = 4, .turns = TileTurns::flips});
  options.target = "label";
  options.fields = {{.name = "first", .files = masks}, {.name = "last", .files = masks}};
  DataLoader loader(Dataset::open(options), {.batch_size = 8});
  const auto batch = loader.next();
  const auto target = batch->target.as<std::int64_t>();
  const auto first = batch->field("first").values.as<std::uint8_t>();
  const auto last = batch->field("last").values.as<std::uint8_t>();
  ASSERT_EQ(batch->field("first").values.shape, (std::vector<std::int64_t>{8, 2, 5, 6, 7}));
  ASSERT_EQ(batch->field("last").values.shape, (std::vector<std::int64_t>{8, 5, 6, 7, 3}));
  for (std::size_t i = 0; i < 8 * 210; ++i) {
    ASSERT_EQ(first[i / 210 * 420 + i % 210], target[i]);
    ASSERT_EQ(first[i / 210 * 420 + 210 + i % 210], target[i]);
    ASSERT_EQ(last[i * 3 + 2], target[i]);
  }
}

TEST_F(Patches, may_be_whole_volumes_without_tiles) {
  write_volumes({{5, 6, 7}, {5, 6, 7}}, {2, 3, 4}, 3, true);
  DatasetOptions options = options_of({});
  options.tiles.reset();
  options.input_layout = InputLayout::ndhwc;
  const Dataset dataset = Dataset::open(options);
  EXPECT_EQ(dataset.sample_shape(), (std::vector<std::int64_t>{3, 5, 6, 7}));
  EXPECT_EQ(dataset.num_images(), 0);
  DataLoader loader(dataset, {.batch_size = 2});
  const auto batch = loader.next();
  EXPECT_EQ(batch->data.shape, (std::vector<std::int64_t>{2, 3, 5, 6, 7}));
  const auto values = batch->data.as<std::uint16_t>();
  EXPECT_TRUE(std::equal(images[0].values.begin(), images[0].values.end(), values.begin()));
}

TEST_F(Patches, of_volumes_that_differ_in_extent_and_chunks) {
  write_volumes({{20, 30, 40}, {9, 31, 17}, {33, 12, 12}}, {8, 16, 16});
  write_volumes({{12, 12, 12}, {20, 30, 40}}, {5, 5, 40});
  write_volumes({{15, 16, 17}}, {});  // not chunked
  for (const TileOptions& tiles : {TileOptions{.size = {8, 12, 12}, .edges = TileEdges::shift},
                                   TileOptions{.size = {10, 10, 20}, .edges = TileEdges::pad}}) {
    DatasetOptions options = options_of(tiles);
    options.target = "label";
    options.fields = {{.name = "again", .data = "raw", .input_layout = InputLayout::ndhw}};
    const Dataset dataset = Dataset::open(options);
    EXPECT_EQ(dataset.num_images(), 6);
    std::int64_t tiles_of_all = 0;
    for (std::int64_t image = 0; image < 6; ++image) {
      const TileGrid grid = *dataset.tile_grid(image);
      EXPECT_EQ(grid.image_depth, images[static_cast<std::size_t>(image)].extents[0]);
      EXPECT_EQ(grid.image_width, images[static_cast<std::size_t>(image)].extents[2]);
      tiles_of_all += grid.per_image();
    }
    EXPECT_EQ(dataset.size(), tiles_of_all);
    EXPECT_EQ(dataset.origin(dataset.size() - 1).image, 5);
    check_patches(dataset, extents_of(tiles.size));
    DataLoader loader(dataset, {.batch_size = 9, .shuffle = true, .num_workers = 2});
    while (const auto batch = loader.next()) {
      const auto& values = batch->field("again").values;
      ASSERT_EQ(std::memcmp(values.bytes.get(), batch->data.bytes.get(),
                            static_cast<std::size_t>(batch->data.elements()) * 2),
                0);
    }
  }
}

TEST_F(Patches, of_differing_volumes_have_the_value_of_their_volume) {
  write_volumes({{8, 8, 8}, {16, 8, 8}, {8, 8, 24}}, {8, 8, 8});
  {
    H5TestFile file(dir_ / "ages.h5");
    file.create({.path = "age", .file_type = H5T_STD_U8LE, .shape = {3}});
    file.write("age", std::vector<std::byte>{std::byte{30}, std::byte{40}, std::byte{50}});
  }
  DatasetOptions options = options_of({.size = {8, 8, 8}});
  options.fields = {{.name = "age", .files = {dir_ / "ages.h5"}, .sample = SampleUnit::row}};
  const Dataset dataset = Dataset::open(options);
  ASSERT_EQ(dataset.size(), 6);
  DataLoader loader(dataset, {.batch_size = 6});
  const auto batch = loader.next();
  const auto ages = batch->field("age").values.as<std::uint8_t>();
  EXPECT_EQ(std::vector<int>(ages.begin(), ages.end()), (std::vector<int>{30, 40, 40, 50, 50, 50}));
}

TEST_F(Patches, images_of_two_dimensions_may_differ_in_extent) {
  std::vector<std::vector<std::byte>> stored;
  const std::vector<std::vector<std::uint64_t>> shapes = {{20, 30, 3}, {33, 17, 3}};
  for (std::size_t i = 0; i < 2; ++i) {
    files.push_back(dir_ / ("slide_" + std::to_string(i) + ".h5"));
    stored.push_back(random_bytes(shapes[i][0] * shapes[i][1] * 3, static_cast<unsigned>(i)));
    H5TestFile file(files.back());
    file.create({.path = "slide", .shape = shapes[i], .chunk = {10, 10, 3}});
    file.write("slide", stored.back());
  }
  const Dataset dataset = Dataset::open({.files = files,
                                         .data = "slide",
                                         .sample = SampleUnit::dataset,
                                         .input_layout = InputLayout::nhwc,
                                         .tiles = TileOptions{.size = 8, .edges = TileEdges::shift}});
  EXPECT_EQ(dataset.size(), 3 * 4 + 5 * 3);
  DataLoader loader(dataset, {.batch_size = 4, .shuffle = true, .num_workers = 2, .provenance = true});
  std::int64_t seen = 0;
  while (const auto batch = loader.next()) {
    const auto values = batch->data.as<std::uint8_t>();
    for (std::size_t i = 0; i < batch->origins.size(); ++i, ++seen) {
      const SampleOrigin& origin = batch->origins[i];
      const auto image = static_cast<std::size_t>(origin.image);
      for (std::int64_t c = 0; c < 3; ++c) {
        for (std::int64_t y = 0; y < 8; ++y) {
          for (std::int64_t x = 0; x < 8; ++x) {
            const auto at = static_cast<std::size_t>(
                ((origin.y + y) * static_cast<std::int64_t>(shapes[image][1]) + origin.x + x) * 3 + c);
            ASSERT_EQ(values[i * 192 + static_cast<std::size_t>((c * 8 + y) * 8 + x)],
                      std::to_integer<std::uint8_t>(stored[image][at]));
          }
        }
      }
    }
  }
  EXPECT_EQ(seen, dataset.size());
}

TEST_F(Patches, decode_every_chunk_once_with_the_cache_that_the_plan_says) {
  write_volumes({{40, 48, 56}, {33, 40, 40}, {24, 64, 32}}, {8, 16, 16});
  DatasetOptions patches =
      options_of({.size = {12, 20, 20}, .overlap = TileExtent{4, 4, 4}, .edges = TileEdges::shift});
  patches.target = "label";
  const std::uint64_t chunks = 5 * 3 * 4 + 5 * 3 * 3 + 3 * 4 * 2;
  for (const char* const shuffle : {"sequential", "chunk:2"}) {
    for (const std::int64_t workers : {0, 2}) {
      DataLoaderOptions options{
          .batch_size = 4, .shuffle = shuffle, .num_workers = workers, .cache_bytes = 0};
      options.cache_bytes = plan(Dataset::open(patches), options).cache_bytes_decode_once;
      const Dataset dataset = Dataset::open(patches);  // loaders of one dataset share the largest cache
      const PlanReport report = plan(dataset, options);
      EXPECT_EQ(report.chunks, chunks);
      EXPECT_LE(report.decodes_per_chunk.value_or(9), 1.2);
      DataLoader loader(dataset, options);
      while (loader.next()) {
      }
      EXPECT_LE(static_cast<double>(loader.stats().chunk_loads),
                most_decodes(workers) * static_cast<double>(chunks))
          << shuffle << ", " << workers << " workers";
      EXPECT_GE(loader.stats().chunk_loads, chunks);
    }
  }
}

// Returns the largest resident memory of the process since `reset_peak`, in bytes.
std::uint64_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) * 1024;
  }
  return 0;
}

void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

TEST_F(Patches, of_a_large_volume_take_the_memory_of_cache_and_batches) {
  const std::filesystem::path path = dir_ / "large.h5";
  [[maybe_unused]] constexpr std::uint64_t kVolumeBytes = std::uint64_t{512} * 1024 * 1024;
  {
    H5TestFile file(path);
    file.create({.path = "raw",
                 .shape = {512, 1024, 1024},
                 .chunk = {64, 64, 64},
                 .filters = {gzip_filter(1)},
                 .fill_value = {std::byte{7}}});
    const std::vector<std::byte> box = patterned_bytes(64 * 64 * 64);
    for (std::uint64_t i = 0; i < 8; ++i)
      file.write_box("raw", std::vector<std::uint64_t>{64 * i, 128 * i, 64 * i},
                     std::vector<std::uint64_t>{64, 64, 64}, box);
  }
  constexpr std::uint64_t kCacheBytes = std::uint64_t{16} << 20;
  constexpr std::uint64_t kBudgetBytes = std::uint64_t{48} << 20;
  for (const TileOptions& tiles : {TileOptions{.size = {64, 64, 64}, .per_image = 200},
                                   TileOptions{.size = {64, 64, 64}, .stride = TileExtent{256, 64, 64}}}) {
    const Dataset dataset = Dataset::open({.files = {path},
                                           .data = "raw",
                                           .sample = SampleUnit::dataset,
                                           .input_layout = InputLayout::ndhw,
                                           .tiles = tiles});
    reset_peak();
    [[maybe_unused]] const std::uint64_t before = peak_bytes();
    DataLoader loader(
        dataset,
        {.batch_size = 4, .num_workers = 2, .cache_bytes = kCacheBytes, .memory_budget_bytes = kBudgetBytes});
    std::int64_t samples = 0;
    while (const auto batch = loader.next()) {
      samples += batch->size();
      const LoaderStats stats = loader.stats();
      EXPECT_LE(stats.cache_bytes, kCacheBytes);
      EXPECT_LE(stats.cache_bytes + stats.in_flight_bytes, kBudgetBytes);
    }
    EXPECT_EQ(samples, dataset.size());
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
    EXPECT_LE(peak_bytes(), before + kBudgetBytes + (std::uint64_t{32} << 20)) << "of " << kVolumeBytes;
#endif
  }
}

TEST_F(Patches, resume_and_ranks_deliver_every_sample_once) {
  write_volumes({{20, 30, 40}, {9, 31, 17}, {33, 12, 12}}, {8, 16, 16});
  for (const TileOptions& tiles : {TileOptions{.size = {6, 10, 10}, .edges = TileEdges::pad},
                                   TileOptions{.size = {6, 10, 10}, .per_image = 7}}) {
    const Dataset dataset = Dataset::open(options_of(tiles));
    std::map<std::int64_t, int> seen;
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      DataLoaderOptions options{.batch_size = 4,
                                .shuffle = "chunk:2",
                                .seed = 5,
                                .num_workers = 2,
                                .rank = rank,
                                .world_size = 3,
                                .provenance = true};
      for (const auto& [sample, times] : [&] {
             DataLoader loader(dataset, options);
             return check_epoch(loader, {6, 10, 10});
           }())
        seen[sample] += times;
    }
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(dataset.size()));
    EXPECT_TRUE(std::ranges::all_of(seen, [](const auto& one) { return one.second == 1; }));

    const DataLoaderOptions options{
        .batch_size = 4, .shuffle = "chunk:2", .seed = 5, .num_workers = 2, .provenance = true};
    DataLoader first(dataset, options);
    std::map<std::int64_t, int> of_both;
    for (int i = 0; i < 2; ++i) {
      const auto batch = first.next();
      for (const std::int64_t sample : batch->indices) ++of_both[sample];
    }
    DataLoader second(Dataset::open(options_of(tiles)), options);
    second.restore(first.state());
    for (const auto& [sample, times] : check_epoch(second, {6, 10, 10})) of_both[sample] += times;
    EXPECT_EQ(of_both.size(), static_cast<std::size_t>(dataset.size()));
    EXPECT_TRUE(std::ranges::all_of(of_both, [](const auto& one) { return one.second == 1; }));
  }
}

TEST_F(Patches, a_state_of_other_patches_is_refused) {
  write_volumes({{20, 30, 40}}, {8, 16, 16});
  const auto state_of = [&](const TileOptions& tiles) {
    DatasetOptions options = options_of(tiles);
    options.target = "label";
    DataLoader loader(Dataset::open(options), {.batch_size = 2, .shuffle = true, .seed = 1});
    loader.next();
    return loader.state();
  };
  const TileOptions tiles{.size = {8, 8, 8}, .per_image = 8};
  TileOptions centred = tiles;
  centred.foreground = 0.5;
  TileOptions turned = tiles;
  turned.turns = TileTurns::all;
  for (const TileOptions& other : {centred, turned}) {
    DatasetOptions options = options_of(other);
    options.target = "label";
    DataLoader loader(Dataset::open(options), {.batch_size = 2, .shuffle = true, .seed = 1});
    EXPECT_THAT(refusal_of<StateError>([&] { loader.restore(state_of(tiles)); }), HasSubstr("dataset"));
  }

  // As many patches at random places of another volume.
  DataLoader small(Dataset::open(options_of(tiles)), {.batch_size = 2, .shuffle = true, .seed = 1});
  files.clear();
  write_volumes({{20, 30, 41}}, {8, 16, 16});
  DataLoader large(Dataset::open(options_of(tiles)), {.batch_size = 2, .shuffle = true, .seed = 1});
  EXPECT_THAT(refusal_of<StateError>([&] { large.restore(small.state()); }), HasSubstr("dataset"));
}

}  // namespace
}  // namespace h5feed::test
