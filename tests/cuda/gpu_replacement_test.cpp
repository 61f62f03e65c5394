// SPDX-License-Identifier: Apache-2.0
// gpu_cache_bytes for part of the samples: which of them stay, and that replacing them changes no value.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/files/sample_set.hpp"
#include "support/gpu/gpu_deliveries.hpp"
#include "support/gpu/on_gpu.hpp"
#include "support/loaders/deliveries.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

constexpr std::uint64_t kSamples = 600, kRowBytes = 16;

SampleSetSpec many_small() { return {.shape = {kSamples, 4, 4}, .chunk_shape = {20, 4, 4}, .gzip = 1}; }

DataLoaderOptions options_of(std::uint64_t cached_samples, std::int64_t workers = 0) {
  DataLoaderOptions options{.batch_size = 10, .shuffle = true, .seed = 5, .num_workers = workers};
  options.cache_bytes = 0;
  options.normalize = Normalize{};
  options.gpu_cache_bytes = cached_samples * kRowBytes;
  return options;
}

// Reads epochs on a GPU and on the CPU, compares them, and counts the samples that were on the GPU.
class GpuReplacement : public testing::Test {
 protected:
  void start(const DataLoaderOptions& options) {
    on_gpu_.emplace(dataset_, on_gpu(options));
    on_cpu_.emplace(dataset_, options);
  }

  void read_epochs(int epochs) {
    for (int epoch = 0; epoch < epochs; ++epoch)
      EXPECT_TRUE(rest_of_gpu_epoch(cuda_, *on_gpu_) == rest_of_epoch(*on_cpu_)) << "epoch " << epoch;
  }

  std::uint64_t hits() const { return on_gpu_->stats().gpu_cache_hits; }

  // Returns the share of the samples that were on the GPU in each of some epochs after the first.
  double share(const DataLoaderOptions& options) {
    start(options);
    read_epochs(2);
    const std::uint64_t before = hits();
    constexpr int kEpochs = 4;
    read_epochs(kEpochs);
    const auto ranks = static_cast<double>(options.world_size);
    return static_cast<double>(hits() - before) * ranks / (kEpochs * static_cast<double>(kSamples));
  }

  const SampleSet set_{many_small()};
  const Dataset dataset_ = open(set_);
  FakeCuda cuda_{{.manual = true}};
  std::optional<DataLoader> on_gpu_;
  std::optional<DataLoader> on_cpu_;
};

TEST_F(GpuReplacement, serves_far_more_of_a_shuffle_than_it_has_room_for) {
  for (const double room : {0.1, 0.2, 0.3}) {
    const double share_served =
        share(options_of(static_cast<std::uint64_t>(room * static_cast<double>(kSamples))));
    const double best = std::pow(3 * room, 2.0 / 3) / 2;
    EXPECT_GE(share_served, 0.9 * best) << room;
    EXPECT_LE(share_served, 1.1 * best) << room;
  }
}

}  // namespace
}  // namespace h5feed::test
