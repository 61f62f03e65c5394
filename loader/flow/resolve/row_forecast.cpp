// SPDX-License-Identifier: Apache-2.0
#include "flow/resolve/row_forecast.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <queue>
#include <span>
#include <string>
#include <vector>

#include "base/interrupt.hpp"
#include "plan/epoch_plan.hpp"

namespace h5feed {
namespace {

constexpr std::uint64_t kRows = 20'000;
constexpr std::uint64_t kFewestRows = 1'250;
constexpr std::uint64_t kMinChunks = 16;
// Bound of the rows that a simulation looks at, which takes some 50 ns for each. Batches much smaller
// than chunks that the cache cannot hold would look at all rows of a chunk for every row that is served.
constexpr std::uint64_t kMostSteps = 1'250'000;
constexpr std::uint64_t kShrink = 4;
// The first epoch fills the cache, the next two are measured (an epoch with few decodes leaves a worse cache
// behind), and the last provides due times only.
constexpr std::uint64_t kEpochs = 4;

std::uint64_t scaled(std::uint64_t value, double scale) noexcept {
  return std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(std::llround(static_cast<double>(value) * scale)));
}

// Returns the plan of the dataset, scaled down to about `rows`.
PlanSpec scale_down(const RowForecastSpec& spec, std::uint64_t rows) {
  PlanSpec plan;
  plan.rows_per_chunk = std::min({spec.rows_per_chunk, rows / kMinChunks, spec.num_samples});
  const std::uint64_t chunks = (spec.num_samples - 1) / spec.rows_per_chunk + 1;
  const std::uint64_t simulated_chunks = std::min(chunks, rows / plan.rows_per_chunk);
  plan.num_samples = std::min(spec.num_samples, simulated_chunks * plan.rows_per_chunk);
  plan.batch_size =
      scaled(spec.batch_size, static_cast<double>(plan.num_samples) / static_cast<double>(spec.num_samples));
  plan.shuffle = spec.shuffle;
  if (spec.shuffle.kind() == Shuffle::Kind::chunk) {
    const double chunk_scale = static_cast<double>(simulated_chunks) / static_cast<double>(chunks);
    plan.shuffle = Shuffle("chunk:" + std::to_string(scaled(spec.shuffle.window_chunks(), chunk_scale)));
  }
  return plan;
}

// The row cache, keyed by turns that count through all epochs.
class Simulation {
 public:
  // Looks at no more than `most_steps` rows.
  Simulation(const PlanSpec& spec, std::uint64_t capacity_rows, bool whole_rows, std::uint64_t most_steps)
      : spec_(spec),
        capacity_rows_(capacity_rows),
        whole_rows_(whole_rows),
        steps_left_(most_steps),
        due_(spec.num_samples),
        held_(kEpochs * spec.num_samples) {
    for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      const EpochPlan plan(spec, epoch);
      turns_[epoch].resize(spec.num_samples);
      for (std::uint64_t number = 0; number < plan.num_batches(); ++number) {
        std::uint64_t turn = epoch * spec.num_samples + number * spec.batch_size;
        for (const std::int64_t sample : plan.batch(number)) {
          order_.push_back(static_cast<std::uint64_t>(sample));
          turns_[epoch][order_.back()] = turn++;
        }
      }
    }
    due_ = turns_[0];
  }

  // Returns the decodes of an epoch; nullopt if it would look at too many rows. Call once per epoch, in
  // order, as long as there are results.
  std::optional<std::uint64_t> run(std::uint64_t epoch) {
    std::uint64_t decodes = 0;
    const auto first = order_.begin() + static_cast<std::ptrdiff_t>(epoch * spec_.num_samples);
    for (std::uint64_t begin = 0; begin < spec_.num_samples; begin += spec_.batch_size) {
      check_interrupt();
      const std::uint64_t end = std::min(begin + spec_.batch_size, spec_.num_samples);
      std::vector<std::uint64_t> batch(first + static_cast<std::ptrdiff_t>(begin),
                                       first + static_cast<std::ptrdiff_t>(end));
      std::ranges::sort(batch);
      for (auto at = batch.begin(); at != batch.end();) {
        const std::uint64_t chunk = *at / spec_.rows_per_chunk;
        const auto visit_end =
            std::find_if(at, batch.end(), [&](std::uint64_t s) { return s / spec_.rows_per_chunk != chunk; });
        if (!visit({at, visit_end}, epoch)) {
          if (!is_at_hand(chunk)) ++decodes;
          last_decoded_ = chunk;
          if (!keep_chunk(chunk)) return std::nullopt;
        }
        at = visit_end;
      }
    }
    return decodes;
  }

