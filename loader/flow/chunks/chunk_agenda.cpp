// SPDX-License-Identifier: Apache-2.0
#include "flow/chunks/chunk_agenda.hpp"

#include <algorithm>
#include <new>
#include <variant>

namespace h5feed {
namespace {

ChunkKey key_of(const Visit& visit) noexcept { return {visit.field, visit.chunk}; }

}  // namespace

void ChunkAgenda::add(const std::shared_ptr<BatchJob>& job) {
  const MutexLock lock(mutex_);
  VisitRef ref{job};
  try {
    for (; ref.number < job->visits.size(); ++ref.number) {
      if (!ref.visit().direct) add_visit(ref);
    }
  } catch (...) {
    // Nobody has seen the visits, since the mutex was held.
    while (ref.number > 0) {
      --ref.number;
      const auto at = take_off(ref);
      if (at != entries_.end() && at->second.visits.empty()) forget(at);
    }
    throw;
  }
  if (patience_ > 0) work_.notify_all();
}

void ChunkAgenda::add_visit(const VisitRef& ref) {
  const auto [at, inserted] = entries_.try_emplace(key_of(ref.visit()));
  Entry& entry = at->second;
  try {
    entry.visits.push_back(ref);
    if (!inserted) return;
    entry.deadline = {ref.job->ticket, ref.number};
    announced_.emplace(entry.deadline, at->first);
  } catch (...) {
    if (inserted) entries_.erase(at);
    throw;
  }
}

ChunkAgenda::Turn ChunkAgenda::begin(const VisitRef& visit, const Wake& wake) {
  const MutexLock lock(mutex_);
  const auto at = entries_.find(key_of(visit.visit()));
  if (at == entries_.end() || std::ranges::find(at->second.visits, visit) == at->second.visits.end()) {
    return Turn::claimed;
  }
  Entry& entry = at->second;
  if (entry.state == State::reading) {
    entry.waiting.push_back(wake);
    return Turn::reading;
  }
  if (entry.state == State::announced) {
    announced_.erase(entry.deadline);
    entry.state = State::taken;
  }
  return Turn::go;
}

// Removes the visit and returns its entry; entries_.end() if it was on none.
ChunkAgenda::Entries::iterator ChunkAgenda::take_off(const VisitRef& visit) {
  const auto at = entries_.find(key_of(visit.visit()));
  if (at == entries_.end() || std::erase(at->second.visits, visit) == 0) return entries_.end();
  return at;
}

ChunkCache::Lookup ChunkAgenda::look_up(const VisitRef& visit, ChunkCache& cache, std::size_t bytes,
                                        const Wake& wake) const {
  ChunkCache::Lookup found = cache.lookup(key_of(visit.visit()), bytes, wake);
  // Since `begin` another worker may have loaded the chunk and done all its visits, and the cache may have
  // let it go. Asked while the load is this thread's, so that nobody else loads the chunk meanwhile.
  if (std::holds_alternative<ChunkCache::Load>(found) && !is_unclaimed(visit)) return ChunkCache::Pending{};
  return found;
}

bool ChunkAgenda::claim(const VisitRef& visit) noexcept {
  const MutexLock lock(mutex_);
  const auto at = take_off(visit);
  if (at == entries_.end()) return false;
  if (at->second.visits.empty()) forget(at);
  return true;
}

bool ChunkAgenda::claim_without_chunk(const VisitRef& visit) noexcept {
  const MutexLock lock(mutex_);
  const auto at = take_off(visit);
  if (at == entries_.end()) return false;
  Entry& entry = at->second;
  if (entry.visits.empty()) {
    forget(at);
  } else if (entry.state == State::taken) {
    const Deadline next = {entry.visits.front().job->ticket, entry.visits.front().number};
    try {
      announced_.emplace(next, at->first);
    } catch (const std::bad_alloc&) {
      return true;  // it stays taken: the workers of the other visits read it themselves
    }
    entry.state = State::announced;
    entry.deadline = next;
    if (patience_ > 0) work_.notify_one();
  }
  return true;
}

std::vector<VisitRef> ChunkAgenda::unclaimed(ChunkKey key) const {
  const MutexLock lock(mutex_);
  const auto at = entries_.find(key);
  return at == entries_.end() ? std::vector<VisitRef>() : at->second.visits;
}

std::vector<VisitRef> ChunkAgenda::claim_all(ChunkKey key) noexcept {
  const MutexLock lock(mutex_);
  const auto at = entries_.find(key);
  if (at == entries_.end()) return {};
  std::vector<VisitRef> visits = std::move(at->second.visits);
  forget(at);
  return visits;
}

std::size_t ChunkAgenda::take_fetched(ChunkKey key, ByteBuffer& raw) {
  const MutexLock lock(mutex_);
  const auto at = entries_.find(key);
  if (at == entries_.end() || at->second.state != State::fetched) return 0;
  at->second.state = State::taken;
  end_flight(std::exchange(raw, std::move(at->second.buffer)));
  return at->second.bytes;
}

bool ChunkAgenda::note_read(bool blocked) {
  if (most_depth_ == 0) return false;
  const MutexLock lock(mutex_);
  const bool waited_before = patience_ > 0;
  if (blocked) {
    patience_ = kPatience;
  } else if (patience_ > 0) {
    --patience_;
  }
  if (!waited_before && patience_ > 0) work_.notify_all();
  return patience_ > 0;
}

std::optional<ChunkKey> ChunkAgenda::next_to_read() {
  MutexLock lock(mutex_);
  while (!stopped_ && (patience_ == 0 || announced_.empty() || in_flight_ >= depth_)) work_.wait(lock);
  if (stopped_) return std::nullopt;
  const ChunkKey key = announced_.begin()->second;
  announced_.erase(announced_.begin());
  entries_.at(key).state = State::reading;
  ++in_flight_;
  return key;
}

ByteBuffer ChunkAgenda::buffer(std::size_t bytes) {
  ByteBuffer buffer;
  {
    const MutexLock lock(mutex_);
    if (!spare_.empty()) {
      buffer = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  buffer.resize_discard(bytes);
  return buffer;
}

void ChunkAgenda::fetched(ChunkKey key, ByteBuffer buffer, std::size_t bytes) noexcept {
  std::vector<Wake> waiting;
  {
    const MutexLock lock(mutex_);
    const auto at = entries_.find(key);
    // An entry made for the same chunk after this one was forgotten must not be completed here.
    const bool wanted = at != entries_.end() && at->second.state == State::reading;
    if (wanted) {
      Entry& entry = at->second;
      waiting.swap(entry.waiting);
      if (bytes > 0) {
        entry.state = State::fetched;
        entry.buffer = std::move(buffer);
        entry.bytes = bytes;
      } else {
        entry.state = State::taken;
      }
    }
    // Otherwise the entry has the buffer.
    // NOLINTNEXTLINE(bugprone-use-after-move)
    if (!wanted || bytes == 0) end_flight(std::move(buffer));
  }
  for (const Wake& wake : waiting) wake();
}

void ChunkAgenda::set_depth(std::size_t depth) {
  const MutexLock lock(mutex_);
  depth_ = std::min(depth, most_depth_);
  work_.notify_all();
}

void ChunkAgenda::stop() {
  const MutexLock lock(mutex_);
  stopped_ = true;
  work_.notify_all();
}

bool ChunkAgenda::contains(ChunkKey key) const {
  const MutexLock lock(mutex_);
  return entries_.contains(key);
}

bool ChunkAgenda::is_unclaimed(const VisitRef& visit) const {
  const MutexLock lock(mutex_);
  const auto at = entries_.find(key_of(visit.visit()));
  return at != entries_.end() && std::ranges::find(at->second.visits, visit) != at->second.visits.end();
}

std::size_t ChunkAgenda::size() const {
  const MutexLock lock(mutex_);
  return entries_.size();
}

void ChunkAgenda::forget(Entries::iterator at) {
  if (at->second.state == State::announced) announced_.erase(at->second.deadline);
  if (at->second.state == State::fetched) end_flight(std::move(at->second.buffer));
  entries_.erase(at);
}

void ChunkAgenda::end_flight(ByteBuffer buffer) noexcept {
  --in_flight_;
  if (buffer.data() != nullptr && spare_.size() < most_depth_) spare_.push_back(std::move(buffer));
  if (patience_ > 0) work_.notify_one();
}

}  // namespace h5feed
