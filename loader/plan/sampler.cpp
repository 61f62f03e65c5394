// SPDX-License-Identifier: Apache-2.0
#include "h5feed/sampler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include "h5feed/error.hpp"
#include "plan/permutation.hpp"
#include "plan/streams.hpp"

namespace h5feed {

EpochSamples::~EpochSamples() = default;
Sampler::~Sampler() = default;
std::uint64_t Sampler::fingerprint() const { return 0; }
EpochBatches::~EpochBatches() = default;
BatchSampler::~BatchSampler() = default;
std::uint64_t BatchSampler::fingerprint() const { return 0; }

namespace {

class ListedSamples final : public EpochSamples {
 public:
  explicit ListedSamples(std::vector<std::int64_t> samples) : samples_(std::move(samples)) {}
  std::int64_t size() const noexcept override { return static_cast<std::int64_t>(samples_.size()); }
  std::int64_t at(std::int64_t index) const override { return samples_[static_cast<std::size_t>(index)]; }

 private:
  const std::vector<std::int64_t> samples_;
};

class ListedBatches final : public EpochBatches {
 public:
  explicit ListedBatches(std::vector<std::vector<std::int64_t>> batches) : batches_(std::move(batches)) {}
  std::uint64_t size() const noexcept override { return batches_.size(); }
  std::vector<std::int64_t> at(std::uint64_t number) const override { return batches_[number]; }

 private:
  const std::vector<std::vector<std::int64_t>> batches_;
};

class ListSampler final : public Sampler {
 public:
  explicit ListSampler(std::function<std::vector<std::int64_t>(std::uint64_t)> list)
      : list_(std::move(list)) {}
  std::shared_ptr<const EpochSamples> epoch(std::uint64_t /*seed*/, std::uint64_t epoch) const override {
    return std::make_shared<const ListedSamples>(list_(epoch));
  }
  std::uint64_t fingerprint() const override {
    std::uint64_t hash = 0;
    for (const std::int64_t sample : list_(0))
      hash = mix_key(hash, kSubsetOrder, static_cast<std::uint64_t>(sample));
    return hash;
  }

 private:
  const std::function<std::vector<std::int64_t>(std::uint64_t)> list_;
};

class ListBatchSampler final : public BatchSampler {
 public:
  ListBatchSampler(std::function<std::vector<std::vector<std::int64_t>>(std::uint64_t)> list,
                   std::int64_t max_batch_size)
      : list_(std::move(list)), max_batch_size_(max_batch_size) {}
  std::shared_ptr<const EpochBatches> epoch(std::uint64_t /*seed*/, std::uint64_t epoch) const override {
    return std::make_shared<const ListedBatches>(list_(epoch));
  }
  std::int64_t max_batch_size() const noexcept override { return max_batch_size_; }
  std::uint64_t fingerprint() const override {
    std::uint64_t hash = 0;
    for (const std::vector<std::int64_t>& batch : list_(0)) {
      hash = mix_key(hash, kSubsetOrder, batch.size());
      for (const std::int64_t sample : batch)
        hash = mix_key(hash, kSubsetOrder, static_cast<std::uint64_t>(sample));
    }
    return hash;
  }

 private:
  const std::function<std::vector<std::vector<std::int64_t>>(std::uint64_t)> list_;
  const std::int64_t max_batch_size_;
};

class PermutedSamples final : public EpochSamples {
 public:
  PermutedSamples(std::shared_ptr<const std::vector<std::int64_t>> samples, std::uint64_t key)
      : samples_(std::move(samples)), order_(samples_->size(), key) {}
  std::int64_t size() const noexcept override { return static_cast<std::int64_t>(samples_->size()); }
  std::int64_t at(std::int64_t index) const override {
    return (*samples_)[order_.at(static_cast<std::uint64_t>(index))];
  }

