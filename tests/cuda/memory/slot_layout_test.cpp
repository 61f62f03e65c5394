// SPDX-License-Identifier: Apache-2.0
#include "cuda/memory/slot_layout.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/gpu.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/files/sample_set.hpp"
#include "support/gpu/device_batches.hpp"
#include "support/gpu/gpu_deliveries.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

TEST(SlotLayout, holds_the_words_that_contain_the_last_elements_in_full) {
  for (std::int64_t pixels = 1; pixels < 9; ++pixels) {
    const BatchKind kind{.samples = 17, .pixels = pixels};
    const gpu::SlotLayout layout = gpu::SlotLayout::of(kind.format());
    EXPECT_GE(layout.bytes, layout.data_offset + static_cast<std::size_t>(17 * 3 * pixels));
    EXPECT_EQ(layout.bytes % 4, 0u) << pixels << " pixels";
  }
}

// The fake runtime allocates exactly what is asked for: AddressSanitizer sees reads behind a slot. Flipped
// images make both kernels begin with the window at the very end of the batch.
TEST(SlotLayout, lets_the_kernels_read_to_the_end_of_a_batch_of_odd_size) {
  const std::vector<std::uint64_t> channels_last = {17, 19, 23, 3}, channels_first = {17, 3, 19, 23};
  for (const auto& shape : {channels_last, channels_first}) {
    const SampleSet set({.shape = shape});
    const Dataset dataset = open(set);
    DataLoaderOptions options{.batch_size = 17};
    options.normalize = Normalize{};
    options.augment = Augment{.horizontal_flip = 1};
    DataLoader on_cpu(dataset, options);
    const std::vector<Delivery> expected = rest_of_epoch(on_cpu);
    FakeCuda cuda;
    options.device = gpu::device("cuda:0");
    DataLoader loader(dataset, options);
    EXPECT_TRUE(rest_of_gpu_epoch(cuda, loader) == expected);
  }
}

}  // namespace
}  // namespace h5feed::test
