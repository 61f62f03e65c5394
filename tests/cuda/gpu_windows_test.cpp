// SPDX-License-Identifier: Apache-2.0
// Windows on a GPU: the same batches as on the CPU, on the runtime of the tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "h5feed/data_loader.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/files/episode_files.hpp"
#include "support/gpu/gpu_cache_epochs.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

class GpuWindows : public EpisodeTest {
 protected:
  Dataset open(InputLayout layout, EpisodeOptions::Anchors anchors = EpisodeOptions::Anchors::every) {
    const auto path = dir_ / (layout == InputLayout::none ? "rows.h5" : "images.h5");
    {
      H5TestFile file(path);
      const FieldEpisodes frames = make_episodes({30}, 3 * 4 * 5, 1);
      if (layout == InputLayout::none) {
        put_joined(file, "frames", frames, {4, 60});
      } else {
        put(file, "frames", {30, 4, 5, 3}, {4, 4, 5, 3}, frames.front().values);
      }
      put_table(file, "lengths", {12, 1, 17});
    }
    DatasetOptions options{.files = {path}, .data = "frames", .input_layout = layout};
    options.target = "frames";
    options.target_window = {1, 2};
    options.window = {-2, 0, 1};
    options.episodes = EpisodeOptions{.index = EpisodeOptions::Index::lengths,
                                      .table = "lengths",
                                      .anchors = anchors,
                                      .missing_before = 1,
                                      .missing_after = 1,
                                      .fill = EpisodeOptions::Fill::zero};
    options.fields = {{.name = "next", .data = "frames", .window = {0, 1}},
                      {.name = "now", .data = "frames"}};
    return Dataset::open(options);
  }
};

TEST_F(GpuWindows, come_to_a_gpu_as_to_the_cpu) {
  FakeCuda cuda;
  for (const InputLayout layout : {InputLayout::none, InputLayout::nhwc}) {
    const Dataset dataset = open(layout);
    for (const bool normalized : {false, true}) {
      DataLoaderOptions options{.batch_size = 4, .shuffle = true, .seed = 3, .num_workers = 2};
      if (normalized) options.normalize = Normalize{.mean = {1}, .std = {2}};
      DataLoader loader(dataset, on_gpu(options));
      EXPECT_TRUE(epochs_on_gpu(cuda, loader, 2) == epochs_on_cpu(dataset, options, 2));
    }
  }
}

TEST_F(GpuWindows, drawn_and_repeated_come_to_a_gpu_as_to_the_cpu) {
  FakeCuda cuda;
  const Dataset dataset = open(InputLayout::nhwc, EpisodeOptions::Anchors::one_random);
  for (const std::int64_t workers : {0, 2}) {
    DataLoaderOptions options{
        .batch_size = 2, .echo = {.factor = 2}, .shuffle = true, .seed = 3, .num_workers = workers};
    DataLoader loader(dataset, on_gpu(options));
    EXPECT_TRUE(epochs_on_gpu(cuda, loader, 5) == epochs_on_cpu(dataset, options, 5));
  }
}

TEST_F(GpuWindows, bring_fields_and_masks_to_the_gpu) {
  FakeCuda cuda;
  const Dataset dataset = open(InputLayout::none);
  const DataLoaderOptions options{.batch_size = 5, .shuffle = "chunk:1", .seed = 4, .num_workers = 2};
  DataLoader on_cpu(dataset, options);
  DataLoader loader(dataset, on_gpu(options));
  const auto batch = loader.next();
  const auto same = on_cpu.next();
  ASSERT_EQ(batch->gpu->tensors().fields.size(), 5U);  // with the masks of data, target and "next"
  for (const BatchField& field : same->fields) {
    EXPECT_FALSE(batch->field(field.name).values.defined()) << field.name;
    EXPECT_EQ(batch->gpu->field(field.name).dtype, field.values.dtype) << field.name;
    EXPECT_EQ(batch->gpu->field(field.name).shape, field.values.shape) << field.name;
  }
}

TEST_F(GpuWindows, do_not_stay_on_a_gpu) {
  FakeCuda cuda;
  DataLoaderOptions options{.batch_size = 4};
  options.gpu_cache_bytes = 1 << 20;
  EXPECT_THAT(test::refusal<OptionError>(open(InputLayout::none), on_gpu(options)),
              HasSubstr("gpu_cache_bytes keeps each sample by itself, and windows share their rows"));
}

}  // namespace
}  // namespace h5feed::test
