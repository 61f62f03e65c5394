// SPDX-License-Identifier: Apache-2.0
// Measures whether a training loop stalls when it switches loaders: training, validation, training again, on
// the shared cache of one dataset, with a consumer that takes a fixed time per step.
//   epoch_gaps FILE [NUM_WORKERS [STEP_MS [ROUNDS]]]     defaults 2 20 5
// Meant for e.g.
//   h5feed generate FILE --samples 4000 --shape 3,64,64 --chunk 20 --filter gzip:4
// The validation loader is warmed up some batches before its turn. Prints JSON: every wait for the first
// batch of an epoch, and the median and the largest of all other waits, in milliseconds.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "h5feed/data_loader.hpp"

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kWarmUpBatches = 4;  // batches before the end of training

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

struct Waits {
  std::vector<double> first;  // wait for the first batch of each epoch
  std::vector<double> other;
};

// Runs one epoch; the consumer works, here sleeps, for `step` per batch.
void run_epoch(h5feed::DataLoader& loader, std::chrono::milliseconds step, Waits& waits,
               h5feed::DataLoader* warm_up) {
  loader.start_epoch();
  for (std::size_t number = 0;; ++number) {
    const Clock::time_point start = Clock::now();
    if (!loader.next()) return;
    (number == 0 ? waits.first : waits.other).push_back(ms_since(start));
    if (warm_up != nullptr && number + kWarmUpBatches == loader.size()) warm_up->warm_up();
    std::this_thread::sleep_for(step);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int position, int otherwise) {
    return argc > position ? std::stoi(argv[position]) : otherwise;
  };
  try {
    if (argc < 2) throw std::runtime_error("epoch_gaps: name an HDF5 file with images");
    const int num_workers = number(2, 2);
    const std::chrono::milliseconds step(number(3, 20));
    const auto parts = h5feed::Dataset::open({.files = {argv[1]}}).split({0.8, 0.2}, 1);
    h5feed::DataLoader training(
        parts[0], {.batch_size = 64, .shuffle = "chunk:16", .seed = 1, .num_workers = num_workers});
    h5feed::DataLoader validation(parts[1], {.batch_size = 64, .seed = 1, .num_workers = num_workers});
    Waits training_waits;
    Waits validation_waits;
    for (int round = 0; round < number(4, 5); ++round) {
      run_epoch(training, step, training_waits, &validation);
      run_epoch(validation, step, validation_waits, nullptr);
    }
    std::vector<double> other = training_waits.other;
    other.insert(other.end(), validation_waits.other.begin(), validation_waits.other.end());
    std::ranges::sort(other);
    fmt::print(
        "{{\"num_workers\": {}, \"step_ms\": {}, \"training_first_wait_ms\": [{:.3f}], "
        "\"validation_first_wait_ms\": [{:.3f}], \"median_other_wait_ms\": {:.3f}, "
        "\"largest_other_wait_ms\": {:.3f}}}\n",
        num_workers, step.count(), fmt::join(training_waits.first, ", "),
        fmt::join(validation_waits.first, ", "), other[other.size() / 2], other.back());
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
