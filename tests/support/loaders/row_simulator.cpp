// SPDX-License-Identifier: Apache-2.0
#include "support/loaders/row_simulator.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace h5feed::test {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

struct Use {
  std::uint64_t at = 0;  // place in the whole sequence
  std::uint64_t sample = 0;
};

struct Group {
  std::uint64_t chunk = 0;
  std::vector<Use> uses;
};

std::vector<Group> by_chunk(const std::vector<std::int64_t>& batch, std::uint64_t first,
                            std::uint64_t rows_per_chunk) {
  std::vector<Group> groups;
  for (std::uint64_t i = 0; i < batch.size(); ++i) {
    const auto sample = static_cast<std::uint64_t>(batch[i]);
    const std::uint64_t chunk = sample / rows_per_chunk;
    auto at = std::ranges::find(groups, chunk, &Group::chunk);
    if (at == groups.end()) at = groups.insert(groups.end(), {chunk, {}});
    at->uses.push_back({first + i, sample});
  }
  return groups;
}

}  // namespace

std::vector<std::uint64_t> Simulation::belady_rows(const Requests& requests, std::uint64_t capacity) const {
  std::vector<std::vector<std::uint64_t>> uses(num_samples);  // positions of each sample's uses, latest first
  std::uint64_t total = 0;
  for (const auto& batch : requests) total += batch.size();
  std::uint64_t place = total;
  for (auto batch = requests.rbegin(); batch != requests.rend(); ++batch) {
    for (auto sample = batch->rbegin(); sample != batch->rend(); ++sample) {
      uses[static_cast<std::size_t>(*sample)].push_back(--place);
    }
  }
  std::map<std::uint64_t, std::uint64_t> held;  // next use → sample
  const auto next_use = [&](std::uint64_t sample) {
    return uses[sample].empty() ? kNever : uses[sample].back();
  };
  std::vector<std::uint64_t> decodes(epochs);
  std::uint64_t first = 0;
  for (std::uint64_t number = 0; number < epochs * batches_per_epoch; ++number) {
    for (const Group& group : by_chunk(requests[number], first, rows_per_chunk)) {
      const bool hit = std::ranges::all_of(group.uses, [&](const Use& use) { return held.contains(use.at); });
      for (const Use& use : group.uses) {
        held.erase(use.at);
        uses[use.sample].pop_back();
        if (hit && next_use(use.sample) != kNever) held.emplace(next_use(use.sample), use.sample);
      }
      if (hit) continue;
      ++decodes[number / batches_per_epoch];
      std::vector<std::pair<std::uint64_t, std::uint64_t>> candidates;
      const std::uint64_t begin = group.chunk * rows_per_chunk;
      for (std::uint64_t row = begin; row < std::min(begin + rows_per_chunk, num_samples); ++row) {
        if (next_use(row) != kNever && !held.contains(next_use(row)))
          candidates.emplace_back(next_use(row), row);
      }
      held.insert(candidates.begin(), candidates.end());
      while (held.size() > capacity) held.erase(std::prev(held.end()));
    }
    first += requests[number].size();
  }
  return decodes;
}

std::vector<std::uint64_t> Simulation::whole_chunks(const Requests& requests, std::uint64_t capacity,
                                                    bool lru) const {
  // Visits of chunks, in order.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> visits;  // epoch, chunk
  for (std::uint64_t number = 0; number < requests.size(); ++number) {
    for (const Group& group : by_chunk(requests[number], 0, rows_per_chunk)) {
      visits.emplace_back(number / batches_per_epoch, group.chunk);
    }
  }
  std::vector<std::uint64_t> next(visits.size(), kNever);
  std::map<std::uint64_t, std::uint64_t> later;
  for (std::uint64_t i = visits.size(); i-- > 0;) {
    if (const auto at = later.find(visits[i].second); at != later.end()) next[i] = at->second;
    later[visits[i].second] = i;
  }
  std::set<std::pair<std::uint64_t, std::uint64_t>> held;  // rank (the greatest is evicted), chunk
  std::map<std::uint64_t, std::uint64_t> rank_of;
  std::vector<std::uint64_t> decodes(epochs);
  for (std::uint64_t i = 0; i < visits.size() && visits[i].first < epochs; ++i) {
    const auto [epoch, chunk] = visits[i];
    if (const auto at = rank_of.find(chunk); at != rank_of.end()) {
      held.erase({at->second, chunk});
    } else {
      ++decodes[epoch];
    }
    rank_of[chunk] = lru ? kNever - i : next[i];
    held.emplace(rank_of[chunk], chunk);
    if (held.size() > capacity) {
      rank_of.erase(std::prev(held.end())->second);
      held.erase(std::prev(held.end()));
    }
  }
  return decodes;
}

}  // namespace h5feed::test
