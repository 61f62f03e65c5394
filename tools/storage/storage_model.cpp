// SPDX-License-Identifier: Apache-2.0
#include "tools/storage/storage_model.hpp"

#include <algorithm>
#include <cmath>

#include "base/byte_units.hpp"
#include "flow/resolve/advice.hpp"
#include "tools/storage/window_plan.hpp"

namespace h5feed::cli {
std::vector<std::uint64_t> round_numbers(std::uint64_t most) {
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t power = 1; power <= most; power *= 10) {
    for (const std::uint64_t step : {1U, 2U, 5U}) {
      if (step * power <= most) numbers.push_back(step * power);
    }
  }
  return numbers;
}

double MachineCosts::PerChunk::seconds(double bytes) const {
  if (points.empty()) return 0;
  if (points.size() == 1) return points.front().seconds * bytes / points.front().bytes;
  // Beyond the known sizes, extrapolates the nearest line.
  const auto above = std::upper_bound(points.begin() + 1, points.end() - 1, bytes,
                                      [](double size, const Point& point) { return size < point.bytes; });
  const Point& from = *(above - 1);
  const double slope = (above->seconds - from.seconds) / (above->bytes - from.bytes);
  return std::max(0.0, from.seconds + slope * (bytes - from.bytes));
}

double decodes_per_chunk(const RowShape& data, std::uint64_t chunk_rows, const LoaderUse& use) {
  if (!use.window.empty()) {
    return window_cost(data, chunk_rows, {use.window, use.shuffle, use.batch_size, use.cache_bytes})
        .decodes_per_chunk;
  }
  return lru_decodes_per_chunk({.chunks = (data.rows + chunk_rows - 1) / chunk_rows,
                                .rows_per_chunk = chunk_rows,
                                .chunk_bytes = chunk_rows * data.row_bytes,
                                .shuffle = use.shuffle,
                                .batch_size = use.batch_size,
                                .cache_bytes = use.cache_bytes});
}

Prediction predict(const RowShape& data, const Candidate& candidate, const CandidateCosts& costs,
                   const LoaderUse& use, const MachineCosts& machine) {
  const std::uint64_t chunks = (data.rows + candidate.chunk_rows - 1) / candidate.chunk_rows;
  const std::uint64_t chunk_bytes = candidate.chunk_rows * data.row_bytes;
  Prediction prediction;
  prediction.decodes_per_chunk = decodes_per_chunk(data, candidate.chunk_rows, use);
  const double decodes = prediction.decodes_per_chunk * static_cast<double>(chunks);
  const auto rows = static_cast<double>(data.rows);
  const double threads =
      std::clamp<double>(static_cast<double>(use.num_workers), 1, static_cast<double>(machine.cpus));
  // Chunks without filters are read directly to their destination: nothing is left to decode.
  const bool plain = candidate.filter == "none";
  const MachineCosts::PerChunk& costs_per_chunk = plain ? machine.plain : machine.coded;
  const double read_s = costs_per_chunk.seconds(static_cast<double>(chunk_bytes));
  double chunk_work = decodes * (read_s + (plain ? 0 : costs.decode_s)) / threads;
  prediction.decoded_bytes = decodes * static_cast<double>(chunk_bytes);
  const double row_work = rows * machine.plain.seconds(static_cast<double>(data.row_bytes)) / threads;
  if (plain && use.shuffle.kind() == Shuffle::Kind::full && prediction.decodes_per_chunk > 1 &&
      row_work < chunk_work) {
    prediction.reads_rows = true;
    prediction.decoded_bytes = rows * static_cast<double>(data.row_bytes);
    chunk_work = row_work;
  }
  prediction.samples_per_s = rows / (machine.start_s + rows * machine.serve_s + chunk_work);
  return prediction;
}

double Trial::samples_per_s() const {
  return sample_measured > 0 ? predicted.samples_per_s * sample_measured / sample_predicted
                             : predicted.samples_per_s;
}

double shown_correction(std::span<const Trial> trials, const Candidate& candidate) {
  // Weights of a measurement with another filter, of one that decodes when the other does not, and of chunks
  // of twice the size; and the weight of the model itself.
  constexpr double kOtherFilter = 0.3, kOtherKind = 0.05, kTwiceTheSize = 0.7, kModel = 0.2;
  double weights = kModel, logs = 0;
  for (const Trial& trial : trials) {
    if (trial.sample_measured == 0) continue;
    const Candidate& other = trial.candidate;
    const bool same_kind = (other.filter == "none") == (candidate.filter == "none");
    const double doublings = std::abs(std::log2(static_cast<double>(other.chunk_rows)) -
                                      std::log2(static_cast<double>(candidate.chunk_rows)));
    const double weight = std::pow(kTwiceTheSize, doublings) * (other.filter == candidate.filter ? 1
                                                                : same_kind ? kOtherFilter
                                                                            : kOtherKind);
    weights += weight;
    logs += weight * std::log(trial.sample_measured * trial.correction / trial.sample_predicted);
  }
  return std::exp(logs / weights);
}

