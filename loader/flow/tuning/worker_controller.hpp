// SPDX-License-Identifier: Apache-2.0
// The law of `num_workers = kAuto`: from measurements to the number of workers.
#pragma once

#include <cstdint>

namespace h5feed {

/// Decides how many workers are active, how many batches are prefetched and how many reads run ahead, from
/// measurements of delivered batches alone: it has no clock and no threads. Not thread-safe.
///
/// A window is 8 delivered batches, the first one 4. At its end, with c the consumer's time per batch and b
/// the workers' time per batch (over about 32 batches, because it is uneven), b / c workers keep up.
///
/// - It grows at once to what keeps up with a reserve, if the consumer waits or the queue runs empty; never
///   above the CPU limit, in which the time that reads wait for storage does not count. Workers in excess of
///   the CPUs stay only if more bytes are read with them.
/// - If it waits for storage, as many batches are prefetched as may be, so that there are chunks to read
/// ahead.
/// - If the consumer waits although the workers should keep up, it prefetches more, then adds a worker. It
///   also prefetches more if the consumer waits and no worker may be added.
/// - It shrinks after two windows in which the queue was filled and fewer workers would do with a larger
///   reserve than the one for growing. If it has to grow again soon after, it waits longer and longer before
///   it shrinks another time, unless the consumer has become much slower.
class WorkerController {
 public:
  /// Bounds of the choice. All counts are at least 1, except that `reads` may be 0.
  struct Bounds {
    std::int64_t workers = 1;         ///< Most workers
    double cpu_limit = 1;             ///< CPUs that the loader's threads may use, above 0
    std::uint64_t batches = 2;        ///< Most prefetched batches
    std::uint64_t per_worker = 1024;  ///< Most prefetched batches per worker
    bool fill = false;                ///< Always prefetch as many batches as the bounds allow
    std::int64_t reads = 2;           ///< Most reads ahead of decoding
  };

  /// Settings that the controller has chosen.
  struct Choice {
    std::int64_t workers = 1;
    std::uint64_t batches = 2;  ///< Batches prefetched
    std::int64_t reads = 2;     ///< Reads ahead of decoding, at once

    bool operator==(const Choice&) const = default;
  };

  /// Limit that the number of workers has met.
  enum class Reason : std::uint8_t {
    start,     ///< Nothing was measured yet
    consumer,  ///< They keep up with the consumer
    cpus,      ///< The CPU limit
    reads,     ///< More of them did not read more bytes per second
    most       ///< `Bounds::workers`
  };

  /// One delivered batch. Times in ns.
  struct Delivery {
    double consumer_ns = 0;   ///< Consumer's time since the batch before
    double wait_ns = 0;       ///< Time that the consumer then waited for input
    bool counts = true;       ///< False if the two times say nothing, as between epochs
    std::uint64_t ready = 0;  ///< Further batches that were ready then
  };

  /// Work of all threads of the loader since the last window. Times in ns.
  struct Work {
    double wall_ns = 0;          ///< Time that passed
    double busy_ns = 0;          ///< Time that workers spent on tasks, waits for storage included
    double cpu_ns = 0;           ///< CPU time
    double storage_wait_ns = 0;  ///< Time that reads of workers waited for storage
    double fetch_wait_ns = 0;    ///< Time that reads ahead of decoding waited for storage
    std::uint64_t batches = 0;   ///< Batches that workers completed
    std::uint64_t bytes = 0;     ///< Bytes read
  };

  explicit WorkerController(const Bounds& bounds);

  /// Adds a delivered batch. Returns true if it ends the window: call `end_window` then.
  bool add(const Delivery& delivery);

  /// Ends the window and adapts the choice. Returns whether the choice has changed.
  bool end_window(const Work& work);

  const Choice& choice() const noexcept { return choice_; }
  Reason reason() const noexcept { return reason_; }
  /// Returns the consumer's time per batch in the last window, in ns.
  double consumer_ns() const noexcept { return consumer_ns_; }
  /// Returns the workers' time per batch, in ns, over about 32 batches.
  double worker_ns() const noexcept;
  /// Returns the share of the last window that the consumer waited, 0 … 1.
  double wait_share() const noexcept { return wait_share_; }

 private:
  // Sums over about 32 batches: older windows count less.
  struct Recent {
    double busy_ns = 0, cpu_ns = 0, storage_wait_ns = 0, fetch_wait_ns = 0, batches = 0;
  };
  // The window that is being filled.
  struct Window {
    std::uint64_t batches = 0, counted = 0, ready = 0;
    double consumer_ns = 0, wait_ns = 0;
  };
  // Workers in excess of the CPUs, while it is checked whether more bytes are read with them.
  struct Trial {
    unsigned windows = 0;  // left; 0: no trial
    std::int64_t before = 0;
    double bytes_per_ns = 0;        // before
    double bytes = 0, wall_ns = 0;  // since
  };

  void remember(const Work& work);
  std::int64_t most_by_cpus() const;
  void judge_trial(const Work& work);
  void grow(std::int64_t wanted, const Work& work, bool waits);
  void shrink(std::int64_t wanted);
  void set_workers(std::int64_t count);
  void choose_reads(bool waits);

  const Bounds bounds_;
  const std::int64_t cpus_;  // whole CPUs of the limit, at least 1
  Choice choice_;
  Reason reason_ = Reason::start;
  std::uint64_t per_worker_;  // prefetched batches per worker
  Recent recent_;
  Window window_;
  Trial trial_;
  std::uint64_t window_batches_;
  double consumer_ns_ = 0;
  double interval_ns_ = 0;  // time per batch, waits included
  double wait_share_ = 0;
  bool reads_wait_ = false;       // the consumer waits, and so do reads for storage
  double needed_ = 0;             // workers that keep up, without reserve
  unsigned over_limit_ = 0;       // windows in a row above the CPU limit
  unsigned idle_windows_ = 0;     // windows in a row in which fewer workers would do
  std::int64_t idle_wanted_ = 0;  // the most workers that one of them needed
  unsigned pause_ = 0;            // windows until it may shrink again
  unsigned next_pause_;           // the pause after the next shrinking in vain
  unsigned since_shrinking_;      // windows
  double needed_at_growth_ = 0;
  std::int64_t reads_ceiling_ = 0;  // most workers after a trial in vain; 0: none
  unsigned ceiling_windows_ = 0;    // windows until another trial
  unsigned next_ceiling_;
};

}  // namespace h5feed
