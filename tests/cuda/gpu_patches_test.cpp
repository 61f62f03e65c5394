// SPDX-License-Identifier: Apache-2.0
// Patches of volumes on a GPU: the same batches as on the CPU, on the runtime of the tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "h5feed/data_loader.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/files/volume_patches.hpp"
#include "support/gpu/gpu_cache_epochs.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

TEST_F(Patches, come_to_a_gpu_as_to_the_cpu) {
  write_volumes({{9, 10, 11}, {12, 10, 13}}, {4, 5, 6}, 3, true);
  FakeCuda cuda;
  for (const TileOptions& tiles :
       {TileOptions{.size = {4, 4, 4}, .edges = TileEdges::shift},
        TileOptions{.size = {4, 4, 4}, .per_image = 9, .foreground = 0.5, .turns = TileTurns::all}}) {
    DatasetOptions patches = options_of(tiles, InputLayout::ndhwc);
    patches.target = "label";
    patches.fields = {{.name = "weight", .data = "label", .dtype = DType::f32}};
    const Dataset dataset = Dataset::open(patches);
    DataLoaderOptions options{.batch_size = 4, .shuffle = true, .seed = 3, .num_workers = 2};
    options.normalize = Normalize{.mean = {0, 1, 2}, .std = {1, 2, 4}};
    DataLoader loader(dataset, on_gpu(options));
    EXPECT_TRUE(epochs_on_gpu(cuda, loader, 2) == epochs_on_cpu(dataset, options, 2));
  }
}

TEST_F(Patches, that_are_drawn_do_not_stay_on_a_gpu) {
  write_volumes({{9, 10, 11}, {12, 10, 13}}, {4, 5, 6});
  FakeCuda cuda;
  DataLoaderOptions options{.batch_size = 4};
  options.gpu_cache_bytes = 1 << 20;
  const auto refused = [&](const TileOptions& tiles) {
    return test::refusal<OptionError>(Dataset::open(options_of(tiles)), on_gpu(options));
  };
  EXPECT_THAT(
      refused({.size = {4, 4, 4}, .per_image = 2}),
      HasSubstr("gpu_cache_bytes keeps samples as they are, and tiles.per_image makes others of them"));
  EXPECT_THAT(refused({.size = {4, 4, 4}, .turns = TileTurns::flips}),
              HasSubstr("and tiles.turns makes others"));
  EXPECT_EQ(refused({.size = {4, 4, 4}}), "accepted");
}

}  // namespace
}  // namespace h5feed::test
