// SPDX-License-Identifier: Apache-2.0
// Assembles a batch: plans its visits and copies its rows out of chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "batch/buffer_pool.hpp"
#include "batch/device.hpp"
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

namespace h5feed {

/// Plans and executes jobs and keeps no state per job. Thread-safe if each visit of a job runs once, after
/// `plan` of the job returned.
class BatchAssembler {
 public:
  /// Dependencies; all must outlive the assembler.
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

  /// Creates the kernels and pools of every field. Throws OptionError if the options do not fit a field, or a
  /// field in memory has a value that its delivered type cannot hold; std::bad_alloc.
  explicit BatchAssembler(const Parts& parts);

  using Scratch = DirectRows::Scratch;

  /// Fills in the job's samples, memory, resident fields and visits. Returns false if no output memory is
  /// free now and `wait` is false; plan the job again later. With `wait`, blocks until memory is free. Throws
  /// std::bad_alloc, DeviceError.
  bool plan(BatchJob& job, bool wait) const;

  /// Records that the visits of a planned job are on the agenda.
  void planned(const BatchJob& job) const { parts_.future.planned(job.first_turn); }

  /// Result of a visit or of loading a chunk.
  struct Outcome {
    /// Visits that are done now: this one and, if it loaded a chunk, others that waited for that chunk. Empty
    /// if another thread has done the visit, or if the chunk is being loaded or fetched; `resume` is then
    /// kept and will be called.
    std::vector<VisitRef> finished = {};
    bool read = false;   ///< True if the file was read
    bool slept = false;  ///< True if the thread waited for storage
  };

  /// Does one visit, which must be on the agenda unless it is direct. Blocks for reads and decodes. Throws
  /// FileError, ChunkError, OptionError, std::bad_alloc; the visit is then off the agenda, and the caller
  /// counts it as done.
  Outcome visit(const VisitRef& ref, ChunkAgenda& agenda, const ChunkCache::Resume& resume,
                Scratch& scratch) const;

  /// Loads all pieces of a chunk of samples that no batch in preparation needs yet and the cache lacks.
  /// `still_ahead` returns whether this is still the case; it is asked again before the load. Ignores errors;
  /// the visit that needs the chunk will meet them.
  Outcome load_ahead(std::uint64_t chunk, ChunkAgenda& agenda,
                     const std::function<bool()>& still_ahead) const;

  /// Loads a chunk whose stored bytes need no decoding, unless the cache has it. Any thread may call it.
  /// Ignores errors; the visit that needs the chunk will meet them.
  Outcome load_stored(ChunkKey key, ChunkAgenda& agenda) const;

  /// Drops kept rows of turns before `turn`, which no batch will ask for.
  void forget_before(std::uint64_t turn) const noexcept;

  /// Returns the memory of the kept rows, in bytes.
  std::uint64_t row_bytes_held() const;

  /// Returns the dependencies of the reader threads for `agenda`. The caller sets `load_stored`.
  ReadAhead::Parts read_ahead_parts(ChunkAgenda& agenda) const;

  /// Completes a batch after its last visit: assembles the fields whose samples span several chunks.
  void finish(BatchJob& job) const;

  /// Starts the copy to a GPU after `finish`; does nothing on the CPU. `trace` may be null.
  void hand_to_device(BatchJob& job, TraceSink* trace) const noexcept;

 private:
  /// Kernel and buffers of one field.
  struct Lane {
    const Field* field = nullptr;  ///< Null if absent from the dataset or ragged
    std::unique_ptr<const RaggedRows> ragged;
    std::unique_ptr<const RowKernel> kernel;
    std::size_t row_bytes = 0;            ///< Bytes of a delivered sample
    std::unique_ptr<BufferPool> staging;  ///< Null unless samples span chunks
    std::unique_ptr<RowKeeper> keeper;    ///< Null unless rows are kept instead of chunks
  };

  Lane make_lane(std::size_t lane_number, RowKernelSpec spec, std::size_t row_bytes);
  void place(BatchJob& job, std::size_t lane_number, const std::byte* row, std::uint32_t position) const;
  void plan_lane(BatchJob& job, std::size_t lane_number) const;
  void read_ragged(BatchJob& job, const Visit& visit) const;
  bool serve_kept(const VisitRef& ref, ChunkAgenda& agenda) const;
  bool in_memory(ChunkKey key, const ChunkAgenda& agenda) const;
  Outcome load_uncached(ChunkKey key, ChunkAgenda& agenda, ReadScratch& scratch,
                        const std::function<bool()>& wanted) const;
  Outcome load_chunk(ChunkKey key, ChunkAgenda& agenda, ChunkCache::Load& load, ReadScratch& scratch) const;
  void serve(const VisitRef& ref, ChunkCache::Pin& pin) const;
  void keep_rows(ChunkKey key, ChunkCache::Pin& pin, std::span<const VisitRef> served,
                 const RowFuture::DueTimes& due_times) const;
  template <typename RowInChunk>
  void gather(BatchJob& job, const Visit& visit, const RowInChunk& row_in_chunk) const;

  Parts parts_;
  BatchOutputs outputs_;
  std::vector<Lane> lanes_;
  std::optional<DirectRows> direct_;        // only if rows of the data bypass the cache
  mutable std::vector<ServedRows> served_;  // thread-safe
  std::unique_ptr<ScratchPool> scratch_pool_;
};

}  // namespace h5feed