void correct(Trial& trial, std::span<const Trial> trials) {
  const double correction = shown_correction(trials, trial.candidate);
  trial.sample_predicted *= correction / trial.correction;
  trial.predicted.samples_per_s *= correction / trial.correction;
  trial.correction = correction;
}

void rank(std::vector<Trial>& trials) {
  std::stable_sort(trials.begin(), trials.end(),
                   [](const Trial& a, const Trial& b) { return a.samples_per_s() > b.samples_per_s(); });
  double smallest = 0;
  for (Trial& trial : trials) {
    trial.pareto = smallest == 0 || trial.size_bytes < smallest;
    if (trial.pareto) smallest = trial.size_bytes;
  }
}

namespace {

// Returns the trials that can be recommended, at least one, in their order.
std::vector<const Trial*> eligible(std::span<const Trial> trials) {
  constexpr double kLeastSaving = 0.1;
  const bool any_measured =
      std::ranges::any_of(trials, [](const Trial& trial) { return trial.sample_measured > 0; });
  const auto counts = [&](const Trial& trial) { return !any_measured || trial.sample_measured > 0; };
  const auto saves = [&](const Trial& trial) {
    return std::ranges::none_of(trials, [&](const Trial& plain) {
      return counts(plain) && plain.candidate.filter == "none" && trial.candidate.filter != "none" &&
             plain.candidate.chunk_rows == trial.candidate.chunk_rows &&
             trial.size_bytes > (1 - kLeastSaving) * plain.size_bytes;
    });
  };
  std::vector<const Trial*> found;
  for (const Trial& trial : trials) {
    if (counts(trial) && saves(trial)) found.push_back(&trial);
  }
  return found;
}

}  // namespace

const Trial& fastest(std::span<const Trial> trials) { return *eligible(trials).front(); }

const Trial& recommended(std::span<const Trial> trials) {
  const std::vector<const Trial*> candidates = eligible(trials);
  const Trial* best = candidates.front();
  for (const Trial* trial : candidates) {
    if (trial->samples_per_s() < (1 - kTuneSlack) * candidates.front()->samples_per_s()) break;
    if (trial->size_bytes < best->size_bytes) best = trial;
  }
  return *best;
}

std::vector<std::uint64_t> chunk_rows_to_try(const RowShape& data, std::size_t most) {
  constexpr std::uint64_t kLeastBytes = 16 * kKiB, kMostBytes = 8 * kMiB;
  const std::uint64_t least_rows = kLeastBytes / data.row_bytes;
  const std::uint64_t most_rows =
      std::clamp<std::uint64_t>(kMostBytes / data.row_bytes, 1, std::max<std::uint64_t>(1, data.rows / 2));
  std::vector<std::uint64_t> all = round_numbers(most_rows);
  std::erase_if(all, [least = std::min(least_rows, all.back())](std::uint64_t rows) { return rows < least; });
  std::vector<std::uint64_t> chosen;
  const std::size_t step = (all.size() + most - 1) / most;
  // Chooses from the largest down, so that the usual sizes are among them.
  for (std::size_t i = all.size(); i-- > 0;) {
    if ((all.size() - 1 - i) % step == 0) chosen.insert(chosen.begin(), all[i]);
  }
  return chosen;
}

std::uint64_t automatic_chunk_rows(std::uint64_t rows, std::uint64_t row_bytes) {
  // Costs of a current core: 1 GiB/s of gzip decoded, 20 µs per read and its overhead.
  constexpr double kDecodeSecondsPerByte = 1.0 / static_cast<double>(kGiB), kChunkSeconds = 20e-6;
  constexpr double kWorthwhile = 0.02;
  constexpr std::uint64_t kMostRows = 20'000;
  // Above this size a chunk's fixed cost is below the worthwhile share, and random order pays for every
  // further byte.
  const double ample_bytes = kChunkSeconds / (kDecodeSecondsPerByte * kWorthwhile);
  const auto fit =
      static_cast<std::uint64_t>(ample_bytes / static_cast<double>(std::max<std::uint64_t>(1, row_bytes)));
  const std::uint64_t nice = round_numbers(std::clamp<std::uint64_t>(fit, 1, kMostRows)).back();
  return std::min(nice, std::max<std::uint64_t>(1, rows));
}

}  // namespace h5feed::cli
