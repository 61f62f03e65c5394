// SPDX-License-Identifier: Apache-2.0
// Loads the chunks that the visits of planned batches need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cache/chunk_cache.hpp"
#include "cache/row_cache.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/chunks/batch_job.hpp"
#include "flow/chunks/chunk_agenda.hpp"
#include "flow/chunks/read_ahead.hpp"
#include "flow/chunks/row_future.hpp"
#include "flow/chunks/row_keeper.hpp"
#include "flow/chunks/scratch_pool.hpp"
#include "flow/chunks/served_rows.hpp"
#include "flow/measure/counters.hpp"
#include "flow/measure/thread_clocks.hpp"
#include "h5feed/data_loader.hpp"

namespace h5feed {

/// Owns the loading of chunks: the agenda of visits, the read buffers, the reader threads and the rows kept
/// apart from chunks; borrows the cache. Copies no rows itself: it returns claimed visits together with the
/// bytes that hold their rows (`Claim`), the caller copies the rows and calls `finish`. Thread-safe, except
/// `start_read_ahead` and `stop_read_ahead`.
class ChunkLoader {
 public:
  /// Dependencies; all must outlive the loader.
  struct Parts {
    const DatasetState& dataset;
    const ResolvedOptions& options;
    ChunkCache& cache;
    std::uint64_t kept_samples = 0;  ///< Samples whose rows are kept apart from chunks; 0 keeps whole chunks
    Counters& counters;
    RowKeeper::OnDevice on_device = {};            ///< Of the samples of the data; empty: none is on a GPU
    std::optional<std::int64_t> reads_ahead = {};  ///< Chunks read ahead at first; unset: `io_depth`
    ThreadClocks* clocks = nullptr;                ///< Clocks that the reader threads enlist in; null: none
    SpareMemory* spare = nullptr;                  ///< Lends memory to decodes; null: they are not bounded
  };
  using Wake = ChunkAgenda::Wake;

  /// Starts no thread. Throws std::bad_alloc.
  explicit ChunkLoader(const Parts& parts);
  ChunkLoader(const ChunkLoader&) = delete;
  ChunkLoader& operator=(const ChunkLoader&) = delete;

  /// Visits that the caller now has to do, and the memory that holds their rows. Keeps this memory, and the
  /// right to decode if the chunk was loaded for it, until it is destroyed. Must not outlive the loader.
  struct Claim {
    ChunkKey key = {};
    /// All visits that were waiting for the chunk, or one. Empty if another thread does them, or if there
    /// were none.
    std::vector<VisitRef> visits = {};
    // Order matters: a chunk that does not stay in the cache counts as being decoded, so its pin is released
    // first.
    std::optional<ScratchPool::Lease> scratch = {};
    std::optional<ChunkCache::Pin> chunk =
        {};                                    ///< Decoded chunk; unset with `rows`, or if nothing was loaded
    std::optional<RowCache::Lease> rows = {};  ///< Kept rows of the only visit, in its order
    RowFuture::DueTimes due_times = {};        ///< Snapshot from before the visits were claimed
  };

  /// Puts the visits of a planned job on the agenda. Throws std::bad_alloc; none of them is then on it.
  void announce(const std::shared_ptr<BatchJob>& job);

  /// Takes a visit of an abandoned or failed job off the agenda; a direct visit was never on it. Returns
  /// false if another thread has claimed it.
  bool drop(const VisitRef& ref) noexcept { return ref.visit().direct || agenda_.claim(ref); }

  /// Claims a visit that is on the agenda, and loads its chunk unless kept rows or the cache have it. If it
  /// loads the chunk, claims all visits that wait for it. Without visits in the result, either another thread
  /// does the visit, or the chunk is being loaded or fetched and `wake` will be called. Blocks for
  /// reads and decodes. Throws FileError, ChunkError, std::bad_alloc; the visit is then off the agenda, and
  /// the caller counts it as done.
  Claim claim(const VisitRef& ref, const Wake& wake);

