// SPDX-License-Identifier: Apache-2.0
// What a GPU probe tells a loader, and what the loader makes of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <mutex>

#include "flow/report.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/gpu_probe.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

GpuUse use_of(std::initializer_list<double> busy) {
  GpuUse use;
  for (const double share : busy) {
    ++use.readings;
    use.busy.add(share);
  }
  return use;
}

/// Has seen what the test says.
class ToldProbe final : public GpuProbe {
 public:
  GpuUse use() const override {
    const std::lock_guard lock(mutex_);
    return use_;
  }
  void see(double busy) {
    const std::lock_guard lock(mutex_);
    ++use_.readings;
    use_.busy.add(busy);
  }

 private:
  mutable std::mutex mutex_;
  GpuUse use_;
};

// 10 s, of which the consumer waited a fraction: `gpu_s` for its own work, `transfer_s` for copies, and the
// rest for reading, decoding and gathering as 4 : 90 : 6.
LoaderStats waiting_stats(double wait_fraction, double gpu_s = 0, double transfer_s = 0) {
  const auto ns = [](double seconds) { return static_cast<std::uint64_t>(seconds * 1e9); };
  const double rest = 10 * wait_fraction - gpu_s - transfer_s;
  LoaderStats stats;
  stats.samples = 1000;
  stats.batches = 10;
  stats.epoch_ns = ns(10);
  stats.wait_ns = ns(10 * wait_fraction);
  stats.wait_gpu_ns = ns(gpu_s);
  stats.wait_transfer_ns = ns(transfer_s);
  stats.wait_read_ns = ns(0.04 * rest);
  stats.wait_decode_ns = ns(0.90 * rest);
  stats.wait_gather_ns = ns(0.06 * rest);
  return stats;
}

std::string report_of(const LoaderStats& stats) {
  return format_report(stats, ResolvedOptions{}, SystemLimits{}, DataFacts{});
}

TEST(GpuUse, says_what_is_known) {
  EXPECT_EQ(GpuUse{}.to_string(), "");
  GpuUse use = use_of({0.3, 0.5});
  EXPECT_EQ(use.to_string(), "the GPU was busy 40 %");
  use.sm_active.add(0.3);
  use.tensor_active.add(0.11);
  use.dram_active.add(0.2);
  use.clocks_lowered_by = "power cap";
  EXPECT_EQ(use.to_string(),
            "the GPU was busy 40 %, its SMs 30 %, tensor cores 11 %, memory 20 %; clocks lowered: power cap");
}

TEST(GpuUse, of_a_stretch_of_time_is_the_difference_of_two_looks) {
  const GpuUse before = use_of({1, 1, 1});
  const GpuUse after = use_of({1, 1, 1, 0.2, 0.4});
  GpuUse use = after - before;
  EXPECT_EQ(use.readings, 2u);
  EXPECT_DOUBLE_EQ(use.busy.mean().value(), 0.3);
  EXPECT_EQ(use.sm_active.mean(), std::nullopt);
  use += use_of({0.9});
  EXPECT_DOUBLE_EQ(use.busy.mean().value(), 0.5);
}

TEST(Verdict, calls_the_consumer_slow_where_slots_waited_for_its_own_work_on_the_gpu) {
  EXPECT_THAT(report_of(waiting_stats(0.997, 9.8)),
              HasSubstr("the consumer was the slow side: it waited 99.7 % of the time, 98.0 % "
                        "for its own work on the GPU\n"));
  EXPECT_THAT(report_of(waiting_stats(0.997, 4)),
              HasSubstr("input-bound: the consumer waited 99.7 % of the time; 54 % of that was "
                        "for decoding, 40 % for its own work on the GPU; "));
  EXPECT_THAT(
      report_of(waiting_stats(0.997, 0, 8)),
      HasSubstr("input-bound: the consumer waited 99.7 % of the time; 80 % of that was for the transfer; "));
}

TEST(Verdict, charges_the_idle_time_of_the_gpu_to_what_the_consumer_waited_for) {
  LoaderStats stats = waiting_stats(0.61);
  stats.gpu = use_of({0.41});
  EXPECT_THAT(report_of(stats),
              HasSubstr("\nthe GPU was busy 41 %; of the other 59 points, 2 waited for reading, "
                        "53 waited for decoding, 4 waited for gathering\n"))
      << "the host waited for longer than the GPU was idle";
  stats = waiting_stats(0.30);
  stats.gpu = use_of({0.41});
  EXPECT_THAT(report_of(stats),
              HasSubstr("of the other 59 points, 1 waited for reading, 27 waited for decoding, "
                        "2 waited for gathering, 29 were the program's own\n"));
  stats = waiting_stats(0);
  stats.gpu = use_of({0.41});
  EXPECT_THAT(report_of(stats), HasSubstr("of the other 59 points, 59 were the program's own\n"));
}

TEST(Verdict, says_no_more_of_a_gpu_than_is_known) {
  LoaderStats stats = waiting_stats(0.61);
  EXPECT_THAT(report_of(stats), Not(HasSubstr("GPU")));
  stats.gpu = use_of({1.0});
  EXPECT_THAT(report_of(stats), HasSubstr("\nthe GPU was busy 100 %\n"));
  stats.gpu = GpuUse{};
  stats.gpu.sm_active.add(0.25);
  EXPECT_THAT(report_of(stats), HasSubstr("\nits SMs 25 %\n"));
}

TEST(GpuProbe, counts_for_a_loader_while_its_epochs_run) {
  const SampleSet set(gzip_set());
  const auto probe = std::make_shared<ToldProbe>();
  DataLoaderOptions options{.batch_size = 50};
  options.gpu_probe = probe;
  probe->see(1);
  DataLoader loader(open(set), options);
  EXPECT_EQ(loader.stats().gpu.readings, 0u);
  EXPECT_THAT(loader.report(), Not(HasSubstr("GPU")));
  ASSERT_TRUE(loader.next());
  probe->see(0.2);
  EXPECT_EQ(loader.stats().gpu.readings, 1u) << "the epoch runs";
  ASSERT_TRUE(loader.next());
  ASSERT_FALSE(loader.next());
  probe->see(1);
  ASSERT_TRUE(loader.next());
  probe->see(0.6);
  loader.start_epoch();
  EXPECT_EQ(loader.stats().gpu.readings, 2u);
  EXPECT_DOUBLE_EQ(loader.stats().gpu.busy.mean().value(), 0.4);
  EXPECT_THAT(loader.report(), HasSubstr("the GPU was busy 40 %"));
}

}  // namespace
}  // namespace h5feed::test
