// SPDX-License-Identifier: Apache-2.0
// `pin_memory` on a CPU loader: batches that the program copies to a GPU itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/gpu.hpp"
#include "support/captured_log.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/deliveries.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

DataLoaderOptions pinned_options(std::int64_t workers = 0) {
  DataLoaderOptions options{.batch_size = 10, .num_workers = workers};
  options.device = gpu::device("cpu");
  options.pin_memory = true;
  return options;
}

// What LibTorch's is_pinned() asks.
bool is_pinned(const HostTensor& tensor) {
  cudaPointerAttributes attributes = {};
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, tensor.bytes.get()), cudaSuccess);
  return attributes.type == cudaMemoryTypeHost;
}

TEST(PinnedHost, delivers_what_the_cpu_delivers_in_pinned_memory) {
  const SampleSet set(gzip_set());
  const Dataset dataset = open(set);
  DataLoader pageable(dataset, {.batch_size = 10});
  const std::vector<Delivery> expected = rest_of_epoch(pageable);
  for (const std::int64_t workers : {0, 2}) {
    const CapturedLog log;
    FakeCuda cuda;
    {
      DataLoader loader(dataset, pinned_options(workers));
      EXPECT_TRUE(rest_of_epoch(loader) == expected) << workers << " workers";
      while (const auto batch = loader.next()) {
        EXPECT_FALSE(batch->gpu);
        EXPECT_TRUE(is_pinned(batch->data));
        EXPECT_TRUE(is_pinned(batch->target));
      }
      const LoaderStats stats = loader.stats();
      EXPECT_GT(stats.pinned_bytes, 10 * set.sample_bytes());
      EXPECT_EQ(stats.pageable_batches, 0u);
      EXPECT_THAT(loader.report(), HasSubstr("host memory: pinned "));
    }
    EXPECT_EQ(cuda.live(), FakeCudaLive{});
    EXPECT_THAT(log.warnings(), IsEmpty());
  }
}

TEST(PinnedHost, keeps_the_memory_of_a_batch_that_outlives_its_loader) {
  const SampleSet set(gzip_set());
  FakeCuda cuda;
  std::optional<Batch> batch;
  {
    DataLoader loader(open(set), pinned_options(2));
    batch = loader.next().value();
  }
  EXPECT_TRUE(is_pinned(batch->data));
  batch.reset();
  EXPECT_EQ(cuda.live(), FakeCudaLive{});
}

TEST(PinnedHost, goes_on_in_pageable_memory_where_the_driver_refuses_to_pin) {
  const SampleSet set(gzip_set());
  const CapturedLog log;
  FakeCuda cuda({.refuse_register = true, .refuse_host_alloc = true});
  DataLoader loader(open(set), pinned_options());
  EXPECT_FALSE(is_pinned(loader.next().value().data));
  EXPECT_EQ(rest_of_epoch(loader).size(), 9u);
  EXPECT_EQ(loader.stats().pinned_bytes, 0u);
  EXPECT_THAT(log.warnings(), ElementsAre(HasSubstr("the driver refused to pin ")));
}

TEST(PinnedHost, goes_on_in_pageable_memory_without_a_gpu) {
  const SampleSet set(gzip_set());
  const CapturedLog log;
  {
    FakeCuda cuda({.device_count_error = cudaErrorInsufficientDriver, .driver_version = 0});
    EXPECT_TRUE(DataLoader(open(set), pinned_options()).next());
    EXPECT_TRUE(DataLoader(open(set), pinned_options()).next());
  }
  FakeCuda cuda({.busy_devices = {0}});
  EXPECT_TRUE(DataLoader(open(set), pinned_options()).next());
  EXPECT_THAT(log.warnings(),
              ElementsAre(HasSubstr("pin_memory: batches are in pageable memory; no NVIDIA driver is loaded; "
                                    "install one, or leave pin_memory unset"),
                          HasSubstr("pin_memory: batches are in pageable memory; cuda:0: ")));
}

TEST(PinnedHost, says_what_a_loader_without_the_backend_lacks) {
  const SampleSet set(gzip_set());
  const CapturedLog log;
  EXPECT_TRUE(DataLoader(open(set), {.batch_size = 10, .pin_memory = true}).next());
  EXPECT_THAT(log.warnings(), ElementsAre(HasSubstr("set options.device = h5feed::gpu::device(\"cpu\")")));
}

TEST(PinnedHost, takes_pageable_memory_for_batches_beyond_those_that_it_expects) {
  const SampleSet set(gzip_set());
  const CapturedLog log;
  FakeCuda cuda;
  DataLoader loader(open(set), pinned_options());
  std::vector<Batch> kept;
  while (auto batch = loader.next()) kept.push_back(std::move(*batch));
  EXPECT_TRUE(is_pinned(kept.front().data));
  EXPECT_FALSE(is_pinned(kept.back().data));
  EXPECT_GT(loader.stats().pageable_batches, 0u);
  EXPECT_THAT(log.warnings(), ElementsAre(HasSubstr("copy the batches that you keep, or let them go")));
}

TEST(PinnedHost, takes_the_memory_of_an_allocator_until_it_fails) {
  const SampleSet set(gzip_set());
  const Dataset dataset = open(set);
  DataLoader pageable(dataset, {.batch_size = 10});
  const std::vector<Delivery> expected = rest_of_epoch(pageable);
  const CapturedLog log;
  FakeCuda cuda;
  std::vector<std::size_t> sizes;
  DataLoaderOptions options = pinned_options();
  options.device = gpu::device("cpu", [&](std::size_t bytes) {
    if (sizes.size() == 8) throw std::bad_alloc();
    sizes.push_back(bytes);
    return std::shared_ptr<std::byte>(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)),
                                      [](std::byte* memory) { std::free(memory); });
  });
  DataLoader loader(dataset, options);
  EXPECT_TRUE(rest_of_epoch(loader) == expected);
  ASSERT_EQ(sizes.size(), 8u);
  EXPECT_EQ(sizes[0], 10 * set.sample_bytes());
  EXPECT_EQ(sizes[1], 10 * sizeof(std::int64_t)) << "labels";
  EXPECT_EQ(loader.stats().pageable_batches, 6u);
  EXPECT_EQ(cuda.live(), FakeCudaLive{}) << "nothing of its own";
  EXPECT_THAT(log.warnings(),
              ElementsAre(HasSubstr("pin_memory: batches are in pageable memory from now on")));
}

}  // namespace
}  // namespace h5feed::test
