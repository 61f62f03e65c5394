// SPDX-License-Identifier: Apache-2.0
// Compares num_workers = auto with the best cell of a sweep of num_workers and prefetch_factor. The cells are
// measured in turn; then the best one, and auto, in turn. Each gets a new loader, takes 50 batches uncounted,
// and then as many as fit into its time, over all epochs.
//   auto_sweep FILE [NAME=VALUE …]
// delay_ms=0      each read of the file takes this much longer
// consumer_ms=0   the consumer computes this long on each batch, on its CPU
// batch_size=64   shuffle=chunk:16   cache_mib=64   size=0 (images are scaled to)   data= row_reads=automatic
// seconds=1 per cell and round   rounds=3   pairs=10   workers=1,2,4,8   prefetch=1,2,4,8
// Prints JSON: medians of samples/s and of the CPUs in use for each cell; auto's share of the best cell, as
// the median over the pairs; what auto chose.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "benchmarks/delayed_source.hpp"
#include "h5feed/data_loader.hpp"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kUncounted = 50;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

class Settings {
 public:
  Settings(int argc, char** argv) {
    for (int i = 2; i < argc; ++i) {
      const std::string text = argv[i];
      const std::size_t equals = text.find('=');
      if (equals == std::string::npos || !values_.contains(text.substr(0, equals)))
        throw std::runtime_error("auto_sweep: unknown setting " + text);
      values_[text.substr(0, equals)] = text.substr(equals + 1);
    }
  }
  const std::string& text(const std::string& name) const { return values_.at(name); }
  double number(const std::string& name) const { return std::stod(text(name)); }
  // A number of repetitions.
  std::int64_t count(const std::string& name) const {
    const std::int64_t count = std::stoll(text(name));
    if (count < 1) throw std::runtime_error(fmt::format("auto_sweep: {}={}; use at least 1", name, count));
    return count;
  }
  std::vector<std::int64_t> list(const std::string& name) const {
    std::vector<std::int64_t> numbers;
    std::istringstream in(text(name));
    for (std::string part; std::getline(in, part, ',');) numbers.push_back(std::stoll(part));
    if (numbers.empty()) throw std::runtime_error("auto_sweep: " + name + " names no number");
    return numbers;
  }

 private:
  std::map<std::string, std::string> values_ = {
      {"delay_ms", "0"},      {"consumer_ms", "0"}, {"batch_size", "64"}, {"shuffle", "chunk:16"},
      {"cache_mib", "64"},    {"size", "0"},        {"data", ""},         {"row_reads", "automatic"},
      {"seconds", "1"},       {"rounds", "3"},      {"pairs", "10"},      {"workers", "1,2,4,8"},
      {"prefetch", "1,2,4,8"}};
};

struct Cell {
  std::int64_t num_workers = 0;
  std::optional<std::int64_t> prefetch_factor = {};
  std::vector<double> rates = {};
  std::vector<double> cpus = {};
  std::string summary = {};

  std::string name() const {
    if (num_workers == h5feed::kAuto) return "auto";
    return prefetch_factor ? fmt::format("{}x{}", num_workers, *prefetch_factor)
                           : fmt::format("{}", num_workers);
  }
};

// A training step on the CPU.
void compute_for(std::chrono::duration<double> time) {
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(time);
  while (Clock::now() < end) {
  }
}

void measure(const h5feed::Dataset& dataset, const Settings& settings, Cell& cell) {
  h5feed::DataLoaderOptions options{.batch_size = static_cast<std::int64_t>(settings.number("batch_size")),
                                    .shuffle = settings.text("shuffle"),
                                    .seed = 1};
  options.num_workers = cell.num_workers;
  options.prefetch_factor = cell.prefetch_factor;
  options.cache_bytes = static_cast<std::uint64_t>(settings.number("cache_mib")) << 20;
  if (settings.text("row_reads") == "never") options.row_reads = h5feed::RowReads::never;
  const std::chrono::duration<double> step(settings.number("consumer_ms") / 1e3);
  h5feed::DataLoader loader(dataset, options);
  std::int64_t samples = 0;
  const auto take = [&] {
    auto batch = loader.next();
    if (!batch) batch = loader.next();
    samples += batch->size();
    compute_for(step);
  };
  for (int i = 0; i < kUncounted; ++i) take();
  samples = 0;
  const double cpu_before = cpu_seconds();
  const Clock::time_point start = Clock::now();
  while (seconds_since(start) < settings.number("seconds")) take();
  const double passed = seconds_since(start);
  cell.rates.push_back(static_cast<double>(samples) / passed);
  cell.cpus.push_back((cpu_seconds() - cpu_before) / passed);
  if (cell.num_workers == h5feed::kAuto) {
    const std::string report = loader.report();
    const std::size_t line = report.find("num_workers = auto");
    cell.summary = report.substr(line, report.find('\n', line) - line);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 2) throw std::runtime_error("auto_sweep: name an HDF5 file");
    const Settings settings(argc, argv);
    const std::int64_t rounds = settings.count("rounds"), pairs = settings.count("pairs");
    const auto size = static_cast<std::int64_t>(settings.number("size"));
    const auto dataset = h5feed::benchmarks::open_delayed(
        {.files = {argv[1]}, .data = settings.text("data"), .images = {.height = size, .width = size}},
        std::chrono::milliseconds(static_cast<int>(settings.number("delay_ms"))));
    std::vector<Cell> cells;
    for (const std::int64_t workers : settings.list("workers")) {
      if (workers == 0) {
        cells.push_back({.num_workers = 0});
        continue;
      }
      for (const std::int64_t prefetch : settings.list("prefetch"))
        cells.push_back({.num_workers = workers, .prefetch_factor = prefetch});
    }
    for (std::int64_t round = 0; round < rounds; ++round) {
      for (Cell& cell : cells) measure(dataset, settings, cell);
    }
    // The best of many cells owes its rank partly to luck: it is measured anew, in turn with auto.
    const auto rate = [](const Cell& cell) { return median(cell.rates); };
    const Cell& winner = *std::ranges::max_element(cells, {}, rate);
    Cell best{.num_workers = winner.num_workers, .prefetch_factor = winner.prefetch_factor};
    Cell self{.num_workers = h5feed::kAuto};
    std::vector<double> shares;
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      measure(dataset, settings, best);
      measure(dataset, settings, self);
      shares.push_back(self.rates.back() / best.rates.back());
    }
    std::vector<std::string> texts;
    const auto text = [&](const Cell& cell) {
      return fmt::format("\"{}\": [{:.0f}, {:.2f}]", cell.name(), rate(cell), median(cell.cpus));
    };
    for (const Cell& cell : cells) texts.push_back(text(cell));
    fmt::print(
        "{{\n  \"sweep\": {{\n    {}\n  }},\n  \"pairs\": {{{}, {}}},\n  \"auto_of_best\": {:.3f}, "
        "\"of_each_pair\": "
        "[{:.3f}],\n  \"chosen\": \"{}\"\n}}\n",
        fmt::join(texts, ",\n    "), text(best), text(self), median(shares), fmt::join(shares, ", "),
        self.summary);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
