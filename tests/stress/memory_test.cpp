// SPDX-License-Identifier: Apache-2.0
// The memory budget, held against what the process really takes. A binary of its own, and not built with
// sanitizers, whose own memory would count.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/byte_units.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/trace.hpp"
#include "support/captured_log.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

std::uint64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::uint64_t size = 0;
  std::uint64_t resident = 0;
  in >> size >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

// Watches how much is resident: at the begin and the end of every stage of a loader, on its threads.
class PeakMemory final : public TraceSink {
 public:
  void begin(Stage, std::uint64_t) noexcept override { look(); }
  void end(Stage, std::uint64_t) noexcept override { look(); }
  std::uint64_t peak() const noexcept { return peak_; }

 private:
  void look() noexcept {
    const std::uint64_t now = resident_bytes();
    std::uint64_t peak = peak_;
    while (peak < now && !peak_.compare_exchange_weak(peak, now)) {
    }
  }

  std::atomic<std::uint64_t> peak_ = 0;
};

// 320 MiB decoded, in chunks of 4 MiB.
const SampleSet& large_set() {
  static const SampleSet set({.shape = {5120, 256, 256}, .chunk_shape = {64, 256, 256}, .gzip = 1});
  return set;
}

struct Case {
  const char* name;
  DataLoaderOptions options;
};

std::vector<Case> cases() {
  const std::uint64_t budget = 256 * kMiB;
  return {
      {"defaults", {.batch_size = 64, .num_workers = 2, .memory_budget_bytes = budget}},
      {"without_workers", {.batch_size = 64, .shuffle = "chunk:8", .memory_budget_bytes = budget}},
      {"many_workers",
       {.batch_size = 32, .shuffle = "chunk:16", .num_workers = 8, .memory_budget_bytes = budget}},
      {"large_batches",
       {.batch_size = 512,
        .shuffle = "chunk:4",
        .num_workers = 2,
        .prefetch_factor = 1,
        .memory_budget_bytes = budget}},
      {"full_shuffle_clairvoyant",
       {.batch_size = 64,
        .shuffle = true,
        .num_workers = 4,
        .cache_bytes = 100 * kMiB,
        .cache_policy = CachePolicy::clairvoyant,
        .memory_budget_bytes = budget}},
      {"keep_first",
       {.batch_size = 64,
        .num_workers = 4,
        .cache_bytes = 150 * kMiB,
        .cache_policy = CachePolicy::keep_first,
        .memory_budget_bytes = budget}},
      {"no_cache", {.batch_size = 64, .num_workers = 4, .cache_bytes = 0, .memory_budget_bytes = budget}},
      {"normalized",
       {.batch_size = 32, .num_workers = 4, .memory_budget_bytes = budget, .normalize = Normalize{}}},
      {"deep_reading_ahead",
       {.batch_size = 64, .num_workers = 4, .io_depth = 32, .memory_budget_bytes = budget}},
      {"auto", {.batch_size = 64, .num_workers = kAuto, .memory_budget_bytes = budget}},
      {"auto_full_shuffle",
       {.batch_size = 32, .shuffle = true, .num_workers = kAuto, .memory_budget_bytes = budget}},
      {"larger_budget",
       {.batch_size = 64, .shuffle = "chunk:8", .num_workers = 4, .memory_budget_bytes = 512 * kMiB}},
  };
}

void expect_bounded(DataLoaderOptions options) {
  const test::CapturedLog quiet;
  const Dataset dataset = open(large_set());
  malloc_trim(0);
  const std::uint64_t idle = resident_bytes();
  const auto memory = std::make_shared<PeakMemory>();
  options.trace = memory;
  std::uint64_t budget = 0;
  std::uint64_t consumer_bytes = 0;
  std::string used;
  {
    DataLoader loader(dataset, options);
    budget = loader.options().memory_budget_bytes;
    for (Batch& batch : loader) {
      const std::size_t element = size_of(batch.data.dtype);
      consumer_bytes = std::max(consumer_bytes, static_cast<std::uint64_t>(batch.data.elements()) * element);
    }
    used = loader.report();
  }
  const std::uint64_t above = memory->peak() - std::min(idle, resident_bytes());
  // The batch in the consumer's hands, and the one it has just let go, are outside the budget.
  const std::uint64_t allowed = budget + std::max(budget / 20, 32 * kMiB) + 2 * consumer_bytes;
  EXPECT_LE(above, allowed) << format_bytes(above) << " above idle; " << used;
}

// Named so that GoogleTest runs it before the tests that leave threads behind, with which a process should
// not be forked.
class MemoryBudgetDeathTest : public testing::TestWithParam<Case> {};

// Each case runs in a process of its own, since what the allocator keeps of an earlier one would count.
TEST_P(MemoryBudgetDeathTest, bounds_what_the_process_takes) {
  large_set();  // is written once, by the parent of these processes
  const auto in_child = [] {
    expect_bounded(GetParam().options);
    std::_Exit(HasFailure() ? EXIT_FAILURE : EXIT_SUCCESS);
  };
  EXPECT_EXIT(in_child(), testing::ExitedWithCode(EXIT_SUCCESS), "");
}

INSTANTIATE_TEST_SUITE_P(Options, MemoryBudgetDeathTest, testing::ValuesIn(cases()),
                         [](const auto& of) { return std::string(of.param.name); });

TEST(MemoryOverTime, stays_the_same_over_200_epochs) {
  const test::CapturedLog quiet;
  const SampleSet set({.shape = {400, 256, 256}, .chunk_shape = {2, 256, 256}, .gzip = 1});
  DataLoader loader(
      open(set), {.batch_size = 4, .shuffle = true, .seed = 1, .num_workers = 4, .cache_bytes = 16 * kMiB});
  std::uint64_t after_5 = 0;
  for (int epoch = 1; epoch <= 200; ++epoch) {
    for (Batch& batch : loader) ASSERT_GT(batch.size(), 0);
    if (epoch == 5) after_5 = resident_bytes();
  }
  // The allocator may touch more of what it keeps for each thread, as the threads happen to meet. A batch
  // lost in every epoch would be 50 MB.
  EXPECT_LE(resident_bytes(), after_5 + 8 * kMiB);
}

}  // namespace
}  // namespace h5feed::test
