// SPDX-License-Identifier: Apache-2.0
#include "flow/faults/sample_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"
#include "plan/permutation.hpp"
#include "plan/streams.hpp"

namespace h5feed {
namespace {

// With half of all chunks bad, one sample in 10^30 finds no replacement.
constexpr std::uint64_t kMostDraws = 100;

// A share such as 0.01 of 300 samples must allow 3, although the product is slightly below.
std::uint64_t quota_of(double share, std::uint64_t samples) {
  return static_cast<std::uint64_t>(std::floor(share * static_cast<double>(samples) + 1e-6));
}

}  // namespace

SampleChoice::SampleChoice(const DatasetState& dataset, std::shared_ptr<const SampleSubset> chosen,
                           const BadData& bad, const Settings& settings)
    : dataset_(dataset), chosen_(std::move(chosen)), bad_(bad), settings_(settings) {}

void SampleChoice::apply(BatchJob& job) const {
  if (bad_.empty()) return;
  const std::vector<bool> spoiled = bad_.spoiled(job.batch.indices, job.key());
  job.bad_samples = static_cast<std::uint64_t>(std::ranges::count(spoiled, true));
  if (job.bad_samples == 0) return;
  check_quota(job.bad_samples, job);
  if (skips()) {
    leave_out(job, spoiled);
  } else {
    replace(job, spoiled);
  }
}

bool SampleChoice::exceeds_quota(std::uint64_t bad_samples, const EpochPlan& plan) const noexcept {
  return bad_samples > quota_of(settings_.max_bad_share, plan.samples_in_epoch());
}

void SampleChoice::check_quota(std::uint64_t bad_samples, const BatchJob& job) const {
  if (!exceeds_quota(bad_samples, *job.plan)) return;
  const std::uint64_t samples = job.plan->samples_in_epoch();
  const std::string list = bad_.list_path().empty() ? "set bad_list for a list of all"
                                                    : fmt::format("all are in {}", bad_.list_path().string());
  throw ChunkError(fmt::format(
      "epoch {}, batch {}: {} of the {} samples of this rank's epoch cannot be read, more than max_bad_share "
      "{} allows ({}); the last fault: {}; {}; restore the data, or raise max_bad_share",
      job.epoch, job.plan->first_number() + job.number, format_count(bad_samples), format_count(samples),
      settings_.max_bad_share, format_count(quota_of(settings_.max_bad_share, samples)), bad_.last_fault(),
      list));
}

void SampleChoice::leave_out(BatchJob& job, const std::vector<bool>& spoiled) const {
  std::vector<std::int64_t> kept;
  job.planned_at.clear();
  for (std::size_t i = 0; i < spoiled.size(); ++i) {
    if (spoiled[i]) continue;
    kept.push_back(job.batch.indices[i]);
    job.planned_at.push_back(static_cast<std::uint32_t>(i));
  }
  job.batch.indices = std::move(kept);
}

void SampleChoice::replace(BatchJob& job, const std::vector<bool>& spoiled) const {
  job.planned_at.resize(spoiled.size());
  for (std::size_t i = 0; i < spoiled.size(); ++i) {
    job.planned_at[i] = spoiled[i] ? BatchJob::kReplaced : static_cast<std::uint32_t>(i);
    if (spoiled[i]) job.batch.indices[i] = replacement(job, job.batch.indices[i]);
  }
}

std::int64_t SampleChoice::replacement(const BatchJob& job, std::int64_t sample) const {
  std::set<std::int64_t> tried;  // draws may repeat, and may give the sample itself
  for (std::uint64_t attempt = 0; attempt < kMostDraws; ++attempt) {
    const std::int64_t candidate = draw(job, static_cast<std::uint64_t>(sample), attempt);
    if (!bad_.spoiled({&candidate, 1}, job.key()).front()) return candidate;
    if (candidate != sample) tried.insert(candidate);
  }
  throw ChunkError(fmt::format(
      "epoch {}, batch {}: no replacement for sample {} was found: it cannot be read, nor can the {} {} "
      "tried in its place; the last fault: {}",
      job.batch.epoch, job.batch.number, sample, format_count(tried.size()),
      tried.size() == 1 ? "other" : "others", bad_.last_fault()));
}

// The samples of a chunk are replaced by those of one other chunk, so that replacing them decodes no more
// than one. The samples that a sampler gave need not be any whole chunks: one of them is drawn for each
// sample.
std::int64_t SampleChoice::draw(const BatchJob& job, std::uint64_t sample, std::uint64_t attempt) const {
  const std::uint64_t of_epoch = mix_key(job.seed, kReplacement, job.batch.epoch);
  const std::uint64_t of_sample = mix_key(mix_key(of_epoch, kReplacement, sample), kReplacement, attempt);
  if (const auto sampled = job.plan->sampled_at(of_sample)) return *sampled;

  const RowLayout& layout = dataset_.sample_layout();
  const std::uint64_t chunk = layout.chunk_of(sample);
  const std::uint64_t key = mix_key(mix_key(of_epoch, kReplacement, chunk), kReplacement, attempt);
  const Places choices = choices_for(sample);
  const std::uint64_t choice = choices.first + key % choices.count;
  const Places from = places_in(chunk);
  const Places to = places_in(chosen_ ? layout.chunk_of(chosen_->sorted(choice)) : choice);
  const std::uint64_t place = (chosen_ ? chosen_->count_below(sample) : sample) - from.first;
  // Turns the samples within the chunk too: with few chunks, the other one may be the same.
  const std::uint64_t drawn = to.first + (place + (key >> 32)) % to.count;
  return static_cast<std::int64_t>(chosen_ ? chosen_->sorted(drawn) : drawn);
}

// Returns the chunks that the replacement of a sample is drawn from, or with a subset the places in it: in a
// mixture those of the same set.
SampleChoice::Places SampleChoice::choices_for(std::uint64_t sample) const {
  const RowLayout& layout = dataset_.sample_layout();
  if (!dataset_.mixture) return {0, chosen_ ? chosen_->size() : layout.num_chunks()};
  const MixtureSet& set = dataset_.mixture->sets()[dataset_.mixture->set_of(sample)];
  const std::uint64_t end = set.first_sample + set.layout.num_rows();
  const std::uint64_t first =
      chosen_ ? chosen_->count_below(set.first_sample) : layout.chunk_of(set.first_sample);
  return {first, (chosen_ ? chosen_->count_below(end) : layout.chunk_of(end - 1) + 1) - first};
}

// Returns the samples of a chunk that take part: their numbers, or with a subset their places in it.
SampleChoice::Places SampleChoice::places_in(std::uint64_t chunk) const {
  const RowLayout::Rows rows = dataset_.sample_layout().rows_of(chunk);
  if (!chosen_) return {rows.first, rows.count()};
  const std::uint64_t first = chosen_->count_below(rows.first);
  return {first, chosen_->count_below(rows.end) - first};
}

}  // namespace h5feed