 private:
  // Beside the rows, the chunk decoded last is held. In sequential order the next batch needs it, if it has
  // whole samples; other orders rarely do, and more rarely the more chunks there are, which scaling down
  // changes.
  bool is_at_hand(std::uint64_t chunk) const {
    return whole_rows_ && spec_.shuffle.kind() == Shuffle::Kind::sequential && last_decoded_ == chunk;
  }

  // Serves samples of one chunk. Returns false if one of them was not held.
  bool visit(std::span<const std::uint64_t> samples, std::uint64_t epoch) {
    const bool hit = std::ranges::all_of(samples, [this](std::uint64_t s) { return held_[due_[s]] != 0; });
    for (const std::uint64_t sample : samples) {
      drop(due_[sample]);
      due_[sample] = turns_[epoch + 1][sample];
      if (hit) hold(due_[sample]);
    }
    return hit;
  }

  // Returns false, and keeps nothing, if that would look at too many rows.
  bool keep_chunk(std::uint64_t chunk) {
    const std::uint64_t begin = chunk * spec_.rows_per_chunk;
    const std::uint64_t end = std::min(begin + spec_.rows_per_chunk, spec_.num_samples);
    if (end - begin > steps_left_) return false;
    steps_left_ -= end - begin;
    for (std::uint64_t sample = begin; sample < end; ++sample) hold(due_[sample]);
    while (count_ > capacity_rows_) {
      drop(latest_.top());  // no effect if served since it was added
      latest_.pop();
    }
    return true;
  }

  void hold(std::uint64_t turn) {
    if (held_[turn] != 0) return;
    held_[turn] = 1;
    ++count_;
    latest_.push(turn);
  }

  void drop(std::uint64_t turn) {
    count_ -= held_[turn];
    held_[turn] = 0;
  }

  const PlanSpec spec_;
  const std::uint64_t capacity_rows_;
  const bool whole_rows_;
  std::uint64_t steps_left_;
  std::vector<std::uint64_t> order_;                       // samples of all epochs
  std::array<std::vector<std::uint64_t>, kEpochs> turns_;  // turn of each sample, per epoch
  std::vector<std::uint64_t> due_;                         // next turn of each sample
  std::vector<std::uint8_t> held_;                         // 1 if held, per turn
  std::optional<std::uint64_t> last_decoded_;
  std::uint64_t count_ = 0;
  std::priority_queue<std::uint64_t> latest_;
};

// Returns nullopt if the simulation would look at more than `most_steps` rows.
std::optional<RowForecast> simulate(const PlanSpec& plan, const RowForecastSpec& spec,
                                    std::uint64_t most_steps) {
  const double samples = static_cast<double>(plan.num_samples);
  const double held = std::clamp(spec.held_share, 0.0, 1.0) * samples;
  Simulation simulation(plan, static_cast<std::uint64_t>(held), spec.whole_rows, most_steps);
  const double chunks = std::ceil(samples / static_cast<double>(plan.rows_per_chunk));
  const std::optional<std::uint64_t> first = simulation.run(0);
  const std::optional<std::uint64_t> second = first ? simulation.run(1) : std::nullopt;
  const std::optional<std::uint64_t> third = second ? simulation.run(2) : std::nullopt;
  if (!third) return std::nullopt;
  return RowForecast{.first_epoch = static_cast<double>(*first) / chunks,
                     .later_epochs = static_cast<double>(*second + *third) / chunks / 2};
}

}  // namespace

RowForecast forecast_rows(const RowForecastSpec& spec) {
  for (std::uint64_t rows = kRows; rows > kFewestRows; rows /= kShrink) {
    if (auto forecast = simulate(scale_down(spec, rows), spec, kMostSteps)) {
      forecast->rough = rows < kRows;
      return *forecast;
    }
  }
  // Its chunks have so few rows that a decode for each row is within the bound.
  RowForecast forecast = simulate(scale_down(spec, kFewestRows), spec, kMostSteps).value();
  forecast.rough = true;
  return forecast;
}

}  // namespace h5feed
