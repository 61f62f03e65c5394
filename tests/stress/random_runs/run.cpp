// SPDX-License-Identifier: Apache-2.0
#include "stress/random_runs/run.hpp"

#include <fmt/format.h>

#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "h5feed/error.hpp"
#include "stress/random_runs/draw.hpp"
#include "stress/random_runs/oracle.hpp"
#include "stress/random_runs/random_data.hpp"
#include "stress/random_runs/ranks.hpp"
#include "stress/random_runs/training.hpp"
#include "support/loaders/planted_faults.hpp"

namespace h5feed::test {
namespace {

constexpr int kAttempts = 20;  // to draw options that do not exclude each other

// One training on the data, and everything that happens to it.
class Life {
 public:
  Life(std::uint64_t seed, const RandomData& data, const Dataset& dataset, std::filesystem::path folder,
       Story& story)
      : draw_(seed), data_(data), dataset_(dataset), folder_(std::move(folder)), story_(story) {}

  void live() {
    if (!begin()) return;
    for (std::int64_t steps = draw_.number(1, 5); steps > 0; --steps) step();
    if (ranks_) finish();
  }

 private:
  // Draws options until they do not exclude each other; returns false if none were found.
  bool begin() {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      training_ = any_training(draw_, data_);
      try {
        oracle_ = std::make_unique<Oracle>(data_, training_);
        if (make_ranks(std::nullopt)) return true;
      } catch (const OptionError&) {
      }
    }
    story_.add("no options fit");
    return false;
  }

  bool make_ranks(std::optional<std::int64_t> world_size, bool resumes = false) {
    ranks_.reset();
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      Size size = any_size(draw_, data_, training_, folder_, world_size);
      if (resumes) size.options.in_order = true;
      const std::string text = training_.text + "\n  " + size.text;
      try {
        ranks_ =
            std::make_unique<Ranks>(data_, *oracle_, training_, std::move(size), dataset_, draw_, story_);
      } catch (const OptionError&) {
        continue;
      }
      story_.add(text);
      if (!ranks_->size().init_throws || ranks_->size().options.num_workers == 0) return true;
      ranks_->expect_init_failure();
      ranks_.reset();
    }
    return false;
  }

  void step() {
    if (!ranks_ && !make_ranks(std::nullopt)) return;
    if (draw_.one_in(4)) {
      const auto epoch = static_cast<std::uint64_t>(draw_.number(0, 4));
      story_.add(fmt::format("  set_epoch {}", epoch));
      ranks_->set_epoch(epoch);
    }
    if (ranks_->may_iterate() && draw_.one_in(4)) {
      story_.add(fmt::format("  epoch {} by iterators", ranks_->next_epoch()));
      return ranks_->take_by_iterators();
    }
    if (!ranks_->start(draw_)) {
      story_.add(fmt::format("  epoch {} failed to start", ranks_->next_epoch()));
      return ranks_->set_epoch(ranks_->next_epoch() + 1);
    }
    const auto some = static_cast<std::uint64_t>(draw_.number(0, static_cast<std::int64_t>(ranks_->calls())));
    switch (draw_.number(0, 5)) {
      case 0:
        story_.add(fmt::format("  {} of {} batches of epoch {}", some, ranks_->calls(), ranks_->epoch()));
        return ranks_->take(some);
      case 1:
        story_.add(fmt::format("  {} of {} batches, then destroyed", some, ranks_->calls()));
        ranks_->take(some);
        return ranks_.reset();
      case 2:
        return resume(some);
      case 3:
        return rewind(some);
      case 4:
        ranks_->take(some);
        ranks_->set_epoch(static_cast<std::uint64_t>(draw_.number(0, 4)));
        story_.add(fmt::format("  {} batches, set_epoch {}, the rest", some, ranks_->next_epoch()));
        return ranks_->take();
      default:
        story_.add(fmt::format("  epoch {}", ranks_->epoch()));
        return ranks_->take();
    }
  }

  // Ends the training in mid-epoch, and goes on with another size.
  void resume(std::uint64_t some) {
    ranks_->take(some);
    const std::optional<LoaderState> state = ranks_->state();
    if (!state) return ranks_->take();
    const Count delivered = ranks_->delivered(), lost = ranks_->lost();
    std::optional<std::int64_t> world_size;
    if (!training_.may_change_world_size()) world_size = ranks_->size().options.world_size;
    story_.add(fmt::format("  resumed after {} batches of epoch {}", some, ranks_->epoch()));
    if (!make_ranks(world_size, true)) return;
    try {
      ranks_->restore(LoaderState::from_bytes(state->to_bytes()), delivered, lost);
    } catch (const StateError& error) {
      expect(training_.options.drop_last && training_.options.echo.factor > 1, error.what());
      story_.add("  refused: drop_last would drop samples of an unfinished echo");
      return ranks_.reset();
    }
    ranks_->take();
  }

  // Goes back to an earlier position of the epoch.
  void rewind(std::uint64_t some) {
    ranks_->take(some);
    const std::optional<LoaderState> state = ranks_->state();
    const Count delivered = ranks_->delivered(), lost = ranks_->lost();
    ranks_->take(static_cast<std::uint64_t>(draw_.number(0, 5)));
    if (state) {
      story_.add(fmt::format("  back to after {} batches of epoch {}", some, ranks_->epoch()));
      ranks_->restore(*state, delivered, lost);
    }
    ranks_->take();
  }

  void finish() {
    ranks_->check_statistics();
    const std::filesystem::path list = ranks_->size().options.bad_list;
    ranks_.reset();
    if (!std::filesystem::exists(list)) return;
    const std::vector<std::string> lines = listed_chunks(list);  // a chunk once for each rank that met it
    const std::set<std::string> chunks(lines.begin(), lines.end());
    expect(chunks.size() <= data_.bad_chunks(), "the list of bad chunks names more than were planted");
  }

  Draw draw_;
  const RandomData& data_;
  const Dataset& dataset_;
  const std::filesystem::path folder_;
  Story& story_;
  Training training_;
  std::unique_ptr<Oracle> oracle_;
  std::unique_ptr<Ranks> ranks_;
};

}  // namespace

void random_run(std::uint64_t seed, const std::filesystem::path& folder, Story& story) {
  Draw draw(seed);
  const RandomData data(draw, folder);
  story.add(data.text());
  const Dataset dataset = data.damaged();
  const bool two = draw.one_in(4);
  std::exception_ptr error;
  std::thread other;
  std::filesystem::create_directories(folder / "first");
  std::filesystem::create_directories(folder / "second");
  Life first(draw.seed(), data, dataset, folder / "first", story);
  Life second(draw.seed(), data, dataset, folder / "second", story);
  if (two) {
    other = std::thread([&] {
      try {
        second.live();
      } catch (...) {
        error = std::current_exception();
      }
    });
  }
  try {
    first.live();
  } catch (...) {
    if (two) other.join();
    throw;
  }
  if (two) other.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace h5feed::test
