// SPDX-License-Identifier: Apache-2.0
// Counters of a loader's life so far.
#pragma once

#include <cstdint>
#include <optional>

#include "h5feed/device.hpp"
#include "h5feed/export.hpp"
#include "h5feed/gpu_probe.hpp"

namespace h5feed {

/// A snapshot; totals since construction. Bytes are bytes, times are nanoseconds summed over threads
/// except where stated.
struct H5FEED_EXPORT LoaderStats {
  std::uint64_t batches = 0;          ///< delivered
  std::uint64_t samples = 0;          ///< delivered
  std::uint64_t samples_echoed = 0;   ///< of them in repeats of a batch
  std::uint64_t bytes_delivered = 0;  ///< sample bytes as stored (decoded), data and target
  std::uint64_t errors = 0;           ///< batches that ended in an exception

  std::uint64_t cache_hits = 0;    ///< chunk visits of batches served from memory
  std::uint64_t cache_misses = 0;  ///< chunks that had to be read and decoded, for a visit or ahead of one
  std::uint64_t chunk_loads = 0;   ///< chunks of samples (not of targets) read and decoded
  std::uint64_t read_calls = 0;    ///< reads of the file
  std::uint64_t bytes_read = 0;    ///< from the file
  std::uint64_t bytes_decoded = 0;
  std::uint64_t rows_direct = 0;      ///< rows read straight into the batch
  std::uint64_t fallback_chunks = 0;  ///< chunks read through H5Dread under its lock

  std::uint64_t read_ns = 0;
  std::uint64_t decode_ns = 0;
  std::uint64_t gather_ns = 0;
  std::uint64_t transfer_ns = 0;  ///< putting batches onto GPUs
  std::uint64_t wait_ns = 0;      ///< the consumer's wall time inside `next()`
  /// Of `wait_ns`, while there was no free slot for the next batch: because copies waited for the consumer's
  /// own work on the GPU, which makes the consumer the slow side; because copies were running.
  std::uint64_t wait_gpu_ns = 0;
  std::uint64_t wait_transfer_ns = 0;
  std::uint64_t epoch_ns = 0;  ///< wall time from the start of epochs to their end (or to now)

  std::uint64_t cache_bytes = 0;             ///< held by the cache now
  std::uint64_t outputs_held_bytes = 0;      ///< by the consumer now; outside the budget
  std::uint64_t outputs_allocated = 0;       ///< output buffers allocated over the loader's life
  std::uint64_t in_flight_bytes = 0;         ///< host memory of batches in preparation or ready, now
  std::uint64_t pinned_bytes = 0;            ///< host memory that is pinned for copies to a GPU
  std::uint64_t pageable_batches = 0;        ///< assembled beside it, as none was free: slower copies
  std::optional<GpuMemory> gpu_memory = {};  ///< of the GPU that the loader delivers to; unset on the CPU

  /// While epochs ran; without readings where there is no `gpu_probe`.
  GpuUse gpu;

  /// Share of chunk visits served from memory, 0 … 1; 0 when there was none.
  double cache_hit_rate() const noexcept;
  /// `wait_ns / epoch_ns`, 0 … 1.
  double wait_fraction() const noexcept;
  /// Bytes decoded per byte delivered.
  double read_amplification() const noexcept;
};

}  // namespace h5feed
