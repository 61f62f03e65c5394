// SPDX-License-Identifier: Apache-2.0
#include "plan/mixture_order.hpp"

#include <algorithm>
#include <utility>

#include "plan/permutation.hpp"
#include "plan/streams.hpp"

namespace h5feed {
namespace {

// Permutes the values by (key, position): the shuffle of Fisher and Yates (Durstenfeld, Communications of the
// ACM 7(7), 1964).
void permute(std::vector<std::uint16_t>& values, std::uint64_t key) {
  for (std::size_t last = values.size(); last-- > 1;) {
    // The upper half of the product of a random number of 32 bits is below the other factor.
    const std::uint64_t random = mix_key(key, kMixtureOrder, last) >> 32;
    std::swap(values[last], values[static_cast<std::size_t>(random * (last + 1) >> 32)]);
  }
}

}  // namespace

MixtureOrder::MixtureOrder(std::shared_ptr<const Mixture> mixture, std::uint64_t num_chunks,
                           std::uint64_t key, OrderOfSet order_of_set)
    : SampleOrder(num_chunks),
      mixture_(std::move(mixture)),
      key_(key),
      order_of_set_(std::move(order_of_set)),
      last_passes_(mixture_->sets().size()) {}

std::uint64_t MixtureOrder::at(std::uint64_t position) const {
  const std::uint64_t number = position / kMixtureBlock;
  const Draw draw = block(number)->draws[position % kMixtureBlock];
  const MixtureSet& set = mixture_->sets()[draw.set];
  const std::uint64_t n = number * set.quota + draw.before;
  return set.first_sample + pass(draw.set, n / set.size())->at(n % set.size());
}

std::shared_ptr<const MixtureOrder::Block> MixtureOrder::block(std::uint64_t number) const {
  const MutexLock lock(mutex_);
  if (!last_block_ || last_block_->number != number) last_block_ = make_block(number);
  return last_block_;
}

std::shared_ptr<const MixtureOrder::Block> MixtureOrder::make_block(std::uint64_t number) const {
  const std::uint64_t positions = std::min(kMixtureBlock, size() - number * kMixtureBlock);
  const std::vector<std::uint64_t> counts = mixture_->counts_in_block(positions);
  std::vector<std::uint16_t> sets;
  sets.reserve(positions);
  for (std::size_t set = 0; set < counts.size(); ++set)
    sets.insert(sets.end(), counts[set], static_cast<std::uint16_t>(set));
  permute(sets, mix_key(key_, kMixtureOrder, number));
  auto made = std::make_shared<Block>(Block{number, {}});
  made->draws.reserve(positions);
  std::vector<std::uint16_t> seen(counts.size(), 0);
  for (const std::uint16_t set : sets) made->draws.push_back({set, seen[set]++});
  return made;
}

std::shared_ptr<const SampleOrder> MixtureOrder::pass(std::size_t set, std::uint64_t number) const {
  const MutexLock lock(mutex_);
  Pass& last = last_passes_[set];
  if (!last.order || last.number != number) last = {number, order_of_set_(set, number)};
  return last.order;
}

}  // namespace h5feed
