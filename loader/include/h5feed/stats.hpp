// SPDX-License-Identifier: Apache-2.0
// Counters of a loader since its construction.
#pragma once

#include <cstdint>
#include <optional>

#include "h5feed/device.hpp"
#include "h5feed/export.hpp"
#include "h5feed/gpu_probe.hpp"

namespace h5feed {

/// A snapshot of the counters of a loader. Totals are since construction. Times are nanoseconds summed over
/// threads unless stated otherwise.
struct H5FEED_EXPORT LoaderStats {
  std::uint64_t batches = 0;          ///< batches delivered
  std::uint64_t samples = 0;          ///< samples delivered
  std::uint64_t samples_echoed = 0;   ///< samples delivered in repeats of a batch
  std::uint64_t bytes_delivered = 0;  ///< decoded bytes of delivered data and target, in the stored type
  std::uint64_t errors = 0;           ///< batches that failed with an exception

  std::uint64_t samples_skipped = 0;   ///< samples left out of delivered batches (`OnError::skip`)
  std::uint64_t samples_replaced = 0;  ///< samples replaced in delivered batches (`OnError::replace`)
  std::uint64_t bad_chunks = 0;        ///< different chunks that could not be read or decoded
  std::uint64_t read_retries = 0;  ///< reads repeated after an error that may pass (EIO, ESTALE, ETIMEDOUT)

  std::uint64_t active_workers = 0;      ///< workers in use now; with `num_workers = kAuto` it changes
  std::uint64_t prefetched_batches = 0;  ///< batches that may be prefetched now
  std::uint64_t reads_in_flight = 0;     ///< stored chunks that may be read ahead at once now

  std::uint64_t cache_hits = 0;       ///< chunk visits of batches that were served from memory
  std::uint64_t cache_misses = 0;     ///< chunks read and decoded, for a visit or ahead of one
  std::uint64_t chunk_loads = 0;      ///< chunks of samples (not of targets) read and decoded
  std::uint64_t read_calls = 0;       ///< reads from files
  std::uint64_t bytes_read = 0;       ///< bytes read from files
  std::uint64_t bytes_decoded = 0;    ///< bytes of decoded chunks
  std::uint64_t rows_direct = 0;      ///< rows read directly into the batch
  std::uint64_t fallback_chunks = 0;  ///< chunks read through H5Dread under its lock

  std::uint64_t read_ns = 0;       ///< time of reading
  std::uint64_t decode_ns = 0;     ///< time of decoding
  std::uint64_t gather_ns = 0;     ///< time of gathering rows into batches
  std::uint64_t transform_ns = 0;  ///< time in the user's `transform` and `collate_fn`
  std::uint64_t transfer_ns = 0;   ///< time of enqueueing batches for transfer to GPUs
  std::uint64_t wait_ns = 0;       ///< wall time of the consumer inside `next()`
  // Parts of `wait_ns`, by what the batch was missing; see `Verdict`.
  std::uint64_t wait_read_ns = 0;       ///< for reading
  std::uint64_t wait_decode_ns = 0;     ///< for decoding
  std::uint64_t wait_gather_ns = 0;     ///< for gathering
  std::uint64_t wait_transform_ns = 0;  ///< for the user's `transform` and `collate_fn`
  /// Part of `wait_ns` in which no GPU slot was free because copies waited for the consumer's own work on the
  /// GPU: the consumer is the bottleneck.
  std::uint64_t wait_gpu_ns = 0;
  /// Part of `wait_ns` for the transfer: copies were enqueued, or no GPU slot was free because copies to the
  /// GPU were running.
  std::uint64_t wait_transfer_ns = 0;
  std::uint64_t epoch_ns = 0;  ///< wall time from the start of epochs to their end (or to now)

  std::uint64_t cache_bytes = 0;  ///< bytes held by the cache now
  /// Bytes of output buffers in use now, by the consumer or in preparation; outside the budget if held by the
  /// consumer.
  std::uint64_t outputs_held_bytes = 0;
  std::uint64_t outputs_allocated = 0;  ///< output buffers allocated since construction
  /// Host memory in bytes of batches in preparation or ready, now.
  std::uint64_t in_flight_bytes = 0;
  std::uint64_t pinned_bytes = 0;  ///< pinned host memory of the loader for copies to a GPU
  /// Batches assembled in pageable memory, as no pinned memory was free: their copies are slower.
  std::uint64_t pageable_batches = 0;
  /// Memory of the GPU that the loader delivers to; unset on the CPU.
  std::optional<GpuMemory> gpu_memory = {};
  /// Samples delivered whose data was on the GPU already (`gpu_cache_bytes`), repeats of a batch excluded.
  std::uint64_t gpu_cache_hits = 0;
  std::uint64_t gpu_cache_bytes = 0;  ///< bytes of GPU memory taken for samples that stay there, now

  /// Readings of `gpu_probe` while epochs ran; none without a probe.
  GpuUse gpu;

  /// Returns the share of chunk visits served from memory, 0 … 1; 0 without visits.
  double cache_hit_rate() const noexcept;
  /// Returns `wait_ns / epoch_ns`, at most 1; 0 before the first epoch.
  double wait_fraction() const noexcept;
  /// Returns the bytes decoded per byte delivered; 0 before the first delivery.
  double read_amplification() const noexcept;
};

}  // namespace h5feed