 private:
  const std::shared_ptr<const std::vector<std::int64_t>> samples_;
  const Permutation order_;
};

// Returns a uniform number in [0, 1) from the upper 53 bits, the precision of a double.
double unit(std::uint64_t bits) noexcept { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace

std::shared_ptr<const Sampler> make_sampler(
    std::function<std::vector<std::int64_t>(std::uint64_t epoch)> list_samples) {
  if (!list_samples) throw OptionError("make_sampler needs a function that lists the samples of an epoch");
  return std::make_shared<const ListSampler>(std::move(list_samples));
}

std::shared_ptr<const BatchSampler> make_batch_sampler(
    std::function<std::vector<std::vector<std::int64_t>>(std::uint64_t epoch)> list_batches,
    std::int64_t max_batch_size) {
  if (!list_batches)
    throw OptionError("make_batch_sampler needs a function that lists the batches of an epoch");
  if (max_batch_size < 1)
    throw OptionError(fmt::format("max_batch_size must be at least 1; got {}", max_batch_size));
  return std::make_shared<const ListBatchSampler>(std::move(list_batches), max_batch_size);
}

SubsetRandomSampler::SubsetRandomSampler(std::vector<std::int64_t> samples)
    : samples_(std::make_shared<const std::vector<std::int64_t>>(std::move(samples))) {
  if (samples_->empty())
    throw OptionError("SubsetRandomSampler needs at least one sample; the list is empty");
}

std::shared_ptr<const EpochSamples> SubsetRandomSampler::epoch(std::uint64_t seed,
                                                               std::uint64_t epoch) const {
  return std::make_shared<const PermutedSamples>(samples_, mix_key(seed, kSubsetOrder, epoch));
}

std::uint64_t SubsetRandomSampler::fingerprint() const {
  std::uint64_t hash = samples_->size();
  for (const std::int64_t sample : *samples_)
    hash = mix_key(hash, kSubsetOrder, static_cast<std::uint64_t>(sample));
  return hash;
}

struct WeightedRandomSampler::Table {
  // Alias table for draws with replacement: column i gives sample i with probability keep[i], else alias[i].
  std::vector<double> keep;
  std::vector<std::uint64_t> alias;
  std::vector<double> weights;  // used for draws without replacement
  std::uint64_t fingerprint = 0;
};

namespace {

std::int64_t checked_count(std::string_view sampler, std::int64_t num_samples) {
  if (num_samples < 1) {
    throw OptionError(fmt::format("num_samples of {} must be at least 1; got {}", sampler, num_samples));
  }
  return num_samples;
}

double checked_sum(std::span<const double> weights) {
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!std::isfinite(weights[i]) || weights[i] < 0) {
      throw OptionError(fmt::format(
          "weight {} is {}; weights must be finite and not negative, with one above 0", i, weights[i]));
    }
    sum += weights[i];
  }
  if (!(sum > 0)) {
    throw OptionError(fmt::format(
        "all {} weights are 0; at least one sample needs a weight above 0 to be drawn", weights.size()));
  }
  if (!std::isfinite(sum)) {
    throw OptionError(fmt::format("the sum of {} weights exceeds {:.3g}; divide them by their largest",
                                  weights.size(), std::numeric_limits<double>::max()));
  }
  return sum;
}

// Builds the alias table (Vose): every column below the average is filled up from exactly one column above
// it.
void build_alias(std::span<const double> weights, double sum, std::vector<double>& keep,
                 std::vector<std::uint64_t>& alias) {
  const std::size_t n = weights.size();
  keep.resize(n);
  alias.resize(n);
  std::vector<std::uint64_t> low;
  std::vector<std::uint64_t> high;
  for (std::size_t i = 0; i < n; ++i) {
    keep[i] = weights[i] / sum * static_cast<double>(n);
    alias[i] = i;
    (keep[i] < 1 ? low : high).push_back(i);
  }
  while (!low.empty() && !high.empty()) {
    const std::uint64_t poor = low.back();
    low.pop_back();
    const std::uint64_t rich = high.back();
    alias[poor] = rich;
    keep[rich] -= 1 - keep[poor];
    if (keep[rich] < 1) {
      high.pop_back();
      low.push_back(rich);
    }
  }
  // Columns left over by rounding keep their own sample, except those of samples with weight 0, which must
  // never be drawn.
  for (const std::uint64_t i : high) keep[i] = 1;
  const auto heaviest = static_cast<std::uint64_t>(std::ranges::max_element(weights) - weights.begin());
  for (const std::uint64_t i : low) {
    if (weights[i] > 0) {
      keep[i] = 1;
    } else {
      keep[i] = 0;
      alias[i] = heaviest;
    }
  }
}

class WeightedDraws final : public EpochSamples {
 public:
  WeightedDraws(std::shared_ptr<const void> owner, std::span<const double> keep,
                std::span<const std::uint64_t> alias, std::int64_t num_samples, std::uint64_t key)
      : owner_(std::move(owner)), keep_(keep), alias_(alias), num_samples_(num_samples), key_(key) {}
  std::int64_t size() const noexcept override { return num_samples_; }
  std::int64_t at(std::int64_t index) const override {
    const auto position = static_cast<std::uint64_t>(index);
    const double place = unit(mix_key(key_, kWeightedColumn, position)) * static_cast<double>(keep_.size());
    const auto column = std::min(static_cast<std::size_t>(place), keep_.size() - 1);
    const bool own = unit(mix_key(key_, kWeightedSide, position)) < keep_[column];
    return static_cast<std::int64_t>(own ? column : alias_[column]);
  }

