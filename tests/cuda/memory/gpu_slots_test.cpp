// SPDX-License-Identifier: Apache-2.0
// A loader whose pinned slots all wait: for the consumer's own work on the GPU, or for copies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/gpu.hpp"
#include "h5feed/trace.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/files/sample_set.hpp"
#include "support/gpu/gpu_deliveries.hpp"
#include "support/gpu/on_gpu.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

// Knows whether the consumer is waiting for a batch, and for which.
struct WaitCounter final : TraceSink {
  std::atomic<std::uint64_t> begun = 0, ended = 0;
  void begin(Stage stage, std::uint64_t) noexcept override { begun += stage == Stage::wait ? 1 : 0; }
  void end(Stage stage, std::uint64_t) noexcept override { ended += stage == Stage::wait ? 1 : 0; }
};

// Blocks its passengers until it is opened.
class Gate {
 public:
  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { open(); }

  // Returns work that does not end before the gate is open.
  std::function<void()> passage() const {
    return [opened = opened_] { opened.wait(); };
  }

  void open() {
    if (!done_.exchange(true)) opener_.set_value();
  }

 private:
  std::promise<void> opener_;
  std::shared_future<void> opened_ = opener_.get_future().share();
  std::atomic<bool> done_ = false;
};

// Returns a thread that opens the gate after ten looks at the copies while the consumer waits for one and the
// same batch.
std::jthread open_when_starved(Gate& gate, const FakeCuda& cuda, const WaitCounter& counter) {
  return std::jthread([&] {
    bool starved = false;
    while (!starved) {
      const std::uint64_t wait = counter.begun;
      const std::uint64_t polls = cuda.calls_of("cudaEventQuery");
      const auto still_waits = [&] { return counter.begun == wait && counter.ended + 1 == wait; };
      while (still_waits() && !starved) {
        starved = cuda.calls_of("cudaEventQuery") >= polls + 10 && still_waits();
        std::this_thread::yield();
      }
    }
    gate.open();
  });
}

TEST(GpuSlots, that_wait_for_work_of_the_consumer_are_charged_to_the_consumer) {
  // What the loader can deliver at least while the consumer's stream stands still: one whose kernel came
  // before the consumer let it go, the three copied ones behind it, and as many as there are slots, of which
  // the batch behind them may have got one.
  constexpr std::size_t kWithoutTheGpu = 1 + 3 + 4 - 1;
  const SampleSet set(gzip_set());
  const Dataset dataset = open(set);
  for (const std::int64_t workers : {1, 2}) {
    DataLoaderOptions options{.batch_size = 4, .shuffle = true, .seed = 4, .num_workers = workers};
    options.normalize = Normalize{};
    options.prefetch_factor = 2 / workers;
    DataLoader on_cpu(dataset, options);
    const auto expected = rest_of_epoch(on_cpu);
    ASSERT_GT(expected.size(), kWithoutTheGpu);
    const auto counter = std::make_shared<WaitCounter>();
    options.trace = counter;
    options.device = gpu::device("cuda:0");
    FakeCuda cuda;
    DataLoader loader(dataset, options);
    GpuReader reader(cuda, 0);
    Gate gate;
    cuda.enqueue(reader.stream(), gate.passage());
    for (std::size_t i = 0; i < kWithoutTheGpu; ++i) reader.read(*loader.next());
    const std::jthread opener = open_when_starved(gate, cuda, *counter);
    while (const auto batch = loader.next()) reader.read(*batch);
    EXPECT_TRUE(reader.wait() == expected) << workers << " workers";
    const LoaderStats stats = loader.stats();
    EXPECT_GT(stats.wait_gpu_ns, 0u);
    EXPECT_LE(stats.wait_gpu_ns + stats.wait_transfer_ns, stats.wait_ns);
    EXPECT_EQ(stats.pageable_batches, 0u);
    EXPECT_GT(loader.verdict()->waits.free_slot, 0);
    EXPECT_THAT(loader.report(), testing::HasSubstr(" for its own work on the GPU"));
  }
}

TEST(GpuSlots, that_wait_for_copies_are_charged_to_the_transfer) {
  const SampleSet set(gzip_set());
  const Dataset dataset = open(set);
  for (const std::int64_t workers : {1, 2}) {
    const auto counter = std::make_shared<WaitCounter>();
    Gate gate;
    FakeCuda cuda({.before_copy = gate.passage()});
    DataLoader loader(dataset, on_gpu({.batch_size = 2, .num_workers = workers, .trace = counter}));
    const std::jthread opener = open_when_starved(gate, cuda, *counter);
    while (loader.next()) continue;
    const LoaderStats stats = loader.stats();
    EXPECT_GT(stats.wait_transfer_ns, 0u);
    EXPECT_LE(stats.wait_gpu_ns + stats.wait_transfer_ns, stats.wait_ns);
    EXPECT_GT(loader.verdict()->waits.transfer, 0);
  }
}

}  // namespace
}  // namespace h5feed::test
