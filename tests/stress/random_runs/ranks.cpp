// SPDX-License-Identifier: Apache-2.0
#include "stress/random_runs/ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "h5feed/error.hpp"

namespace h5feed::test {
namespace {

// Reads everything that may be read from another thread, until it is destroyed.
class Watcher {
 public:
  explicit Watcher(const DataLoader& loader)
      : thread_([this, &loader] {
          do {
            watch(loader);
          } while (!stop_);
        }) {}
  ~Watcher() {
    stop_ = true;
    thread_.join();
  }

 private:
  static void watch(const DataLoader& loader) {
    const LoaderStats stats = loader.stats();
    static_cast<void>(stats.wait_fraction());
    static_cast<void>(loader.report());
    if (const auto verdict = loader.verdict()) static_cast<void>(verdict->to_json());
    static_cast<void>(loader.plan());
    static_cast<void>(loader.options().num_workers + static_cast<std::int64_t>(loader.size()));
  }

  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace

Rank::Rank(const Oracle& oracle, const Training& training, const Dataset& dataset,
           const DataLoaderOptions& options, std::uint64_t seed, Story& story)
    : oracle_(oracle),
      training_(training),
      in_order_(options.in_order),
      story_(story),
      draw_(seed),
      loader_(dataset, options) {}

void Rank::expect_calls(std::vector<Due> due) {
  due_.assign(std::make_move_iterator(due.begin()), std::make_move_iterator(due.end()));
  delivered.clear();
  lost.clear();
  last_.reset();
  at_end_ = false;
}

bool Rank::any_throws() const {
  return std::ranges::any_of(due_, [](const Due& each) { return each.throws(); });
}

void Rank::take(std::uint64_t calls) {
  for (; calls > 0 && !at_end_; --calls) {
    take_one();
    story_.go_on();
  }
}

void Rank::take_one() {
  while (true) {
    try {
      if (draw_.one_in(6)) loader_.wait_ready(std::chrono::milliseconds(draw_.number(0, 2)));
      auto batch = loader_.next();
      if (batch) return accept(*std::move(batch));
      expect(due_.empty(), "the epoch ended too early");
      at_end_ = true;
      return;
    } catch (const TimeoutError&) {
      continue;  // the batch is not lost
    } catch (const Planted&) {
      return accept_failure(true);
    } catch (const ChunkError& error) {
      expect(std::ranges::any_of(due_, [](const Due& each) { return each.throws_bad; }), error.what());
      return accept_failure(false);
    }
  }
}

void Rank::take_by_iterators() {
  for (Batch& batch : loader_) {
    accept(std::move(batch));
    story_.go_on();
  }
  expect(due_.empty(), "the iterators ended too early");
  at_end_ = true;
}

void Rank::accept(Batch batch) {
  auto found = due_.begin();
  if (!in_order_) {
    found = std::ranges::find_if(due_, [&](const Due& each) {
      return !each.throws() && each.number == batch.number && each.repeat == batch.repeat;
    });
    const bool follows = batch.repeat == 0 || (last_ && *last_ == std::pair(batch.number, batch.repeat - 1));
    expect(follows, "a repeat does not follow its batch");
    last_ = {batch.number, batch.repeat};
  }
  expect(found != due_.end(), fmt::format("batch {} repeat {} is not due", batch.number, batch.repeat));
  expect(!found->throws(),
         name_of_batch(batch) + " should have thrown " +
             (found->throws_bad ? "because of bad data" : "what a function of the user throws") + ": " +
             name_of_due(*found));
  oracle_.check(batch, *found);
  for (const std::int64_t sample : batch.indices) ++delivered[{sample, batch.repeat}];
  ++batches_;
  samples_ += batch.indices.size();
  const Due due = *found;
  due_.erase(found);
  keep(std::move(batch), due);
}

void Rank::accept_failure(bool planted) {
  const auto failed = in_order_ ? due_.begin() : std::ranges::find_if(due_, [&](const Due& each) {
    return planted ? each.throws_planted : each.throws_bad;
  });
  expect(failed != due_.end() && (planted ? failed->throws_planted : failed->throws_bad),
         fmt::format("an exception {} was not due", planted ? "of the user" : "for bad data"));
  const bool skips = training_.options.on_error != OnError::fail;
  for (const std::int64_t sample : skips ? failed->indices : failed->planned) {
    for (std::int64_t repeat = failed->repeat; repeat < training_.options.echo.factor; ++repeat)
      ++lost[{sample, repeat}];
  }
  ++failures_;
  due_.erase(failed);
}

// Batches own their memory: some are kept for a while, and compared again.
void Rank::keep(Batch batch, const Due& due) {
  if (draw_.one_in(4)) kept_.emplace_back(std::move(batch), due);
  if (kept_.size() <= 3) return;
  oracle_.check(kept_.front().first, kept_.front().second);
  kept_.pop_front();
}

void Rank::check_statistics() {
  const LoaderStats stats = loader_.stats();
  expect(stats.batches == batches_ && stats.samples == samples_ && stats.errors == failures_,
         fmt::format("statistics count {} batches, {} samples, {} errors; there were {}, {}, {}",
                     stats.batches, stats.samples, stats.errors, batches_, samples_, failures_));
}

Ranks::Ranks(const RandomData& data, Oracle& oracle, const Training& training, Size size,
             const Dataset& dataset, Draw& draw, Story& story)
    : data_(data), oracle_(oracle), training_(training), size_(std::move(size)) {
  for (std::int64_t rank = 0; rank < size_.options.world_size; ++rank)
    ranks_.push_back(std::make_unique<Rank>(oracle, training, dataset, options_of(training, size_, rank),
                                            draw.seed(), story));
}

void Ranks::set_epoch(std::uint64_t epoch) {
  for (const auto& rank : ranks_) rank->loader().set_epoch(epoch);
  next_epoch_ = epoch;
}

bool Ranks::start(Draw& draw) {
  if (training_.failing_epoch == next_epoch_) {
    for (const auto& rank : ranks_) {
      try {
        rank->loader().start_epoch();
      } catch (const Planted&) {
        continue;
      }
      throw Mismatch("the exception of the sampler did not arrive");
    }
    return false;
  }
  epoch_ = next_epoch_++;
  delivered_before_.clear();
  lost_before_.clear();
  expect_calls({});
  for (const auto& rank : ranks_) {
    if (draw.one_in(4)) rank->loader().warm_up();
    rank->loader().start_epoch();
  }
  return true;
}

void Ranks::restore(const LoaderState& state, Count delivered, Count lost) {
  for (const auto& rank : ranks_) rank->loader().restore(state);
  epoch_ = state.epoch;
  next_epoch_ = epoch_ + 1;
  delivered_before_ = std::move(delivered);
  lost_before_ = std::move(lost);
  expect_calls(state);
}

void Ranks::expect_calls(const std::optional<LoaderState>& from) {
  oracle_.prepare(epoch_);
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    std::vector<Due> due = oracle_.due(size_, static_cast<std::int64_t>(rank), epoch_, from);
    calls_ = due.size();
    ranks_[rank]->expect_calls(std::move(due));
  }
}

void Ranks::on_all(const std::function<void(Rank&)>& work) {
  std::optional<Watcher> watcher;
  if (size_.watched) watcher.emplace(std::as_const(ranks_.front()->loader()));
  if (!size_.rank_threads || ranks_.size() == 1) {
    for (const auto& rank : ranks_) work(*rank);
    return;
  }
  std::vector<std::exception_ptr> errors(ranks_.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        work(*ranks_[i]);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

void Ranks::take(std::uint64_t calls) {
  on_all([calls](Rank& rank) { rank.take(calls); });
  check_if_ended();
}

void Ranks::take_by_iterators() {
  epoch_ = next_epoch_++;
  delivered_before_.clear();
  lost_before_.clear();
  expect_calls({});
  on_all([](Rank& rank) { rank.take_by_iterators(); });
  check_if_ended();
}

void Ranks::expect_init_failure() {
  for (const auto& rank : ranks_) {
    for (int calls = 0; calls < 3;) {
      try {
        rank->loader().next();
      } catch (const TimeoutError&) {
        continue;
      } catch (const Planted&) {
        ++calls;
        continue;
      }
      throw Mismatch("the exception of worker_init_fn did not arrive");
    }
  }
}

void Ranks::check_if_ended() {
  if (!std::ranges::all_of(ranks_, [](const auto& rank) { return rank->at_end(); })) return;
  oracle_.check_epoch(size_, epoch_, delivered(), lost());
}

bool Ranks::may_iterate() const {
  return training_.failing_epoch != next_epoch_ && !training_.failing_samples && !training_.failing_batches &&
         !data_.has_bad() && !size_.options.timeout;
}

std::optional<LoaderState> Ranks::state() const {
  if (!size_.options.in_order) return std::nullopt;
  const bool throws_repeated = training_.options.echo.factor > 1 &&
                               (training_.failing_samples || training_.failing_batches || data_.has_bad());
  if (throws_repeated) return std::nullopt;  // a batch that fails is not repeated, on its rank alone
  const LoaderState state = ranks_.front()->loader().state();
  for (const auto& rank : ranks_) {
    if (!rank->has_due()) return std::nullopt;
    expect(rank->loader().state() == state, "ranks are at different positions");
  }
  return state;
}

Count Ranks::sum(Count total, Count Rank::*part) const {
  for (const auto& rank : ranks_) {
    for (const auto& [key, times] : (*rank).*part) total[key] += times;
  }
  return total;
}

void Ranks::check_statistics() {
  for (const auto& rank : ranks_) rank->check_statistics();
}

}  // namespace h5feed::test
