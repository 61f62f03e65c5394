// SPDX-License-Identifier: Apache-2.0
#include "flow/chunks/chunk_loader.hpp"

#include <algorithm>
#include <exception>
#include <semaphore>
#include <utility>
#include <variant>

#include "flow/measure/sleep_probe.hpp"
#include "h5feed/error.hpp"

namespace h5feed {

ChunkLoader::ChunkLoader(const Parts& parts)
    : parts_(parts),
      future_(static_cast<std::uint64_t>(parts.options.batch_size)),
      agenda_(parts.options.num_workers > 0 ? static_cast<std::size_t>(parts.options.io_depth) : 0),
      scratch_pool_(static_cast<std::size_t>(parts.options.concurrent_decodes), parts.spare),
      lanes_(parts.dataset.num_fields()) {
  for (std::size_t number = 0; number < lanes_.size(); ++number) {
    const Field* const field = parts.dataset.field(number);
    if (field == nullptr || field->is_resident()) continue;
    Lane& lane = lanes_[number];
    lane.field = field;
    lane.served = ServedRows(field->reader->num_chunks());
    const bool bypassed = number == kData && parts.options.row_reads;
    if (!bypassed && parts.kept_samples > 0) {
      lane.keeper = std::make_unique<RowKeeper>(*field, future_, parts.kept_samples,
                                                number == kData ? parts.on_device : RowKeeper::OnDevice());
    }
  }
}

void ChunkLoader::announce(const std::shared_ptr<BatchJob>& job) {
  agenda_.add(job);
  future_.planned(job->first_turn);  // does not throw: the visits are on the agenda
}

ChunkLoader::Claim ChunkLoader::claim(const VisitRef& ref, const Wake& wake) {
  Claim claim{.key = {ref.visit().field, ref.visit().chunk}};
  std::optional<ChunkCache::Lookup> found;
  try {
    claim_through(ref, wake, found, claim);
  } catch (...) {
    // Claim before a load in `found` is abandoned: the next thread to try might succeed and do this visit as
    // well. If another thread has done it already, the error is of no consequence.
    if (agenda_.claim(ref)) throw;
  }
  return claim;
}

// Throws only while the visit is not claimed. `found` keeps the right to load, if there is one.
void ChunkLoader::claim_through(const VisitRef& ref, const Wake& wake,
                                std::optional<ChunkCache::Lookup>& found, Claim& claim) {
  const Lane& lane = lanes_[ref.visit().field];
  if (lane.keeper && claim_kept(ref, claim)) return;
  if (agenda_.begin(ref, wake) != ChunkAgenda::Turn::go) return;
  found.emplace(agenda_.look_up(ref, parts_.cache, chunk_bytes(claim.key), wake));
  if (auto* const load = std::get_if<ChunkCache::Load>(&*found)) {
    claim.scratch.emplace(scratch_pool_.acquire());
    load_claiming(claim.key, *load, **claim.scratch, claim);
    if (!claim.visits.empty()) Counters::add(parts_.counters.cache_hits, claim.visits.size() - 1);
  } else if (auto* const pin = std::get_if<ChunkCache::Pin>(&*found)) {
    claim.visits.reserve(1);
    if (lane.keeper) claim.due_times = future_.due_times();
    if (!agenda_.claim(ref)) return;
    claim.visits.push_back(ref);
    claim.chunk.emplace(std::move(*pin));
    Counters::add(parts_.counters.cache_hits, 1);
  }
}

// Claims the visit if all of its rows are kept. Throws only while the visit is not claimed.
bool ChunkLoader::claim_kept(const VisitRef& ref, Claim& claim) {
  const Visit& visit = ref.visit();
  claim.visits.reserve(1);
  std::optional<RowCache::Lease> rows = lanes_[visit.field].keeper->take(*ref.job, visit);
  if (!rows || !agenda_.claim_without_chunk(ref)) return false;
  claim.visits.push_back(ref);
  claim.rows.emplace(*std::move(rows));
  Counters::add(parts_.counters.cache_hits, 1);
  return true;
}

ChunkLoader::Claim ChunkLoader::load_ahead(std::uint64_t chunk_of_samples, std::uint64_t piece,
                                           const std::function<bool()>& still_ahead) {
  const Lane& lane = lanes_[kData];
  Claim claim{.key = {kData, chunk_of_samples * pieces() + piece}};
  const ChunkKey key = claim.key;
  if (!lane.field->map.in_use(key.chunk)) return claim;
  // The chunk was planned in the meantime: its tasks load it, or a reader thread is fetching it.
  if (agenda_.contains(key)) return claim;
  if (lane.keeper && lane.keeper->holds_due_rows(key.chunk)) return claim;
  if (all_on_device(chunk_of_samples)) return claim;
  claim.scratch.emplace(scratch_pool_.acquire());
  // Batches that were planned meanwhile may have been served already, and the chunk be gone again.
  const auto wanted = [&] { return still_ahead() || agenda_.contains(key); };
  load_if_absent(key, **claim.scratch, wanted, claim);
  return claim;
}

ChunkLoader::Claim ChunkLoader::load_stored(ChunkKey key) {
  Claim claim{.key = key};
  ReadScratch not_needed;
  load_if_absent(
      key, not_needed, [&] { return agenda_.contains(key); }, claim);
  return claim;
}

void ChunkLoader::load_if_absent(ChunkKey key, ReadScratch& scratch, const std::function<bool()>& wanted,
                                 Claim& claim) {
  if (parts_.cache.contains(key)) return;
  try {
    ChunkCache::Lookup found = parts_.cache.lookup(key, chunk_bytes(key), [] {});
    auto* const load = std::get_if<ChunkCache::Load>(&found);
    // Asked while the load is this thread's: nobody else can load the chunk now.
    if (load == nullptr || !wanted()) return;
    load_claiming(key, *load, scratch, claim);
    Counters::add(parts_.counters.cache_hits, claim.visits.size());
  } catch (const std::exception&) {
  }
}

// Loads the chunk and claims every visit that waits for it, so that their rows are copied while the CPU
// caches hold it.
void ChunkLoader::load_claiming(ChunkKey key, ChunkCache::Load& load, ReadScratch& scratch, Claim& claim) {
  read_into(key, load, scratch);
  if (lanes_[key.field].keeper) claim.due_times = future_.due_times();
  claim.visits = agenda_.claim_all(key);
  claim.chunk.emplace(std::move(load).publish());
}

// Fills the buffer of `load` with the decoded chunk.
void ChunkLoader::read_into(ChunkKey key, ChunkCache::Load& load, ReadScratch& scratch) {
  const ChunkReader& reader = *lanes_[key.field].field->reader;
  Counters::add(parts_.counters.cache_misses, 1);
  const std::span<std::byte> out = load.buffer();
  const std::size_t fetched_bytes = agenda_.take_fetched(key, scratch.raw);
  const CountedRetries retries(parts_.counters);
  const SleepProbe probe;
  const ReadCost cost =
      fetched_bytes == 0
          ? reader.read_chunk(key.chunk, out, scratch)
          : reader.decode_chunk(key.chunk, scratch.raw.span().first(fetched_bytes), out, scratch);
  const bool slept = probe.slept();
  count_read(parts_.counters, cost);
  if (slept) Counters::add(parts_.counters.storage_wait_ns, cost.read_ns);
  Counters::add(parts_.counters.bytes_decoded, reader.chunk_bytes());
  if (key.field == kData) Counters::add(parts_.counters.chunk_loads, 1);
  if (read_ahead_ && cost.bytes_read > 0 && !cost.fallback) read_ahead_->note(slept);
}

void ChunkLoader::finish(Claim& claim) noexcept {
  Lane& lane = lanes_[claim.key.field];
  if (claim.rows) {
    const VisitRef& ref = claim.visits.front();
    lane.keeper->give_back(*ref.job, ref.visit(), *std::move(claim.rows));
    return;
  }
  if (!claim.chunk) return;
  for (const VisitRef& ref : claim.visits) {
    if (ref.job->is_lost() || lane.field->belonging.around_anchors()) continue;
    const std::uint64_t rows =
        lane.field->map.samples_in(claim.key.chunk, ref.job->key()) * lane.field->belonging.samples_per_row();
    if (lane.served.add(claim.key.chunk, ref.job->round, ref.visit().num_rows, rows)) claim.chunk->retire();
  }
  if (!lane.keeper) return;
  lane.keeper->keep(claim.key.chunk, claim.chunk->bytes().data(), claim.visits, claim.due_times);
  claim.chunk->retire();
}

ChunkCache::Pin ChunkLoader::pin(ChunkKey key) {
  while (true) {
    // Shared with the loading thread, which may still be in release() after this thread has continued.
    const auto loaded = std::make_shared<std::binary_semaphore>(0);
    ChunkCache::Lookup found = parts_.cache.lookup(key, chunk_bytes(key), [loaded] { loaded->release(); });
    if (auto* const pin = std::get_if<ChunkCache::Pin>(&found)) {
      Counters::add(parts_.counters.cache_hits, 1);
      return std::move(*pin);
    }
    if (auto* const load = std::get_if<ChunkCache::Load>(&found)) {
      ScratchPool::Lease scratch = scratch_pool_.acquire();
      read_into(key, *load, *scratch);
      return std::move(*load).publish();
    }
    loaded->acquire();
  }
}

bool ChunkLoader::preload(ChunkKey key) {
  if (parts_.cache.contains(key)) return true;
  if (!parts_.cache.has_room(chunk_bytes(key))) return false;
  ChunkCache::Lookup found = parts_.cache.lookup(key, chunk_bytes(key), [] {});
  auto* const load = std::get_if<ChunkCache::Load>(&found);
  if (load == nullptr) return true;
  ScratchPool::Lease scratch = scratch_pool_.acquire();
  try {
    read_into(key, *load, *scratch);
  } catch (const Error&) {
    return true;
  }
  std::move(*load).publish();
  return true;
}

void ChunkLoader::start_read_ahead(std::function<void(ChunkKey)> load_stored) {
  std::vector<const ChunkReader*> readers;
  for (const Lane& lane : lanes_)
    readers.push_back(lane.field == nullptr ? nullptr : lane.field->reader.get());
  const std::size_t max_threads =
      parts_.options.self_tuning ? ReadAhead::kMaxTunedThreads : ReadAhead::kMaxThreads;
  read_ahead_.emplace(ReadAhead::Parts{agenda_, [this](ChunkKey key) { return in_memory(key); },
                                       std::move(readers), parts_.counters, std::move(load_stored),
                                       parts_.clocks, max_threads});
  set_reads_ahead(parts_.reads_ahead.value_or(parts_.options.io_depth));
}

// Returns whether all visits of the chunk can be served from memory.
bool ChunkLoader::in_memory(ChunkKey key) const {
  if (parts_.cache.contains(key)) return true;
  const RowKeeper* const keeper = lanes_[key.field].keeper.get();
  return keeper != nullptr && std::ranges::all_of(agenda_.unclaimed(key), [&](const VisitRef& ref) {
           return keeper->holds(*ref.job, ref.visit());
         });
}

// Returns whether no batch will need the chunk, because a GPU keeps all of its samples.
bool ChunkLoader::all_on_device(std::uint64_t chunk_of_samples) const {
  if (!parts_.on_device) return false;
  const RowLayout::Rows rows = lanes_[kData].field->map.rows().rows_of(chunk_of_samples);
  for (std::uint64_t row = rows.first; row < rows.end; ++row) {
    if (!parts_.on_device(row)) return false;
  }
  return true;
}

void ChunkLoader::forget_before(std::uint64_t turn) noexcept {
  for (const Lane& lane : lanes_) {
    if (lane.keeper) lane.keeper->forget_before(turn);
  }
}

std::uint64_t ChunkLoader::row_bytes_held() const {
  std::uint64_t bytes = 0;
  for (const Lane& lane : lanes_) {
    if (lane.keeper) bytes += lane.keeper->held_bytes();
  }
  return bytes;
}

}  // namespace h5feed
