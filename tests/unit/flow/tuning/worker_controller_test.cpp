// SPDX-License-Identifier: Apache-2.0
// The law of num_workers = kAuto on a synthetic loader: no clock, no threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>

#include "flow/tuning/worker_controller.hpp"

namespace h5feed::test {
namespace {

using Bounds = WorkerController::Bounds;
using Choice = WorkerController::Choice;
using Reason = WorkerController::Reason;

// A loader and its consumer. Times are of one batch, in ns.
struct Plant {
  double cpu_ns = 1e6;      // of a worker
  double wait_ns = 0;       // of a worker, for storage
  double consumer_ns = 0;   // between two calls of next()
  double cpus = 2;          // of the machine
  double storage_ns = 0;    // shortest time between two batches that storage delivers
  double noise = 0;         // the times vary by this share
  std::uint64_t burst = 1;  // work is done for this many batches at once
};

constexpr double kBatchBytes = 1e6;

// Runs a controller on a plant, which may be changed between runs.
class Simulation {
 public:
  Simulation(const Bounds& bounds, const Plant& of) : plant(of), controller_(bounds), bounds_(bounds) {}

  // Delivers batches; returns how often the number of workers has changed.
  int deliver(int batches) {
    int changes = 0;
    for (int i = 0; i < batches; ++i) changes += deliver_one() ? 1 : 0;
    return changes;
  }
  const WorkerController& controller() const { return controller_; }
  Choice choice() const { return controller_.choice(); }
  // Returns the share of the time that the consumer waited in the last `batches` batches of `deliver`.
  double waited(int batches) {
    wait_ = passed_ = 0;
    deliver(batches);
    return wait_ / passed_;
  }

  Plant plant;

 private:
  double vary(double value) {
    return value * std::uniform_real_distribution<double>(1 - plant.noise, 1 + plant.noise)(random_);
  }

  // Batches per ns that the workers make.
  double rate() const {
    const auto workers = static_cast<double>(choice().workers);
    double rate = std::min(workers / (plant.cpu_ns + plant.wait_ns), plant.cpus / plant.cpu_ns);
    if (plant.storage_ns > 0) rate = std::min(rate, 1 / plant.storage_ns);
    return rate;
  }

  // Lets the workers work for `time`, or until the queue is full.
  void work_for(double time) {
    const double made =
        std::min(rate() * time, std::max(0.0, static_cast<double>(choice().batches) - queue_));
    const double alone = plant.cpu_ns + plant.wait_ns;
    const double busy = std::max(alone, static_cast<double>(choice().workers) / rate());
    queue_ += made;
    pending_.busy_ns += vary(made * (rate() * alone < static_cast<double>(choice().workers) ? busy : alone));
    pending_.cpu_ns += made * plant.cpu_ns;
    const double limited = plant.storage_ns > 0 ? busy - plant.cpu_ns : plant.wait_ns;
    pending_.storage_wait_ns += vary(made * (plant.wait_ns > 0 ? limited : 0));
    made_ += made;
    pending_.wall_ns += time;
  }

  bool deliver_one() {
    const double consumer = vary(plant.consumer_ns);
    work_for(consumer);
    double wait = 0;
    if (queue_ < 1) {
      wait = (1 - queue_) / rate();
      work_for(wait);
    }
    queue_ -= std::min(queue_, 1.0);
    wait_ += wait;
    passed_ += wait + consumer;
    const std::int64_t before = choice().workers;
    if (controller_.add(
            {.consumer_ns = consumer, .wait_ns = wait, .ready = static_cast<std::uint64_t>(queue_)})) {
      end_window();
    }
    EXPECT_LE(choice().workers, bounds_.workers);
    EXPECT_LE(choice().batches, bounds_.batches);
    EXPECT_LE(choice().reads, bounds_.reads);
    return choice().workers != before;
  }

  void end_window() {
    const auto whole = static_cast<std::uint64_t>(made_) / plant.burst * plant.burst;
    if (whole == 0) {
      controller_.end_window({.wall_ns = pending_.wall_ns});
      return;
    }
    pending_.batches = whole;
    pending_.bytes = static_cast<std::uint64_t>(kBatchBytes * made_);
    made_ -= static_cast<double>(whole);
    controller_.end_window(pending_);
    pending_ = {};
  }

