// SPDX-License-Identifier: Apache-2.0
// The ranks of one random training, whose every delivery is compared with what is due.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "stress/random_runs/draw.hpp"
#include "stress/random_runs/oracle.hpp"
#include "stress/random_runs/story.hpp"
#include "stress/random_runs/training.hpp"

namespace h5feed::test {

/// One loader. For one thread at a time.
class Rank {
 public:
  /// Throws what the constructor of the loader throws.
  Rank(const Oracle& oracle, const Training& training, const Dataset& dataset,
       const DataLoaderOptions& options, std::uint64_t seed, Story& story);

  DataLoader& loader() noexcept { return loader_; }
  /// The calls that follow must do this, and then end the epoch.
  void expect_calls(std::vector<Due> due);
  /// Makes up to `calls` calls of `next()`, until the epoch ends. Throws Mismatch.
  void take(std::uint64_t calls);
  /// Takes the rest of the epoch with the iterators of the loader, which start a new epoch. Throws Mismatch.
  void take_by_iterators();
  bool at_end() const noexcept { return at_end_; }
  bool has_due() const noexcept { return !due_.empty(); }
  bool any_throws() const;
  /// Throws Mismatch unless the loader counted what it delivered.
  void check_statistics();

  /// Deliveries, and what failed, since the last `expect_calls`.
  Count delivered, lost;

 private:
  void take_one();
  void accept(Batch batch);
  void accept_failure(bool planted);
  void keep(Batch batch, const Due& due);

  const Oracle& oracle_;
  const Training& training_;
  const bool in_order_;
  Story& story_;
  Draw draw_;
  DataLoader loader_;
  std::deque<Due> due_;
  std::optional<std::pair<std::uint64_t, std::int64_t>> last_;  // number and repeat, if unordered
  std::deque<std::pair<Batch, Due>> kept_;
  bool at_end_ = true;
  std::uint64_t batches_ = 0, samples_ = 0, failures_ = 0;
};

/// All ranks of a training that run at the same time.
class Ranks {
 public:
  /// Throws OptionError if the options exclude each other. Borrows all but `size`.
  Ranks(const RandomData& data, Oracle& oracle, const Training& training, Size size, const Dataset& dataset,
        Draw& draw, Story& story);

  const Size& size() const noexcept { return size_; }
  /// Selects the epoch that starts next.
  void set_epoch(std::uint64_t epoch);
  /// Starts the selected epoch, and abandons a running one. Returns false if a planted exception prevents it.
  bool start(Draw& draw);
  /// Goes on from a saved position; `delivered` and `lost` are those of the epoch before it.
  void restore(const LoaderState& state, Count delivered, Count lost);
  /// Takes up to `calls` batches on every rank; by default the rest of the epoch, which it then checks.
  void take(std::uint64_t calls = UINT64_MAX);
  /// Takes a whole epoch with iterators.
  void take_by_iterators();
  /// Throws Mismatch unless every call throws what `worker_init_fn` threw.
  void expect_init_failure();
  /// Returns the position, if all ranks are at the same one within an epoch.
  std::optional<LoaderState> state() const;
  std::uint64_t epoch() const noexcept { return epoch_; }
  std::uint64_t next_epoch() const noexcept { return next_epoch_; }
  /// Batches that a rank has in the running epoch.
  std::uint64_t calls() const noexcept { return calls_; }
  bool may_iterate() const;
  void check_statistics();

  /// Returns what all ranks delivered or lost of the running epoch.
  Count delivered() const { return sum(delivered_before_, &Rank::delivered); }
  Count lost() const { return sum(lost_before_, &Rank::lost); }

 private:
  void expect_calls(const std::optional<LoaderState>& from);
  void on_all(const std::function<void(Rank&)>& work);
  void check_if_ended();
  Count sum(Count total, Count Rank::*part) const;

  const RandomData& data_;
  Oracle& oracle_;
  const Training& training_;
  const Size size_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::uint64_t epoch_ = 0, next_epoch_ = 0, calls_ = 0;
  Count delivered_before_, lost_before_;
};

}  // namespace h5feed::test
