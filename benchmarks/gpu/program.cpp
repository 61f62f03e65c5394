// SPDX-License-Identifier: Apache-2.0
// Command line of the GPU benchmarks.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <exception>
#include <optional>
#include <string_view>

#include "base/system_limits.hpp"
#include "gpu/bench.hpp"

namespace h5feed::bench {
namespace {

struct Arguments {
  std::vector<std::string> only;
  std::string out;
  std::string folder = std::filesystem::temp_directory_path().string();
  int workers = static_cast<int>(system_limits().cpus);
  int device = 0;
  Bench::Files files = Bench::Files::removed;
  bool tiny = false;
  bool list = false;
};

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    parts.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// Returns nullopt after printing what is wrong.
std::optional<Arguments> parse(const std::vector<std::string>& words) {
  Arguments arguments;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--tiny") {
      arguments.tiny = true;
      continue;
    }
    if (word == "--keep") {
      arguments.files = Bench::Files::kept;
      continue;
    }
    if (word == "--list") {
      arguments.list = true;
      continue;
    }
    const std::string value = i + 1 < words.size() ? words[++i] : "";
    const std::optional<int> count = number(value);
    if (word == "--only" && !value.empty()) {
      arguments.only = split(value);
    } else if (word == "--out" && !value.empty()) {
      arguments.out = value;
    } else if (word == "--folder" && !value.empty()) {
      arguments.folder = value;
    } else if (word == "--workers" && count && *count > 0) {
      arguments.workers = *count;
    } else if (word == "--device" && count) {
      arguments.device = *count;
    } else {
      fmt::print(stderr,
                 "{} {}: known are --list --only NAME[,NAME] --out FILE --folder DIR --keep --workers N "
                 "--device N --tiny\n",
                 word, value);
      return std::nullopt;
    }
  }
  return arguments;
}

void print_row(const Row& row) {
  if (!row.not_run.empty()) {
    fmt::print("{:<28} not run: {}\n", row.name, row.not_run);
  } else {
    fmt::print("{:<28} {:>14.6g} {:<12} ceiling {:>14.6g}  ratio {:.4f}\n", row.name, row.value(), row.unit,
               row.ceiling(), row.ratio());
  }
  std::fflush(stdout);
}

bool asked_for(const Benchmark& benchmark, const std::vector<std::string>& only) {
  return only.empty() || std::ranges::any_of(benchmark.names, [&](const std::string& name) {
           return std::ranges::find(only, name) != only.end();
         });
}

std::vector<Row> failures(const Benchmark& benchmark, const std::string& why) {
  std::vector<Row> rows;
  for (const std::string& name : benchmark.names) rows.push_back({.name = name, .not_run = why});
  return rows;
}

}  // namespace

int run_benchmarks(const std::vector<std::string>& words, const std::vector<Benchmark>& benchmarks) {
  const std::optional<Arguments> arguments = parse(words);
  if (!arguments) return 2;
  if (arguments->list) {
    for (const Benchmark& benchmark : benchmarks) {
      fmt::print("{}\n", fmt::join(benchmark.names, ","));
    }
    return 0;
  }
  for (const std::string& name : arguments->only) {
    if (std::ranges::none_of(benchmarks, [&](const Benchmark& b) { return asked_for(b, {name}); })) {
      fmt::print(stderr, "--only {}: there is no such benchmark here; see --list\n", name);
      return 2;
    }
  }
  bool failed = false;
  try {
    Bench bench(arguments->tiny ? Sizes::tiny() : Sizes(), arguments->folder, arguments->workers,
                arguments->device, arguments->files);
    ResultFile results(arguments->out);
    for (const Benchmark& benchmark : benchmarks) {
      if (!asked_for(benchmark, arguments->only)) continue;
      const Seconds clock;
      std::vector<Row> rows;
      try {
        rows = benchmark.run(bench);
      } catch (const std::exception& error) {
        rows = failures(benchmark, error.what());
        failed = true;
      }
      for (const Row& row : rows) {
        print_row(row);
        results.add(row);
      }
      fmt::print("{:<28} took {:.1f} s\n", "", clock.elapsed());
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return failed ? 1 : 0;
}

}  // namespace h5feed::bench