  WorkerController controller_;
  const Bounds bounds_;
  std::mt19937 random_{7};
  WorkerController::Work pending_;
  double queue_ = 0, made_ = 0, wait_ = 0, passed_ = 0;
};

constexpr Bounds kTwoCpus{.workers = 8, .cpu_limit = 2, .batches = 32, .reads = 16};
constexpr Bounds kManyCpus{.workers = 64, .cpu_limit = 32, .batches = 256, .reads = 128};

TEST(WorkerController, uses_all_cpus_and_no_more_workers_for_a_consumer_that_only_takes) {
  Simulation run(kTwoCpus, {.cpu_ns = 2e6, .cpus = 2});
  run.deliver(50);
  EXPECT_EQ(run.choice().workers, 2);
  EXPECT_EQ(run.controller().reason(), Reason::cpus);
  EXPECT_EQ(run.deliver(1000), 0);

  Simulation many(kManyCpus, {.cpu_ns = 2e6, .cpus = 32});
  many.deliver(50);
  EXPECT_EQ(many.choice().workers, 32);
  EXPECT_EQ(many.deliver(1000), 0);
}

TEST(WorkerController, takes_no_busy_neighbour_for_slow_storage) {
  Simulation run(kTwoCpus, {.cpu_ns = 2e6, .cpus = 0.5});  // the machine gives the loader half a CPU
  run.deliver(50);
  EXPECT_EQ(run.choice().workers, 2);
  EXPECT_EQ(run.deliver(1000), 0);
}

TEST(WorkerController, uses_more_workers_than_cpus_where_reads_wait) {
  Simulation run(kTwoCpus, {.cpu_ns = 0.2e6, .wait_ns = 4e6, .cpus = 2});
  run.deliver(50);
  EXPECT_EQ(run.choice().workers, 8);
  EXPECT_EQ(run.choice().reads, 16);
  EXPECT_EQ(run.controller().reason(), Reason::most);
  EXPECT_EQ(run.deliver(1000), 0);
}

TEST(WorkerController, gives_up_workers_that_read_no_faster) {
  Simulation run(kTwoCpus, {.cpu_ns = 0.2e6, .wait_ns = 4e6, .cpus = 2, .storage_ns = 2.1e6});
  run.deliver(50);
  EXPECT_EQ(run.choice().workers, 2);
  EXPECT_EQ(run.controller().reason(), Reason::reads);
  EXPECT_LE(run.deliver(1000), 4) << "further trials, ever more rarely";
}

TEST(WorkerController, uses_one_worker_for_a_slow_consumer) {
  Simulation run(kTwoCpus, {.cpu_ns = 0.5e6, .consumer_ns = 5e6});
  run.deliver(50);
  EXPECT_EQ(run.choice().workers, 1);
  EXPECT_EQ(run.controller().reason(), Reason::consumer);
  EXPECT_EQ(run.deliver(1000), 0);
  EXPECT_EQ(run.waited(1000), 0);
}

TEST(WorkerController, follows_a_consumer_that_changes_its_speed_within_50_batches) {
  for (const double busy : {0.3, 0.9, 1.0, 2.2, 3.1}) {  // workers that the slow consumer needs
    Simulation run(kManyCpus, {.cpu_ns = busy * 4e6, .consumer_ns = 4e6, .cpus = 32, .noise = 0.1});
    run.deliver(200);
    for (int turn = 0; turn < 3; ++turn) {
      run.plant.consumer_ns = 1e6;
      run.deliver(50);
      EXPECT_GE(static_cast<double>(run.choice().workers), busy * 4) << busy << ", turn " << turn;
      EXPECT_LT(run.waited(100), 0.05) << busy << ", turn " << turn;
      run.plant.consumer_ns = 4e6;
      run.deliver(50);
      EXPECT_LE(static_cast<double>(run.choice().workers), busy * 1.5 + 1) << busy << ", turn " << turn;
      EXPECT_LT(run.waited(100), 0.05) << busy << ", turn " << turn;
    }
  }
}

TEST(WorkerController, does_not_oscillate_under_a_steady_load) {
  for (const Bounds& bounds : {kTwoCpus, kManyCpus}) {
    for (const double noise : {0.0, 0.1, 0.3}) {
      for (double busy = 0.1; busy < 1.5 * bounds.cpu_limit; busy *= 1.07) {
        for (const double wait_share : {0.0, 0.8}) {
          Simulation run(bounds, {.cpu_ns = busy * (1 - wait_share) * 4e6,
                                  .wait_ns = busy * wait_share * 4e6,
                                  .consumer_ns = 4e6,
                                  .cpus = bounds.cpu_limit,
                                  .noise = noise});
          run.deliver(50);
          EXPECT_LE(run.deliver(1000), 8) << busy << " workers needed, noise " << noise;
          const bool can = busy * (1 - wait_share) < 0.9 * bounds.cpu_limit &&
                           busy < 0.9 * static_cast<double>(bounds.workers);
          if (can) {
            EXPECT_LT(run.waited(200), 0.05)
                << busy << " workers needed, noise " << noise << ", " << run.choice().workers << " active";
          }
        }
      }
    }
  }
}

TEST(WorkerController, prefetches_more_if_the_work_is_uneven) {
  Simulation run(kManyCpus, {.cpu_ns = 1e6, .consumer_ns = 2e6, .cpus = 32, .burst = 25});
  run.deliver(100);
  EXPECT_LE(run.deliver(1000), 8);
  EXPECT_LE(run.choice().workers, 2);
}

TEST(WorkerController, prefetches_more_if_no_worker_may_be_added) {
  Simulation run(kTwoCpus, {.cpu_ns = 2e6, .cpus = 2});
  run.deliver(12);
  EXPECT_EQ(run.choice().workers, 2);
  EXPECT_EQ(run.choice().batches, 16U);
  run.deliver(1000);
  EXPECT_EQ(run.choice().batches, 16U);
}

TEST(WorkerController, lowers_what_exceeds_the_cpu_limit) {
  WorkerController controller({.workers = 16, .cpu_limit = 4, .batches = 64, .reads = 32});
  for (int window = 0; window < 4; ++window) {
    while (!controller.add({.consumer_ns = 1e3, .wait_ns = 1e6})) {
    }
    controller.end_window(
        {.wall_ns = 8e6, .busy_ns = 32e6, .cpu_ns = 64e6, .batches = 8, .bytes = 1'000'000});
  }
  EXPECT_LE(controller.choice().workers, 2);
}

TEST(WorkerController, keeps_one_worker_below_one_cpu) {
  Simulation run({.workers = 1, .cpu_limit = 0.25, .batches = 4, .reads = 2}, {.cpu_ns = 2e6});
  EXPECT_EQ(run.deliver(200), 0);
  EXPECT_EQ(run.choice().workers, 1);
}

TEST(WorkerController, prefetches_as_much_as_it_may_where_batches_share_decoded_chunks) {
  WorkerController controller(
      {.workers = 8, .cpu_limit = 2, .batches = 128, .per_worker = 128, .fill = true});
  EXPECT_EQ(controller.choice().batches, 128U);
}

TEST(WorkerController, stays_within_its_bounds_whatever_it_is_told) {
  std::mt19937 random(3);
  const auto any = [&] {
    switch (std::uniform_int_distribution<int>(0, 4)(random)) {
      case 0:
        return 0.0;
      case 1:
        return 1e18;
      default:
        return std::exponential_distribution<double>(1e-6)(random);
    }
  };
  for (int i = 0; i < 200; ++i) {
    const auto number = [&](int least) { return std::uniform_int_distribution<int>(least, 40)(random); };
    const Bounds bounds{.workers = number(1),
                        .cpu_limit = std::uniform_real_distribution<double>(0.1, 40)(random),
                        .batches = static_cast<std::uint64_t>(number(1)),
                        .per_worker = static_cast<std::uint64_t>(number(1)),
                        .reads = number(0)};
    WorkerController controller(bounds);
    for (int batch = 0; batch < 400; ++batch) {
      const Choice& choice = controller.choice();
      ASSERT_GE(choice.workers, 1);
      ASSERT_LE(choice.workers, bounds.workers);
      ASSERT_GE(choice.batches, 1U);
      ASSERT_LE(choice.batches, bounds.batches);
      ASSERT_LE(choice.batches, bounds.per_worker * static_cast<std::uint64_t>(choice.workers));
      ASSERT_GE(choice.reads, 0);
      ASSERT_LE(choice.reads, bounds.reads);
      if (controller.add({.consumer_ns = any(),
                          .wait_ns = any(),
                          .counts = number(0) > 5,
                          .ready = static_cast<std::uint64_t>(number(0))})) {
        controller.end_window({any(), any(), any(), any(), any(), static_cast<std::uint64_t>(number(0)),
                               static_cast<std::uint64_t>(number(0))});
      }
    }
  }
}

}  // namespace
}  // namespace h5feed::test
