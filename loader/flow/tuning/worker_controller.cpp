// SPDX-License-Identifier: Apache-2.0
#include "flow/tuning/worker_controller.hpp"

#include <algorithm>
#include <cmath>

#include "flow/measure/ratio.hpp"

namespace h5feed {
namespace {

constexpr std::uint64_t kFirstWindow = 4;
constexpr std::uint64_t kWindow = 8;
constexpr double kMemory = 32;  // batches over which the workers' time per batch is averaged

// The consumer counts as waiting above this share of its time, and above the time of a wait per batch that is
// only the cost of a lock.
constexpr double kWaits = 0.03;
constexpr double kLockNs = 5'000;
// Reserves over b / c. The gap between the two is what keeps a steady load from oscillating.
constexpr double kGrowReserve = 1.15;
constexpr double kShrinkReserve = 1.35;
constexpr unsigned kIdleWindows = 2;
constexpr double kFitsCpus = 0.05;      // part of a CPU by which the limit may be exceeded when it is rounded
constexpr double kOverLimit = 1.03;     // CPU use, as a multiple of the limit, that is lowered
constexpr double kStorageShare = 0.05;  // waits for storage per time that matter for reads ahead

constexpr unsigned kSoon = 64;  // windows
constexpr unsigned kFirstPause = 8;
constexpr unsigned kLongestPause = 1024;
constexpr double kMuchSlower = 0.6;

constexpr unsigned kTrialWindows = 3;
constexpr double kPaysOff = 1.05;
constexpr unsigned kFirstCeiling = 64;

constexpr std::int64_t kFirstWorkers = 4;
constexpr std::uint64_t kFirstPerWorker = 4;  // batches
constexpr std::uint64_t kMostPerWorker = 8;

std::int64_t whole(double value) noexcept { return static_cast<std::int64_t>(std::min(value, 1e6)); }

}  // namespace

WorkerController::WorkerController(const Bounds& bounds)
    : bounds_(bounds),
      cpus_(std::max<std::int64_t>(1, whole(bounds.cpu_limit))),
      per_worker_(std::min(kFirstPerWorker, bounds.per_worker)),
      window_batches_(kFirstWindow),
      next_pause_(kFirstPause),
      since_shrinking_(kSoon),
      next_ceiling_(kFirstCeiling) {
  set_workers(std::min({kFirstWorkers, cpus_, bounds_.workers}));
  choice_.reads = std::min(bounds_.reads, 2 * choice_.workers);
}

double WorkerController::worker_ns() const noexcept { return real_ratio(recent_.busy_ns, recent_.batches); }

bool WorkerController::add(const Delivery& delivery) {
  ++window_.batches;
  window_.ready += delivery.ready;
  if (delivery.counts) {
    ++window_.counted;
    window_.consumer_ns += delivery.consumer_ns;
    window_.wait_ns += delivery.wait_ns;
  }
  return window_.batches >= window_batches_;
}

void WorkerController::remember(const Work& work) {
  const double keep = std::max(0.0, 1 - static_cast<double>(window_.batches) / kMemory);
  recent_.busy_ns = keep * recent_.busy_ns + work.busy_ns;
  recent_.cpu_ns = keep * recent_.cpu_ns + work.cpu_ns;
  recent_.storage_wait_ns = keep * recent_.storage_wait_ns + work.storage_wait_ns;
  recent_.fetch_wait_ns = keep * recent_.fetch_wait_ns + work.fetch_wait_ns;
  recent_.batches = keep * recent_.batches + static_cast<double>(work.batches);
}

// Returns how many workers use the CPU limit, if they wait for storage as much as they did.
std::int64_t WorkerController::most_by_cpus() const {
  const double waiting = real_ratio(recent_.storage_wait_ns, recent_.cpu_ns);
  const std::int64_t fit = whole(bounds_.cpu_limit * (1 + waiting) + kFitsCpus);
  return std::clamp<std::int64_t>(fit, 1, bounds_.workers);
}

void WorkerController::set_workers(std::int64_t count) {
  choice_.workers = count;
  const std::uint64_t wanted =
      bounds_.fill || reads_wait_ ? bounds_.batches : static_cast<std::uint64_t>(count) * per_worker_;
  const std::uint64_t most =
      std::min(bounds_.batches, static_cast<std::uint64_t>(count) * bounds_.per_worker);
  choice_.batches = std::clamp<std::uint64_t>(wanted, std::min<std::uint64_t>(2, most), most);
}

bool WorkerController::end_window(const Work& work) {
  remember(work);
  const Window window = window_;
  window_ = {};
  window_batches_ = kWindow;
  if (window.counted == 0 || recent_.batches <= 0) return false;
  const Choice before = choice_;
  consumer_ns_ = std::max(1.0, window.consumer_ns / static_cast<double>(window.counted));
  wait_share_ = real_ratio(window.wait_ns, window.wait_ns + window.consumer_ns);
  needed_ = worker_ns() / consumer_ns_;
  pause_ -= std::min(pause_, 1U);
  ceiling_windows_ -= std::min(ceiling_windows_, 1U);
  if (ceiling_windows_ == 0) reads_ceiling_ = 0;
  ++since_shrinking_;

  const auto counted = static_cast<double>(window.counted);
  interval_ns_ = std::max(1.0, (window.consumer_ns + window.wait_ns) / counted);
  const bool waits = wait_share_ > kWaits && window.wait_ns > kLockNs * counted;
  const double mean_ready = static_cast<double>(window.ready) / static_cast<double>(window.batches);
  const bool runs_empty = mean_ready < static_cast<double>(before.batches - 1) / 2;
  over_limit_ = work.cpu_ns > kOverLimit * bounds_.cpu_limit * work.wall_ns ? over_limit_ + 1 : 0;
  if (over_limit_ >= kIdleWindows) {
    const double fitting = bounds_.cpu_limit * work.wall_ns / work.cpu_ns;
    if (choice_.workers == 1)
      choice_.reads = std::min(choice_.reads, std::max<std::int64_t>(1, choice_.reads / 2));
    set_workers(std::max<std::int64_t>(1, whole(static_cast<double>(choice_.workers) * fitting)));
    reason_ = Reason::cpus;
    trial_ = {};
  } else if (waits || (runs_empty && needed_ > static_cast<double>(choice_.workers))) {
    idle_windows_ = 0;
    judge_trial(work);
    if (over_limit_ == 0) grow(whole(std::ceil(needed_ * kGrowReserve)), work, waits);
  } else {
    trial_ = {};
    shrink(std::max<std::int64_t>(1, whole(std::ceil(needed_ * kShrinkReserve))));
  }
  return choice_ != before;
}

// Ends a trial whose windows are over: without a gain, the workers before it return.
void WorkerController::judge_trial(const Work& work) {
  if (trial_.windows == 0) return;
  trial_.bytes += static_cast<double>(work.bytes);
  trial_.wall_ns += work.wall_ns;
  if (--trial_.windows > 0) return;
  if (real_ratio(trial_.bytes, trial_.wall_ns) >= kPaysOff * trial_.bytes_per_ns) return;
  set_workers(trial_.before);
  reads_ceiling_ = trial_.before;
  ceiling_windows_ = next_ceiling_;
  next_ceiling_ = std::min(2 * next_ceiling_, kLongestPause);
}

void WorkerController::grow(std::int64_t wanted, const Work& work, bool waits) {
  const std::int64_t by_cpus = most_by_cpus();
  const std::int64_t most = reads_ceiling_ > 0 ? std::min(by_cpus, reads_ceiling_) : by_cpus;
  const std::int64_t now = choice_.workers;
  // Far more workers than the waits for storage explain: these have passed, e.g. because the data is cached.
  if (now * 3 > by_cpus * 4) {
    set_workers(by_cpus);
  } else if (trial_.windows == 0) {
    std::int64_t next = std::min(wanted, most);
    if (next <= now && waits) {
      // They should keep up and do not: the work is uneven, or waits for something else. Or no worker may be
      // added: with more batches in preparation, more of them copy from a chunk while the CPU caches hold it.
      const std::uint64_t most_batches = std::min(kMostPerWorker, bounds_.per_worker);
      if (per_worker_ < most_batches && choice_.batches < bounds_.batches) {
        per_worker_ = std::min(2 * per_worker_, most_batches);
        next = now;
      } else if (wanted <= now) {
        next = std::min(now + 1, most);
      }
    }
    next = std::max(next, now);
    if (next > std::max(now, cpus_)) {
      trial_ = {.windows = kTrialWindows,
                .before = std::max(now, std::min(cpus_, next)),
                .bytes_per_ns = real_ratio(static_cast<double>(work.bytes), work.wall_ns)};
    }
    if (next > now) {
      if (since_shrinking_ < kSoon) {
        pause_ = next_pause_;
        next_pause_ = std::min(2 * next_pause_, kLongestPause);
      }
      since_shrinking_ = kSoon;
      needed_at_growth_ = needed_;
    }
    set_workers(next);
  }
  choose_reads(waits);
  const std::int64_t chosen = choice_.workers;
  reason_ = wanted <= chosen            ? Reason::consumer
            : chosen == bounds_.workers ? Reason::most
            : chosen == reads_ceiling_  ? Reason::reads
                                        : Reason::cpus;
}

void WorkerController::shrink(std::int64_t wanted) {
  reason_ = Reason::consumer;
  if (wanted >= choice_.workers) {
    idle_windows_ = 0;
    return;
  }
  idle_wanted_ = idle_windows_ == 0 ? wanted : std::max(idle_wanted_, wanted);
  if (++idle_windows_ < kIdleWindows) return;
  const bool much_slower = needed_ < kMuchSlower * needed_at_growth_;
  if (pause_ > 0 && !much_slower) return;
  if (much_slower) next_pause_ = kFirstPause;
  set_workers(idle_wanted_);
  idle_windows_ = 0;
  since_shrinking_ = 0;
  reads_wait_ = false;
  choose_reads(false);
}

// Little's law: reads that wait for storage at once = their time per batch / the consumer's time per batch.
void WorkerController::choose_reads(bool waits) {
  const std::int64_t usual = std::min(bounds_.reads, 2 * choice_.workers);
  const double per_batch = real_ratio(recent_.fetch_wait_ns + recent_.storage_wait_ns, recent_.batches);
  reads_wait_ = (waits || reads_wait_) && per_batch >= kStorageShare * interval_ns_;
  set_workers(choice_.workers);
  if (per_batch < kStorageShare * interval_ns_) {
    choice_.reads = usual;
    return;
  }
  const std::int64_t wanted = whole(std::ceil(per_batch / consumer_ns_ * 1.5));
  const std::int64_t least = waits ? std::max(usual, choice_.reads) : usual;
  choice_.reads = std::clamp(wanted, std::min(least, bounds_.reads), bounds_.reads);
}

}  // namespace h5feed