 private:
  const std::shared_ptr<const void> owner_;  // owns the memory of the spans
  const std::span<const double> keep_;
  const std::span<const std::uint64_t> alias_;
  const std::int64_t num_samples_;
  const std::uint64_t key_;
};

// Draws without replacement: the samples with the smallest −log(u)/w, in ascending order of that key.
std::vector<std::int64_t> draw_without_replacement(std::span<const double> weights, std::int64_t count,
                                                   std::uint64_t key) {
  std::vector<std::pair<double, std::int64_t>> keyed;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    const double u = 1 - unit(mix_key(key, kWeightedColumn, i));  // (0, 1]
    keyed.emplace_back(-std::log(u) / weights[i], static_cast<std::int64_t>(i));
  }
  const auto end = keyed.begin() + count;
  std::partial_sort(keyed.begin(), end, keyed.end());
  std::vector<std::int64_t> samples;
  samples.reserve(static_cast<std::size_t>(count));
  for (auto at = keyed.begin(); at != end; ++at) samples.push_back(at->second);
  return samples;
}

}  // namespace

WeightedRandomSampler::WeightedRandomSampler(std::span<const double> weights, std::int64_t num_samples,
                                             bool replacement)
    : num_samples_(checked_count("WeightedRandomSampler", num_samples)) {
  const double sum = checked_sum(weights);
  auto table = std::make_shared<Table>();
  if (replacement) {
    build_alias(weights, sum, table->keep, table->alias);
  } else {
    const std::int64_t drawable = std::ranges::count_if(weights, [](double w) { return w > 0; });
    if (num_samples > drawable) {
      throw OptionError(
          fmt::format("WeightedRandomSampler cannot draw {} samples without replacement: {} have a "
                      "weight above 0; draw at most {}, or with replacement",
                      num_samples, drawable, drawable));
    }
    table->weights.assign(weights.begin(), weights.end());
  }
  table->fingerprint =
      mix_key(static_cast<std::uint64_t>(num_samples_), kWeightedColumn, replacement ? 1 : 0);
  for (const double weight : weights)
    table->fingerprint = mix_key(table->fingerprint, kWeightedSide, std::bit_cast<std::uint64_t>(weight));
  table_ = std::move(table);
}

std::shared_ptr<const EpochSamples> WeightedRandomSampler::epoch(std::uint64_t seed,
                                                                 std::uint64_t epoch) const {
  const std::uint64_t key = mix_key(seed, kWeightedOrder, epoch);
  if (table_->weights.empty())
    return std::make_shared<const WeightedDraws>(table_, table_->keep, table_->alias, num_samples_, key);
  return std::make_shared<const ListedSamples>(draw_without_replacement(table_->weights, num_samples_, key));
}

std::uint64_t WeightedRandomSampler::fingerprint() const { return table_->fingerprint; }

TorchRandomSampler::TorchRandomSampler(std::int64_t num_samples)
    : num_samples_(checked_count("TorchRandomSampler", num_samples)) {}

// PyTorch draws from the 32-bit Mersenne Twister (Matsumoto, Nishimura 1998), seeded with the lower half of
// the seed, and walks the list forwards: position i is swapped with one of i … n−1. Above 2³²/20 samples it
// draws 64 bits at a time, upper word first.
std::shared_ptr<const EpochSamples> TorchRandomSampler::epoch(std::uint64_t seed, std::uint64_t epoch) const {
  std::mt19937 generator(static_cast<std::uint32_t>(seed + epoch));
  std::vector<std::int64_t> samples(static_cast<std::size_t>(num_samples_));
  std::iota(samples.begin(), samples.end(), 0);
  const bool wide = samples.size() >= std::numeric_limits<std::uint32_t>::max() / 20;
  for (std::size_t i = 0; i + 1 < samples.size(); ++i) {
    std::uint64_t random = generator();
    if (wide) random = random << 32 | generator();
    std::swap(samples[i], samples[i + random % (samples.size() - i)]);
  }
  return std::make_shared<const ListedSamples>(std::move(samples));
}

std::uint64_t TorchRandomSampler::fingerprint() const {
  return mix_key(static_cast<std::uint64_t>(num_samples_), kTorchOrder, 0);
}

}  // namespace h5feed