  /// Loads one piece of a chunk of samples that no batch in preparation needs yet and the cache lacks.
  /// `still_ahead` returns whether this is still the case; it is asked again before the load. Ignores errors;
  /// the visit that needs the chunk will meet them.
  Claim load_ahead(std::uint64_t chunk_of_samples, std::uint64_t piece,
                   const std::function<bool()>& still_ahead);

  /// Loads a chunk on the agenda whose stored bytes need no decoding, unless the cache has it. Ignores
  /// errors; the visit that needs the chunk will meet them.
  Claim load_stored(ChunkKey key);

  /// Ends a claim after its rows were copied: decides whether the chunk, or which of its rows, are worth
  /// keeping.
  void finish(Claim& claim) noexcept;

  /// Returns a chunk that need not be on the agenda; loads it unless the cache has it. Blocks for reads and
  /// decodes, also those of other threads. Throws FileError, ChunkError, std::bad_alloc.
  ChunkCache::Pin pin(ChunkKey key);

  /// Loads a chunk unless the cache has it. Returns false and does nothing if the cache has no room without
  /// an eviction. Ignores errors of the file; the visit that needs the chunk will meet them.
  bool preload(ChunkKey key);

  /// Lets reader threads fetch the stored bytes of announced chunks, from the first load on that waits for
  /// storage. `load_stored` is called on these threads for chunks whose stored bytes need no decoding. Call
  /// it before other threads use the loader.
  void start_read_ahead(std::function<void(ChunkKey)> load_stored);

  /// Ends the reader threads; blocks until their current reads end. Call it after other threads have stopped
  /// using the loader. Does nothing without `start_read_ahead`.
  void stop_read_ahead() noexcept {
    // Reader threads use `read_ahead_` until they end, so it must stay set.
    if (read_ahead_) read_ahead_->stop();
  }

  /// Lets at most `depth` stored chunks be read ahead at once from now on; at most `io_depth` in any case.
  /// Needs `start_read_ahead`.
  void set_reads_ahead(std::int64_t depth) { read_ahead_->set_depth(static_cast<std::size_t>(depth)); }

  /// Numbers the samples of all rounds and predicts when their rows are due.
  RowFuture& future() noexcept { return future_; }

  /// Returns the number of pieces of a chunk of samples of the data.
  std::uint64_t pieces() const noexcept { return parts_.dataset.data.map.pieces(); }

  /// Drops kept rows of turns before `turn`, which no batch will ask for.
  void forget_before(std::uint64_t turn) noexcept;

  /// Returns the memory of the kept rows, in bytes.
  std::uint64_t row_bytes_held() const;

 private:
  /// One field that goes through the cache; empty for all others.
  struct Lane {
    const Field* field = nullptr;
    ServedRows served;
    std::unique_ptr<RowKeeper> keeper;  ///< Null unless rows are kept instead of chunks
  };

  bool in_memory(ChunkKey key) const;
  bool all_on_device(std::uint64_t chunk_of_samples) const;
  void claim_through(const VisitRef& ref, const Wake& wake, std::optional<ChunkCache::Lookup>& found,
                     Claim& claim);
  bool claim_kept(const VisitRef& ref, Claim& claim);
  void load_if_absent(ChunkKey key, ReadScratch& scratch, const std::function<bool()>& wanted, Claim& claim);
  void load_claiming(ChunkKey key, ChunkCache::Load& load, ReadScratch& scratch, Claim& claim);
  void read_into(ChunkKey key, ChunkCache::Load& load, ReadScratch& scratch);
  std::size_t chunk_bytes(ChunkKey key) const noexcept {
    return lanes_[key.field].field->reader->chunk_bytes();
  }

  const Parts parts_;
  RowFuture future_;
  ChunkAgenda agenda_;
  ScratchPool scratch_pool_;
  std::vector<Lane> lanes_;              // one per field
  std::optional<ReadAhead> read_ahead_;  // last: its threads use what is above
};

}  // namespace h5feed
