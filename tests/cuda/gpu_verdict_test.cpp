// SPDX-License-Identifier: Apache-2.0
// Trials in which copies to the GPU, or the consumer's own work on it, are slow: the verdict has to name it.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "h5feed/data_loader.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/files/sample_set.hpp"
#include "support/gpu/gpu_deliveries.hpp"
#include "support/gpu/on_gpu.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

constexpr int kTrials = 10;
constexpr int kRight = 9;  // a trial may lose its processor to other programs

class GpuVerdict : public testing::Test {
 protected:
  static DataLoaderOptions options(int trial) {
    return on_gpu({.batch_size = trial % 2 == 0 ? 4 : 5,
                   .shuffle = trial % 3 == 0,
                   .num_workers = trial % 4 == 0 ? kAuto : trial % 4,
                   .normalize = Normalize{}});
  }

  const SampleSet set_{gzip_set()};
};

TEST_F(GpuVerdict, names_the_transfer_where_copies_are_slow) {
  int right = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const FakeCuda cuda({.seed = static_cast<unsigned>(trial), .copy_us = 5000});
    DataLoader loader(open(set_), options(trial));
    while (loader.next()) continue;
    right += loader.verdict()->bottleneck == Verdict::Cause::transfer ? 1 : 0;
  }
  EXPECT_GE(right, kRight);
}

TEST_F(GpuVerdict, names_the_consumer_where_its_own_work_on_the_gpu_is_slow) {
  int right = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    FakeCuda cuda({.seed = static_cast<unsigned>(trial)});
    DataLoader loader(open(set_), options(trial));
    GpuReader reader(cuda, 0);
    while (const auto batch = loader.next()) {
      reader.read(*batch);
      cuda.enqueue(reader.stream(), [] { std::this_thread::sleep_for(std::chrono::milliseconds(10)); });
    }
    const Verdict verdict = *loader.verdict();
    right += verdict.bottleneck == Verdict::Cause::consumer && verdict.waits.free_slot > 0 ? 1 : 0;
    reader.wait();
  }
  EXPECT_GE(right, kRight);
}

}  // namespace
}  // namespace h5feed::test
