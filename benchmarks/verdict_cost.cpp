// SPDX-License-Identifier: Apache-2.0
// What the measurements behind the verdict cost: CPU time per batch with and without them, in alternating
// epochs of one loader.
//   verdict_cost FILE [ROUNDS]     default 60
// FILE holds a dataset "images" of small images:
//   h5feed generate small.h5 --samples 8192 --shape 3,32,32 --chunk 64 --filter gzip:4
// The linker replaces the clock and `WaitLedger::charge` by functions of this program (`--wrap`). In the
// epochs without measurements the clock stands still and nothing is charged; what is left of them there is
// adding zeros to counters. Prints JSON: for each kind of loader the median CPU time of a batch without
// measurements, in µs, and what they add to it, in µs and in percent: the median and the middle half of all
// pairs of epochs, which follow each other directly; on a busy machine these differ by more than is added.
// "counted_us" does not: the number of clock reads and of charges per batch, times what each costs in a loop.
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

#include "base/clock.hpp"
#include "flow/measure/counters.hpp"
#include "flow/measure/wait_ledger.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/log.hpp"

namespace {

using Ledger = h5feed::WaitLedger;

std::atomic<bool> measures = true;
std::atomic<std::uint64_t> charges = 0, clock_reads = 0;

}  // namespace

// Mangled names, as the linker knows them: std::chrono::steady_clock::now(), whose result is in nanoseconds,
// and WaitLedger::charge.
extern "C" {
std::int64_t __real__ZNSt6chrono3_V212steady_clock3nowEv();
void __real__ZN6h5feed10WaitLedger6chargeEmml(Ledger*, std::uint64_t, std::uint64_t, std::int64_t);

std::int64_t __wrap__ZNSt6chrono3_V212steady_clock3nowEv() {
  clock_reads.fetch_add(1, std::memory_order_relaxed);
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

// Returns the CPU time of one call of `work`, in µs: the least of several loops.
template <typename Work>
double call_us(const Work& work) {
  constexpr int kCalls = 100'000;
  double least = 1e9;
  for (int loop = 0; loop < 20; ++loop) {
    const double begin = cpu_us();
    for (int call = 0; call < kCalls; ++call) work();
    least = std::min(least, (cpu_us() - begin) / kCalls);
  }
  return least;
}

struct Costs {
  h5feed::Counters counters = {};
  Ledger ledger = Ledger(counters);
  double clock_us = call_us([] { __real__ZNSt6chrono3_V212steady_clock3nowEv(); });
  double charge_us = call_us([this] {
    counters.decode_ns += 100;
    __real__ZN6h5feed10WaitLedger6chargeEmml(&ledger, 100, h5feed::now_ns(), 2);
  });
};

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

std::string row(const std::string& file, const Kind& kind, int rounds, const Costs& costs) {
  h5feed::DataLoaderOptions options{.batch_size = kind.batch_size, .num_workers = kind.num_workers};
  options.cache_bytes = kind.cached ? 256'000'000 : 2'000'000;
  options.preload = kind.cached;
  h5feed::DataLoader loader(h5feed::Dataset::open({.files = {file}, .data = "images"}), options);
  const int epochs = kind.cached ? 10 : 1;
  const std::uint64_t charged = charges, read = clock_reads;
  epochs_us(loader, true, epochs);
  const auto batches = static_cast<double>(loader.size()) * epochs;
  const double reads = static_cast<double>(clock_reads - read) / batches;
  const double counted_us =
      reads * costs.clock_us + static_cast<double>(charges - charged) / batches * costs.charge_us;
  std::vector<double> with, without, added;
  for (int round = 0; round < rounds; ++round) {
    for (const bool measured : {round % 2 == 0, round % 2 != 0})
      (measured ? with : without).push_back(epochs_us(loader, measured, epochs));
    added.push_back(with.back() - without.back());
  }
  std::ranges::sort(added);
  const auto quartile = [&](std::size_t number) { return added[number * (added.size() - 1) / 4]; };
  const double batch_us = median(without);
  return fmt::format(
      "    {{\"batch_size\": {}, \"num_workers\": {}, \"cached\": {}, \"batch_us\": {:.4g}, \"added_us\": "
      "{:.2f}, "
      "\"added_us_middle_half\": [{:.2f}, {:.2f}], \"added_percent\": {:.2f}, \"clock_reads\": {:.2f}, "
      "\"counted_us\": {:.3f}, \"counted_percent\": {:.2f}}}",
      kind.batch_size, kind.num_workers, kind.cached, batch_us, quartile(2), quartile(1), quartile(3),
      100 * quartile(2) / batch_us, reads, counted_us, 100 * counted_us / batch_us);
}

int run(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: verdict_cost FILE [ROUNDS]\n", stderr);
    return 2;
  }
  h5feed::set_log_sink([](h5feed::LogLevel, std::string_view) {});
  const int rounds = std::max(1, argc > 2 ? std::atoi(argv[2]) : 60);
  const Costs costs;
  charges = 0;
  std::vector<std::string> rows;
  for (const std::int64_t batch_size : {16, 64, 256}) {
    for (const bool cached : {true, false}) {
      for (const std::int64_t workers : {0, 2})
        rows.push_back(row(argv[1], {batch_size, workers, cached}, rounds, costs));
    }
  }
  if (charges == 0)
    throw std::runtime_error("WaitLedger::charge was not replaced: its caller is in one object with it");
  fmt::print(
      "{{\n  \"rounds\": {}, \"clock_us\": {:.4f}, \"charge_us\": {:.4f},\n  \"kinds\": [\n{}\n  ]\n}}\n",
      rounds, costs.clock_us, costs.charge_us, fmt::join(rows, ",\n"));
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
