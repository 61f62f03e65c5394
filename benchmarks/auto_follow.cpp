// SPDX-License-Identifier: Apache-2.0
// How num_workers = auto follows a consumer that changes its speed by 4 × (its step sleeps, as while a GPU
// computes), and what it costs a training step
// of fixed work on the CPU.
//   auto_follow FILE [SLOW_STEP_MS [TURNS]]     defaults 8 3
// Prints JSON. "turns": for each change of the step, the workers and the share of waiting in the batches 51
// to 150 after it, and the changes of workers in batches 51 to 300. "neighbour": the CPUs that a loader
// capped at one CPU takes beside a step of fixed work, and the median time of the step beside it and alone,
// in turn.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

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
using Seconds = std::chrono::duration<double>;

double seconds_since(Clock::time_point start) { return Seconds(Clock::now() - start).count(); }

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double cpu_seconds(int who) {
  rusage usage{};
  ::getrusage(who, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Does the same amount of work in each call, in the registers.
double fixed_work() {
  volatile double sum = 0;
  double x = 1;
  for (int i = 0; i < 2'000'000; ++i) x = x * 1.0000001 + 1e-9;
  sum = sum + x;
  return sum;
}

h5feed::Batch next_of(h5feed::DataLoader& loader) {
  auto batch = loader.next();
  if (!batch) batch = loader.next();
  return *std::move(batch);
}

h5feed::DataLoaderOptions options() {
  h5feed::DataLoaderOptions options{.batch_size = 64, .shuffle = "chunk:16", .seed = 1};
  options.num_workers = h5feed::kAuto;
  options.cache_bytes = std::uint64_t{64} << 20;
  return options;
}

// Returns the JSON of one turn, which begins with the first batch taken with this step.
std::string turn(h5feed::DataLoader& loader, Seconds step) {
  std::uint64_t workers = 0, changes = 0, wait_before = 0;
  double wait = 0;
  Clock::time_point begin;
  for (int batch = 1; batch <= 300; ++batch) {
    next_of(loader);
    std::this_thread::sleep_for(step);
    const h5feed::LoaderStats stats = loader.stats();
    if (batch == 50) {
      wait_before = stats.wait_ns;
      begin = Clock::now();
    }
    if (batch > 50 && stats.active_workers != workers) ++changes;
    workers = stats.active_workers;
    if (batch == 150) wait = static_cast<double>(stats.wait_ns - wait_before) * 1e-9 / seconds_since(begin);
  }
  return fmt::format("{{\"step_ms\": {:g}, \"workers\": {}, \"wait_share\": {:.3f}, \"changes\": {}}}",
                     step.count() * 1e3, workers, wait, changes);
}

std::string neighbour(const h5feed::Dataset& dataset) {
  std::vector<double> alone, beside;
  h5feed::DataLoaderOptions capped = options();
  capped.cpu_limit = 1;
  double loader_cpu = 0, passed = 0;
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 60; ++i) {
      const Clock::time_point start = Clock::now();
      fixed_work();
      alone.push_back(seconds_since(start));
    }
    h5feed::DataLoader loader(dataset, capped);
    for (int i = 0; i < 50; ++i) {
      next_of(loader);
      fixed_work();
    }
    const double all = cpu_seconds(RUSAGE_SELF), own = cpu_seconds(RUSAGE_THREAD);
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < 60; ++i) {
      next_of(loader);
      const Clock::time_point start = Clock::now();
      fixed_work();
      beside.push_back(seconds_since(start));
    }
    passed += seconds_since(begin);
    loader_cpu += (cpu_seconds(RUSAGE_SELF) - all) - (cpu_seconds(RUSAGE_THREAD) - own);
  }
  return fmt::format(
      "{{\"loader_cpus\": {:.2f}, \"step_alone_ms\": {:.3f}, \"step_beside_ms\": {:.3f}, \"ratio\": {:.3f}}}",
      loader_cpu / passed, median(alone) * 1e3, median(beside) * 1e3, median(beside) / median(alone));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 2) throw std::runtime_error("auto_follow: name an HDF5 file");
    const Seconds slow((argc > 2 ? std::stod(argv[2]) : 8) / 1e3);
    const int turns = argc > 3 ? std::stoi(argv[3]) : 3;
    const auto dataset = h5feed::Dataset::open({.files = {argv[1]}});
    h5feed::DataLoader loader(dataset, options());
    std::vector<std::string> lines;
    for (int i = 0; i < turns; ++i) {
      lines.push_back(turn(loader, slow));
      lines.push_back(turn(loader, slow / 4));
    }
    fmt::print("{{\n  \"turns\": [\n    {}\n  ],\n  \"neighbour\": {}\n}}\n", fmt::join(lines, ",\n    "),
               neighbour(dataset));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
