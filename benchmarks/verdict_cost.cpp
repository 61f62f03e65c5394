// SPDX-License-Identifier: Apache-2.0
// What the measurements behind the verdict cost: CPU time per batch with and without them, in alternating
// epochs of one loader.
//   verdict_cost FILE [ROUNDS]     default 60
// FILE holds a dataset "images" of small images:
//   h5feed generate small.h5 --samples 8192 --shape 3,32,32 --chunk 64 --filter gzip:4
// The linker replaces the clock and `WaitLedger::charge` by functions of this program (`--wrap`). In the
// epochs without measurements the clock stands still and nothing is charged; what is left of them there is
// adding zeros to counters. Prints JSON: for each kind of loader the CPU time of a batch without
// measurements, in µs, and what they add to it, in µs and in percent: by the least of all epochs ("least"),
// which other programs on the machine disturb least, and by the medians over pairs of epochs ("median").
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "flow/measure/wait_ledger.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/log.hpp"

namespace {

using Ledger = h5feed::WaitLedger;

std::atomic<bool> measures = true;
std::atomic<std::uint64_t> charges = 0;

}  // namespace

// Mangled names, as the linker knows them: std::chrono::steady_clock::now(), whose result is in nanoseconds,
// and WaitLedger::charge.
extern "C" {
std::int64_t __real__ZNSt6chrono3_V212steady_clock3nowEv();
void __real__ZN6h5feed10WaitLedger6chargeEmml(Ledger*, std::uint64_t, std::uint64_t, std::int64_t);

std::int64_t __wrap__ZNSt6chrono3_V212steady_clock3nowEv() {
  if (measures.load(std::memory_order_relaxed)) return __real__ZNSt6chrono3_V212steady_clock3nowEv();
  return 3'600'000'000'000;
}

void __wrap__ZN6h5feed10WaitLedger6chargeEmml(Ledger* ledger, std::uint64_t wait_ns, std::uint64_t now_ns,
                                              std::int64_t workers) {
  charges.fetch_add(1, std::memory_order_relaxed);
  if (measures.load(std::memory_order_relaxed))
    __real__ZN6h5feed10WaitLedger6chargeEmml(ledger, wait_ns, now_ns, workers);
}
}

namespace {

double cpu_us() {
  timespec time = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Returns the CPU time per batch of several epochs, in µs.
double epochs_us(h5feed::DataLoader& loader, bool with_measurements, int epochs) {
  measures = with_measurements;
  const double begin = cpu_us();
  std::uint64_t batches = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    while (loader.next()) ++batches;
  }
  const double end = cpu_us();
  measures = true;
  return (end - begin) / static_cast<double>(batches);
}

struct Kind {
  std::int64_t batch_size;
  std::int64_t num_workers;
  bool cached;
};

std::string row(const std::string& file, const Kind& kind, int rounds) {
  h5feed::DataLoaderOptions options{.batch_size = kind.batch_size, .num_workers = kind.num_workers};
  options.cache_bytes = kind.cached ? 256'000'000 : 2'000'000;
  options.preload = kind.cached;
  h5feed::DataLoader loader(h5feed::Dataset::open({.files = {file}, .data = "images"}), options);
  const int epochs = kind.cached ? 10 : 1;
  epochs_us(loader, true, epochs);
  std::vector<double> with, without, added;
  for (int round = 0; round < rounds; ++round) {
    for (const bool measured : {round % 2 == 0, round % 2 != 0})
      (measured ? with : without).push_back(epochs_us(loader, measured, epochs));
    added.push_back(with.back() - without.back());
  }
  const auto text = [](double batch_us, double added_us) {
    return fmt::format("{{\"batch_us\": {:.4g}, \"added_us\": {:.2f}, \"added_percent\": {:.2f}}}", batch_us,
                       added_us, 100 * added_us / batch_us);
  };
  const double least = std::ranges::min(without);
  return fmt::format(
      "    {{\"batch_size\": {}, \"num_workers\": {}, \"cached\": {}, \"least\": {}, \"median\": {}}}",
      kind.batch_size, kind.num_workers, kind.cached, text(least, std::ranges::min(with) - least),
      text(median(without), median(added)));
}

int run(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: verdict_cost FILE [ROUNDS]\n", stderr);
    return 2;
  }
  h5feed::set_log_sink([](h5feed::LogLevel, std::string_view) {});
  const int rounds = std::max(1, argc > 2 ? std::atoi(argv[2]) : 60);
  std::vector<std::string> rows;
  for (const std::int64_t batch_size : {16, 64, 256}) {
    for (const bool cached : {true, false}) {
      for (const std::int64_t workers : {0, 2})
        rows.push_back(row(argv[1], {batch_size, workers, cached}, rounds));
    }
  }
  if (charges == 0)
    throw std::runtime_error("WaitLedger::charge was not replaced: its caller is in one object with it");
  fmt::print("{{\n  \"rounds\": {},\n  \"kinds\": [\n{}\n  ]\n}}\n", rounds, fmt::join(rows, ",\n"));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "verdict_cost: %s\n", error.what());
    return 1;
  }
}
