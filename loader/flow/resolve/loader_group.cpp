// SPDX-License-Identifier: Apache-2.0
#include "flow/resolve/loader_group.hpp"

#include <algorithm>

namespace h5feed {

std::shared_ptr<LoaderGroup> LoaderGroup::of(const DatasetState& dataset) {
  LoaderGroupPlace& place = *dataset.loaders;
  const MutexLock lock(place.mutex);
  std::shared_ptr<LoaderGroup> group = place.group.lock();
  if (!group) {
    group = std::make_shared<LoaderGroup>();
    place.group = group;
  }
  return group;
}

LoaderGroup::Membership::~Membership() { group_.leave(at_); }

MemoryUse LoaderGroup::together() const noexcept {
  MemoryUse all;
  for (const MemoryUse& member : members_) {
    all.own_bytes += member.own_bytes;
    all.decode_bytes += member.decode_bytes;
    all.cache_bytes = std::max(all.cache_bytes, member.cache_bytes);
    all.budget_bytes = std::max(all.budget_bytes, member.budget_bytes);
    all.resident_bytes = std::max(all.resident_bytes, member.resident_bytes);
  }
  return all;
}

std::unique_ptr<LoaderGroup::Membership> LoaderGroup::join(
    const std::function<MemoryUse(const MemoryUse& others)>& decide) {
  const MutexLock lock(mutex_);
  const MemoryUse use = decide(together());
  auto membership = std::unique_ptr<Membership>(new Membership(*this, members_.insert(members_.end(), use)));
  share_out();
  return membership;
}

void LoaderGroup::leave(std::list<MemoryUse>::iterator at) noexcept {
  const MutexLock lock(mutex_);
  members_.erase(at);
  share_out();
}

void LoaderGroup::share_out() noexcept {
  const MemoryUse all = together();
  cache_.set_capacity(all.cache_bytes);
  const std::uint64_t taken =
      all.resident_bytes + all.own_bytes + std::max(all.cache_bytes, all.decode_bytes);
  spare_.resize({.budget = all.budget_bytes, .spare = all.budget_bytes - std::min(all.budget_bytes, taken)});
}

}  // namespace h5feed
