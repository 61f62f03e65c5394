// SPDX-License-Identifier: Apache-2.0
// How long next() takes when the loader is ahead of its consumer, whose step sleeps, as while a GPU computes;
// and what it costs that one chunk in 200 takes 10 × as long to read as the others.
//   next_latency FILE [STEP_MS [DELAY_MS [RUNS]]]     defaults 10 2 3
// Prints JSON. "ahead": the file itself. "slow_chunk": every read takes DELAY_MS longer, without and with
// slow chunks, in turn; "long_waits" are calls that take more than half of what a slow chunk takes longer,
// and "longer_than_extra" those that take all of it. The first 20 calls of each loader do not count.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"
#include "store/format/byte_source.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int kUncounted = 20;
constexpr std::uint64_t kOneIn = 200, kTimes = 10;

// Reads another source after a delay, which is `kTimes` as long for one in `kOneIn` offsets if `uneven`. The
// offsets are numbered as they are read for the first time. Thread-safe.
class UnevenSource final : public h5feed::ByteSource {
 public:
  UnevenSource(std::shared_ptr<const h5feed::ByteSource> source, Seconds delay, bool uneven)
      : source_(std::move(source)), delay_(delay), uneven_(uneven) {}

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    const bool slow = uneven_ && number_of(offset) % kOneIn == kOneIn / 2;
    if (slow) ++slow_reads_;
    std::this_thread::sleep_for(slow ? kTimes * delay_ : delay_);
    source_->read(offset, out);
  }
  std::uint64_t size() const noexcept override { return source_->size(); }

  std::uint64_t slow_reads() const noexcept { return slow_reads_; }

 private:
  std::uint64_t number_of(std::uint64_t offset) const {
    const h5feed::MutexLock lock(mutex_);
    return numbers_.emplace(offset, numbers_.size()).first->second;
  }

  const std::shared_ptr<const h5feed::ByteSource> source_;
  const Seconds delay_;
  const bool uneven_;
  mutable std::atomic<std::uint64_t> slow_reads_ = 0;
  mutable h5feed::Mutex mutex_;
  mutable std::map<std::uint64_t, std::uint64_t> numbers_ H5FEED_GUARDED_BY(mutex_);
};

struct Calls {
  std::vector<double> seconds;
  std::uint64_t slow_reads = 0;

  double quantile(double share) {
    std::ranges::sort(seconds);
    return seconds[static_cast<std::size_t>(share * static_cast<double>(seconds.size() - 1))];
  }
  std::string to_json() {
    return fmt::format(
        "\"calls\": {}, \"p50_us\": {:.1f}, \"p90_us\": {:.1f}, \"p99_us\": {:.1f}, \"max_us\": {:.1f}",
        seconds.size(), quantile(0.5) * 1e6, quantile(0.9) * 1e6, quantile(0.99) * 1e6, quantile(1) * 1e6);
  }
  std::ptrdiff_t longer_than(Seconds limit) const {
    return std::ranges::count_if(seconds, [&](double each) { return each > limit.count(); });
  }
};

// Appends the times of the calls of one epoch, but for the first.
void take_epoch(const h5feed::Dataset& dataset, std::int64_t num_workers,
                std::optional<std::int64_t> prefetch_factor, Seconds step, Calls& calls) {
  h5feed::DataLoader loader(dataset, {.batch_size = 64,
                                      .shuffle = "chunk:16",
                                      .seed = 1,
                                      .num_workers = num_workers,
                                      .prefetch_factor = prefetch_factor,
                                      .cache_bytes = std::uint64_t{64} << 20});
  for (int call = 0;; ++call) {
    const Clock::time_point start = Clock::now();
    const auto batch = loader.next();
    const double seconds = Seconds(Clock::now() - start).count();
    if (!batch) return;
    if (call >= kUncounted) calls.seconds.push_back(seconds);
    std::this_thread::sleep_for(step);
  }
}

void take_slow_epoch(const std::string& file, bool uneven, Seconds delay, std::int64_t num_workers,
                     std::int64_t prefetch_factor, Seconds step, Calls& calls) {
  std::shared_ptr<const UnevenSource> source;
  const auto dataset = h5feed::DatasetAccess::open({.files = {file}}, [&](auto of_file) {
    return source = std::make_shared<const UnevenSource>(std::move(of_file), delay, uneven);
  });
  take_epoch(dataset, num_workers, prefetch_factor, step, calls);
  calls.slow_reads += source->slow_reads();
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int position, double otherwise) {
    return argc > position ? std::stod(argv[position]) : otherwise;
  };
  try {
    if (argc < 2) throw std::runtime_error("next_latency: name an HDF5 file with images");
    const std::string file = argv[1];
    const Seconds step(number(2, 10) / 1e3), delay(number(3, 2) / 1e3);
    const int runs = static_cast<int>(number(4, 3));
    const auto dataset = h5feed::Dataset::open({.files = {file}});
    std::vector<std::string> ahead, slow;
    for (const std::int64_t num_workers : {std::int64_t{2}, h5feed::kAuto}) {
      Calls calls;
      for (int run = 0; run < runs; ++run) take_epoch(dataset, num_workers, std::nullopt, step, calls);
      if (calls.seconds.empty())
        throw std::runtime_error(fmt::format(
            "next_latency: {} has too few samples; use more than {} batches of 64", file, kUncounted));
      const std::string workers = num_workers == h5feed::kAuto ? "\"auto\"" : std::to_string(num_workers);
      ahead.push_back(fmt::format("{{\"num_workers\": {}, {}}}", workers, calls.to_json()));
    }
    const Seconds extra = (kTimes - 1) * delay;
    for (const auto& [num_workers, prefetch_factor] :
         {std::pair<std::int64_t, std::int64_t>(1, 1), {2, 1}, {2, 2}}) {
      Calls usual, uneven;
      for (int run = 0; run < runs; ++run) {
        take_slow_epoch(file, false, delay, num_workers, prefetch_factor, step, usual);
        take_slow_epoch(file, true, delay, num_workers, prefetch_factor, step, uneven);
      }
      for (Calls* const calls : {&usual, &uneven}) {
        slow.push_back(fmt::format(
            "{{\"num_workers\": {}, \"prefetch_factor\": {}, \"slow_reads\": {}, {}, \"long_waits\": {}, "
            "\"longer_than_extra\": {}}}",
            num_workers, prefetch_factor, calls->slow_reads, calls->to_json(), calls->longer_than(extra / 2),
            calls->longer_than(extra)));
      }
    }
    fmt::print(
        "{{\n  \"step_ms\": {:g}, \"delay_ms\": {:g}, \"extra_ms\": {:g},\n  \"ahead\": [\n    {}\n  ],\n"
        "  \"slow_chunk\": [\n    {}\n  ]\n}}\n",
        step.count() * 1e3, delay.count() * 1e3, extra.count() * 1e3, fmt::join(ahead, ",\n    "),
        fmt::join(slow, ",\n    "));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
