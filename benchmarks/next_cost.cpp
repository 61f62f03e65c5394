// SPDX-License-Identifier: Apache-2.0
// What next() costs the training thread when its batch is ready: the C++ side of python_cost.py.
//   next_cost FILE WORK_MS CALLS
// Before each call the thread works for WORK_MS by adding numbers of a block of 16 MiB, which leaves nothing
// of h5feed in its caches if the time suffices to go through the block. Prints the median in µs.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "h5feed/data_loader.hpp"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kUncounted = 20;

// Adds numbers for a time; part by part, so that it ends on time.
class Work {
 public:
  std::uint64_t run(std::chrono::duration<double> duration) {
    constexpr std::size_t kPart = 4096;
    std::uint64_t sum = 0;
    const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(duration);
    while (Clock::now() < end) {
      for (std::size_t i = 0; i < kPart; ++i) sum += numbers_[next_ + i];
      next_ = (next_ + kPart) % numbers_.size();
    }
    return sum;
  }

 private:
  std::vector<std::uint64_t> numbers_ = std::vector<std::uint64_t>(std::size_t{2} << 20, 1);
  std::size_t next_ = 0;
};

double median_us(const std::string& file, std::chrono::duration<double> work, std::size_t calls) {
  h5feed::DataLoader loader(h5feed::Dataset::open({.files = {file}}),
                            {.batch_size = 64,
                             .shuffle = "chunk:16",
                             .seed = 1,
                             .num_workers = 1,
                             .cache_bytes = std::uint64_t{64} << 20});
  Work consumer;
  std::vector<double> times;
  std::uint64_t sum = 0;
  while (times.size() < kUncounted + calls) {
    sum += consumer.run(work);
    const Clock::time_point start = Clock::now();
    const auto batch = loader.next();
    if (batch) times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  if (sum == 0) throw std::runtime_error("next_cost: the work was not done");
  times.erase(times.begin(), times.begin() + kUncounted);
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 4) throw std::runtime_error("next_cost: usage: next_cost FILE WORK_MS CALLS");
    const std::chrono::duration<double> work(std::stod(argv[2]) / 1e3);
    fmt::print("{:.2f}\n", median_us(argv[1], work, std::stoul(argv[3])));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
