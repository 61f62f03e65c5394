#include "flow/loader_group.hpp"

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

LoaderGroup::Seat::~Seat() { group_.leave(at_); }

std::unique_ptr<LoaderGroup::Seat> LoaderGroup::join(
    const std::function<MemoryUse(const MemoryUse& others)>& decide) {
  const MutexLock lock(mutex_);
  MemoryUse others;
  for (const MemoryUse& member : members_) {
    others.own_bytes += member.own_bytes;
    others.decode_bytes += member.decode_bytes;
    others.cache_bytes = std::max(others.cache_bytes, member.cache_bytes);
    others.budget_bytes = std::max(others.budget_bytes, member.budget_bytes);
  }
  const MemoryUse use = decide(others);
  auto seat = std::unique_ptr<Seat>(new Seat(*this, members_.insert(members_.end(), use)));
  cache_.grow(use.cache_bytes);
  return seat;
}

void LoaderGroup::leave(std::list<MemoryUse>::iterator at) noexcept {
  const MutexLock lock(mutex_);
  members_.erase(at);
}

}  // namespace h5feed
