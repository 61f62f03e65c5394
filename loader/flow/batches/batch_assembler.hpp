// SPDX-License-Identifier: Apache-2.0
// The work on one batch: which chunks it needs, and its rows copied out of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "batch/buffer_pool.hpp"
#include "batch/row_kernel.hpp"
#include "cache/chunk_cache.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/batches/batch_outputs.hpp"
#include "flow/batches/direct_rows.hpp"
#include "flow/batches/field_batch.hpp"
#include "flow/chunks/batch_job.hpp"
#include "flow/chunks/chunk_agenda.hpp"
#include "flow/chunks/read_ahead.hpp"
#include "flow/chunks/row_future.hpp"
#include "flow/chunks/row_keeper.hpp"
#include "flow/chunks/scratch_pool.hpp"
#include "flow/chunks/served_rows.hpp"
#include "flow/measure/counters.hpp"
#include "flow/resolve/placement.hpp"
#include "flow/resolve/resolve_options.hpp"
#include "h5feed/device.hpp"

namespace h5feed {

/// Stateless towards batches; thread-safe as long as each visit of a job runs once and `plan` of the
/// job came before.
class BatchAssembler {
 public:
  /// What the assembler works with. All outlive it.
  struct Parts {
    const DatasetState& dataset;
    const ResolvedOptions& options;
    const DeliveryFormat& format;
    const Placement& placement;
    ChunkCache& cache;
    RowFuture& future;
    Device& device;
    Counters& counters;
  };

  /// Throws OptionError, std::bad_alloc.
  explicit BatchAssembler(const Parts& parts);

  using Scratch = DirectRows::Scratch;

  /// Fills in the job's samples, memory, resident fields and visits; false where there is no memory now and
  /// `wait` is not set: the job is then to be planned later. Throws std::bad_alloc, DeviceError.
  bool plan(BatchJob& job, bool wait) const;

  /// After the visits of a planned job were put on the agenda.
  void planned(const BatchJob& job) const { parts_.future.planned(job.first_turn); }

  /// What came of a visit.
  struct Outcome {
    /// Visits that are done now: this one and, where it loaded a chunk, others that waited for that
    /// chunk; none when another thread has done it, or is loading or fetching the chunk: then `resume`
    /// was kept and will be called.
    std::vector<VisitRef> finished = {};
    bool read = false;   ///< the file was read
    bool slept = false;  ///< and the thread waited for it
  };

  /// Does one visit, which is on the agenda unless it is direct. When it throws (FileError, ChunkError,
  /// std::bad_alloc) the visit is off the agenda and to be counted as done by the caller.
  Outcome visit(const VisitRef& ref, ChunkAgenda& agenda, const ChunkCache::Resume& resume,
                Scratch& scratch) const;

  /// Loads a chunk of samples, all its pieces, that no batch in preparation needs yet, unless the cache
  /// has it. An error is left to the visit that will meet it.
  Outcome load_ahead(std::uint64_t chunk, ChunkAgenda& agenda) const;

  /// Loads a chunk whose stored bytes are its values, unless the cache has it: nothing to decode, so any
  /// thread may. An error is left to the visit that will meet it.
  Outcome load_stored(ChunkKey key, ChunkAgenda& agenda) const;

  /// Rows that were kept for turns before `turn` will not be asked for any more.
  void forget_before(std::uint64_t turn) const noexcept;

  /// Memory of the rows kept, in bytes.
  std::uint64_t row_bytes_held() const;

  /// What fetches the chunks on an agenda ahead of the visits.
  ReadAhead::Parts read_ahead_parts(ChunkAgenda& agenda) const;  // `load_stored` is left empty

  /// After the last visit: what needs all of a sample's chunks.
  void finish(BatchJob& job) const;

  /// After that: a GPU begins with the copy. `trace` may be null.
  void hand_to_device(BatchJob& job, TraceSink* trace) const noexcept;

 private:
  /// One field on its way from chunk to batch.
  struct Lane {
    const Field* field = nullptr;  ///< null: the dataset has no such field, or it is ragged
    std::unique_ptr<const RaggedRows> ragged;
    std::unique_ptr<const RowKernel> kernel;
    std::size_t row_bytes = 0;            ///< delivered
    std::unique_ptr<BufferPool> staging;  ///< only where samples span chunks
    std::unique_ptr<RowKeeper> keeper;    ///< only where rows are kept instead of chunks
  };

  Lane make_lane(std::size_t lane_number, RowKernelSpec spec, std::size_t row_bytes);
  void place(BatchJob& job, std::size_t lane_number, const std::byte* row, std::uint32_t position) const;
  void plan_lane(BatchJob& job, std::size_t lane_number) const;
  void read_ragged(BatchJob& job, const Visit& visit) const;
  bool serve_kept(const VisitRef& ref, ChunkAgenda& agenda) const;
  bool in_memory(ChunkKey key, const ChunkAgenda& agenda) const;
  Outcome load_uncached(ChunkKey key, ChunkAgenda& agenda, ReadScratch& scratch) const;
  Outcome load_chunk(ChunkKey key, ChunkAgenda& agenda, ChunkCache::Load& load, ReadScratch& scratch) const;
  void serve(const VisitRef& ref, ChunkCache::Pin& pin) const;
  void keep_rows(ChunkKey key, ChunkCache::Pin& pin, std::span<const VisitRef> served,
                 const RowFuture::DueTimes& due_times) const;
  template <typename RowInChunk>
  void gather(BatchJob& job, const Visit& visit, const RowInChunk& row_in_chunk) const;

  Parts parts_;
  BatchOutputs outputs_;
  std::vector<Lane> lanes_;
  std::optional<DirectRows> direct_;        // only where rows of the data bypass the cache
  mutable std::vector<ServedRows> served_;  // thread-safe
  std::unique_ptr<ScratchPool> scratch_pool_;
};

}  // namespace h5feed
