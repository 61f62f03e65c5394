// SPDX-License-Identifier: Apache-2.0
// Batches for a GPU without data that cannot be read: as on the CPU, with and without samples that stay
// there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "support/case_step.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/gpu/gpu_deliveries.hpp"
#include "support/gpu/on_gpu.hpp"
#include "support/loaders/planted_faults.hpp"

namespace h5feed::test {
namespace {

constexpr int kEpochs = kCaseStep == 1 ? 3 : 2;

class GpuFaults : public Faults {
 protected:
  DataLoaderOptions gpu_options(OnError on_error, std::int64_t workers) const {
    DataLoaderOptions with = options(on_error, workers);
    with.normalize = Normalize{};
    with.augment = Augment{.horizontal_flip = 0.5};
    with.cache_bytes = 0;
    return with;
  }

  static std::vector<Delivery> on_fake_gpu(FakeCuda& cuda, const Dataset& dataset, DataLoaderOptions with) {
    DataLoader loader(dataset, on_gpu(std::move(with)));
    std::vector<Delivery> all;
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      for (Delivery& delivery : rest_of_gpu_epoch(cuda, loader)) all.push_back(std::move(delivery));
    }
    return all;
  }
};

TEST_F(GpuFaults, are_left_out_and_replaced_as_on_the_cpu) {
  const Dataset dataset = open(set_);
  for (const OnError on_error : {OnError::skip, OnError::replace}) {
    for (const std::int64_t workers : {0, 3}) {
      for (const std::int64_t factor : {1, 2}) {
        SCOPED_TRACE(std::string(name_of(on_error)) + ", workers " + std::to_string(workers) + ", echo " +
                     std::to_string(factor));
        DataLoaderOptions with = gpu_options(on_error, workers);
        with.echo.factor = factor;
        const std::vector<Delivery> expected = deliveries_of(dataset, with, kEpochs);
        for (const GpuCacheBytes& cache : {GpuCacheBytes(), GpuCacheBytes(5000), GpuCacheBytes("auto")}) {
          with.gpu_cache_bytes = cache;
          FakeCuda cuda;
          EXPECT_TRUE(on_fake_gpu(cuda, dataset, with) == expected);
          EXPECT_EQ(cuda.live(), FakeCudaLive{});
        }
      }
    }
  }
}

TEST_F(GpuFaults, do_not_take_more_pinned_memory_than_batches_in_preparation) {
  DataLoaderOptions with = gpu_options(OnError::skip, 3);
  FakeCuda cuda;
  DataLoader loader(open(set_), on_gpu(with));
  rest_of_gpu_epoch(cuda, loader);
  EXPECT_EQ(loader.stats().pageable_batches, 0u);
}

TEST_F(GpuFaults, beyond_the_quota_throw_and_the_following_batches_are_delivered) {
  DataLoaderOptions with = gpu_options(OnError::skip, 2);
  with.shuffle = false;
  with.batch_size = 10;
  with.max_bad_share = 0.005;
  FakeCuda cuda;
  {
    DataLoader loader(open(set_), on_gpu(with));
    int thrown = 0, delivered = 0;
    for (int batch = 0; batch < 100; ++batch) {
      try {
        delivered += loader.next() ? 1 : 0;
      } catch (const ChunkError&) {
        ++thrown;
      }
    }
    EXPECT_EQ(thrown, 2);
    EXPECT_EQ(delivered, 98);
    EXPECT_FALSE(loader.next());
  }
  EXPECT_EQ(cuda.live(), FakeCudaLive{});
}

}  // namespace
}  // namespace h5feed::test
