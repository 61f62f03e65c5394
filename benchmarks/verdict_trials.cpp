// SPDX-License-Identifier: Apache-2.0
// How often the verdict names the slow stage: trials with random options, each with one stage made slow in
// turn.
//   verdict_trials PLAIN COMPRESSED [TRIALS]     default 200
// Both files hold a dataset "images" of a few hundred images, PLAIN without a filter:
//   h5feed generate plain.h5 --samples 256 --shape 3,64,64 --chunk 8 --filter none
//   h5feed generate compressed.h5 --samples 256 --shape 3,64,64 --chunk 8 --filter gzip:6
// consumer: each step sleeps 8 ms. read: each read of the file takes 2 ms longer. decode: COMPRESSED, whose
// decoding takes longer than all else. gather: decoded data in the cache, cropped, scaled up and normalized
// on the CPU. transform: 0.5 ms for each sample. Prints JSON: for each stage the trials and how many named
// it, and the lines of the others.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "benchmarks/delayed_source.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/log.hpp"

namespace {

using Cause = h5feed::Verdict::Cause;

constexpr std::array kSlow = {Cause::consumer, Cause::read, Cause::decode, Cause::gather, Cause::transform};

class Trials {
 public:
  Trials(std::filesystem::path plain, std::filesystem::path compressed)
      : plain_(std::move(plain)), compressed_(std::move(compressed)) {}

  // Runs one epoch and returns its verdict.
  h5feed::Verdict run(Cause slow) {
    const bool coin = random_() % 2 == 0;
    const bool decodes = slow == Cause::decode || (slow == Cause::read && coin);
    const h5feed::DatasetOptions files{.files = {decodes ? compressed_ : plain_}, .data = "images"};
    const std::chrono::milliseconds delay(slow == Cause::read ? 2 : 0);
    h5feed::DataLoader loader(h5feed::benchmarks::open_delayed(files, delay), options(slow));
    while (loader.next()) {
      if (slow == Cause::consumer) std::this_thread::sleep_for(std::chrono::milliseconds(8));
    }
    return *loader.verdict();
  }

 private:
  template <typename T, std::size_t N>
  T any(const std::array<T, N>& values) {
    return values[random_() % N];
  }

  h5feed::DataLoaderOptions options(Cause slow) {
    h5feed::DataLoaderOptions options;
    options.batch_size = any(std::array<std::int64_t, 3>{8, 16, 20});
    options.num_workers = any(std::array<std::int64_t, 5>{0, 1, 2, 4, h5feed::kAuto});
    options.shuffle = any(std::array<const char*, 3>{"sequential", "full", "chunk:4"});
    options.cache_bytes = any(std::array<std::uint64_t, 2>{400'000, 800'000});
    options.row_reads = h5feed::RowReads::never;
    if (slow == Cause::gather) {
      options.preload = true;
      options.cache_bytes = 16'000'000;
      options.normalize = h5feed::Normalize{};
      options.augment = h5feed::Augment{.random_resized_crop =
                                            h5feed::Augment::RandomResizedCrop{.height = 128, .width = 128}};
    }
    if (slow == Cause::transform) {
      options.transform = [](const h5feed::SampleView&, const h5feed::SampleKey&) {
        std::this_thread::sleep_for(std::chrono::microseconds(500));
      };
    }
    return options;
  }

  const std::filesystem::path plain_;
  const std::filesystem::path compressed_;
  std::mt19937 random_{7};
};

int run(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: verdict_trials PLAIN COMPRESSED [TRIALS]\n", stderr);
    return 2;
  }
  h5feed::set_log_sink([](h5feed::LogLevel, std::string_view) {});
  const int trials = argc > 3 ? std::atoi(argv[3]) : 200;
  std::map<Cause, int> run_of, named;
  std::vector<std::string> others;
  Trials all(argv[1], argv[2]);
  for (int trial = 0; trial < trials; ++trial) {
    const Cause slow = kSlow[static_cast<std::size_t>(trial) % kSlow.size()];
    const h5feed::Verdict verdict = all.run(slow);
    ++run_of[slow];
    if (verdict.bottleneck == slow) {
      ++named[slow];
    } else {
      others.push_back(
          fmt::format("    {{\"slow\": \"{}\", \"verdict\": {}}}", name_of(slow), verdict.to_json()));
    }
  }
  std::vector<std::string> rows;
  int right = 0;
  for (const Cause slow : kSlow) {
    right += named[slow];
    rows.push_back(fmt::format("    {{\"slow\": \"{}\", \"trials\": {}, \"named\": {}}}", name_of(slow),
                               run_of[slow], named[slow]));
  }
  fmt::print("{{\n  \"trials\": {}, \"named\": {},\n  \"stages\": [\n{}\n  ],\n  \"others\": [{}{}]\n}}\n",
             trials, right, fmt::join(rows, ",\n"), others.empty() ? "" : "\n", fmt::join(others, ",\n"));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "verdict_trials: %s\n", error.what());
    return 1;
  }
}
