// SPDX-License-Identifier: Apache-2.0
// Measures how much of its speed the loader keeps when every read of the file takes longer: the same epochs,
// in turn, over the file itself and over a source that delays each read.
//   slow_storage FILE [DELAY_MS [NUM_WORKERS [RUNS]]]     defaults 5 2 5
// Prints JSON: samples/s of every repetition, and the ratio of the medians.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "benchmarks/delayed_source.hpp"
#include "h5feed/data_loader.hpp"

namespace {

using Clock = std::chrono::steady_clock;

double samples_per_s(const std::string& file, std::chrono::milliseconds delay, std::int64_t num_workers) {
  const auto dataset = h5feed::benchmarks::open_delayed({.files = {file}}, delay);
  h5feed::DataLoader loader(dataset, {.batch_size = 256,
                                      .shuffle = "chunk:16",
                                      .num_workers = num_workers,
                                      .cache_bytes = std::uint64_t{128} << 20});
  const Clock::time_point start = Clock::now();
  std::int64_t samples = 0;
  while (const auto batch = loader.next()) samples += batch->size();
  return static_cast<double>(samples) / std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int position, int otherwise) {
    return argc > position ? std::stoi(argv[position]) : otherwise;
  };
  try {
    if (argc < 2) throw std::runtime_error("slow_storage: name an HDF5 file with images");
    const std::chrono::milliseconds delay(number(2, 5));
    const int num_workers = number(3, 2);
    std::vector<double> undelayed, delayed;
    for (int run = 0; run < number(4, 5); ++run) {
      undelayed.push_back(samples_per_s(argv[1], std::chrono::milliseconds(0), num_workers));
      delayed.push_back(samples_per_s(argv[1], delay, num_workers));
    }
    fmt::print(
        "{{\"delay_ms\": {}, \"num_workers\": {}, \"undelayed_samples_per_s\": [{:.0f}], "
        "\"delayed_samples_per_s\": [{:.0f}], \"ratio_of_medians\": {:.3f}}}\n",
        delay.count(), num_workers, fmt::join(undelayed, ", "), fmt::join(delayed, ", "),
        median(delayed) / median(undelayed));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
