// The work on one batch: which chunks it needs, and its rows copied out of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/byte_buffer.hpp"
#include "batch/buffer_pool.hpp"
#include "batch/row_kernel.hpp"
#include "cache/chunk_cache.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/batch_job.hpp"
#include "flow/counters.hpp"
#include "flow/resolve_options.hpp"
#include "flow/scratch_pool.hpp"
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
    ChunkCache& cache;
    Device& device;
    Counters& counters;
  };

  /// Throws OptionError for parameters of `normalize` that do not fit the data.
  BatchAssembler(const Parts& parts, const std::optional<Normalize>& normalize);

  /// Memory of one worker thread that its visits reuse.
  struct Scratch {
    ByteBuffer rows;
  };

  /// Fills in the job's samples, memory, resident fields and visits. Throws std::bad_alloc.
  void plan(BatchJob& job) const;

  /// Does one visit. False when another thread is loading the chunk: `resume` was kept and will be
  /// called once it is there. Throws FileError, ChunkError, std::bad_alloc.
  bool visit(BatchJob& job, const Visit& visit, const ChunkCache::Resume& resume, Scratch& scratch) const;

  /// After the last visit: what needs all of a sample's chunks.
  void finish(BatchJob& job) const;

 private:
  /// One field on its way from chunk to batch.
  struct Lane {
    const Field* field = nullptr;  ///< null: the dataset has no such field
    std::unique_ptr<const RowKernel> kernel;
    std::size_t row_bytes = 0;            ///< delivered
    std::unique_ptr<BufferPool> staging;  ///< only where samples span chunks
  };

  Lane make_lane(const Field& field, DType to, const std::optional<Normalize>& normalize,
                 bool transposes) const;
  void plan_lane(BatchJob& job, std::size_t lane_number) const;
  void plan_direct(BatchJob& job, std::size_t lane_number) const;
  void gather(BatchJob& job, const Visit& visit, const std::byte* chunk) const;
  void read_direct(BatchJob& job, const Visit& visit, Scratch& scratch) const;
  std::byte* delivered(BatchJob& job, std::size_t lane_number) const noexcept;

  Parts parts_;
  std::array<Lane, kFields> lanes_;
  std::unique_ptr<ScratchPool> scratch_pool_;
};

}  // namespace h5feed
