// SPDX-License-Identifier: Apache-2.0
// Which devices get a context, which takes some hundred MiB of each: those that the program names.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/runtime/handles.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/gpu.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/files/sample_set.hpp"
#include "support/gpu/gpu_deliveries.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

DataLoaderOptions on_device(const std::string& device, std::int64_t workers) {
  DataLoaderOptions options{.batch_size = 10, .num_workers = workers};
  options.normalize = Normalize{};
  options.device = gpu::device(device);
  return options;
}

int current_device() {
  int device = -1;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  return device;
}

TEST(GpuContexts, are_made_on_the_device_of_the_loader_alone) {
  const SampleSet set(gzip_set());
  const Dataset dataset = open(set);
  for (const std::int64_t workers : {0, 2}) {
    FakeCuda cuda({.devices = 3});
    std::vector<Batch> kept;
    {
      DataLoader loader(dataset, on_device("cuda:1", workers));
      EXPECT_EQ(rest_of_gpu_epoch(cuda, loader, 1).size(), 10u);
      for (Batch& batch : loader) kept.push_back(std::move(batch));
      static_cast<void>(loader.report());
      std::jthread([late = std::exchange(kept, {})]() mutable { late.clear(); });
      if (auto batch = loader.next()) kept.push_back(std::move(*batch));
    }
    kept.clear();
    EXPECT_EQ(cuda.contexts(), std::set<int>{1}) << workers << " workers";
    EXPECT_EQ(current_device(), 0) << "as before";
    EXPECT_EQ(cuda.live(), FakeCudaLive{});
  }
}

TEST(GpuContexts, guards_nest_and_leave_what_the_program_has_set) {
  FakeCuda cuda({.devices = 3});
  ASSERT_EQ(cudaSetDevice(2), cudaSuccess);
  {
    const gpu::DeviceGuard outer(0);
    EXPECT_EQ(current_device(), 0);
    {
      const gpu::DeviceGuard inner(1);
      EXPECT_EQ(current_device(), 1);
    }
    EXPECT_EQ(current_device(), 0);
  }
  EXPECT_EQ(current_device(), 2);
}

TEST(GpuContexts, made_to_ask_for_free_memory_are_given_back) {
  FakeCuda cuda({.devices = 2, .memory_bytes = 1 << 20});
  std::size_t bytes = 0;
  EXPECT_EQ(gpu::free_memory(1, bytes), cudaSuccess);
  EXPECT_EQ(bytes, std::size_t{1} << 20);
  EXPECT_EQ(cuda.contexts(), std::set<int>{});
  EXPECT_FALSE(gpu::has_context(1));
  const gpu::DeviceMemory memory = [] {
    const gpu::DeviceGuard guard(1);
    return gpu::make_device_memory(1024, 1);
  }();
  EXPECT_TRUE(gpu::has_context(1));
  EXPECT_EQ(gpu::free_memory(1, bytes), cudaSuccess);
  EXPECT_EQ(bytes, (std::size_t{1} << 20) - 1024);
  EXPECT_EQ(cuda.contexts(), std::set<int>{1}) << "of somebody else";
}

}  // namespace
}  // namespace h5feed::test
