// SPDX-License-Identifier: Apache-2.0
#include "flow/resolve/tuning_bounds.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "flow/resolve/cache_layout.hpp"
#include "flow/resolve/host_share.hpp"
#include "h5feed/error.hpp"

namespace h5feed {
namespace {

// Bounds of self-tuning. Workers that wait for storage use no CPU, so there may be several per CPU.
constexpr std::int64_t kWorkersPerCpu = 4;
constexpr std::int64_t kMostWaitingWorkers = 64;
constexpr std::uint64_t kBatchesPerWorker = 4;
// With re-decodes, every batch in preparation shares each decoded chunk, so that more of them save work.
constexpr std::uint64_t kSharingBatches = 128;
constexpr std::uint64_t kMostPinned = 32;

// Returns the bytes that the decoding of the largest chunk takes, at least 1.
std::uint64_t largest_decode(const DatasetState& dataset) {
  std::uint64_t bytes = 1;
  for (std::size_t number = 0; number < dataset.num_fields(); ++number) {
    const Field* const field = dataset.field(number);
    if (field == nullptr || field->is_resident()) continue;
    bytes = std::max(bytes, field->reader->chunk_bytes() + field->reader->scratch_bytes());
  }
  return bytes;
}

// Returns the most batches that self-tuning prefetches, if memory allows.
std::uint64_t most_prefetched(const DataLoaderOptions& options, const DatasetState& dataset,
                              const DeliveryFormat& format, const ResolvedOptions& resolved,
                              std::uint64_t available) {
  const auto workers = static_cast<std::uint64_t>(resolved.num_workers);
  if (options.prefetch_factor) return workers * static_cast<std::uint64_t>(*options.prefetch_factor);
  if (options.pin_memory || format.slots_in_transfer > 0) {
    // Pinned memory is taken at once.
    return std::clamp<std::uint64_t>(2 * static_cast<std::uint64_t>(resolved.cpu_limit), 4, kMostPinned);
  }
  const std::uint64_t cache = options.cache_bytes.value_or(default_cache_bytes(available));
  const std::uint64_t most = kBatchesPerWorker * workers;
  if (!decodes_again(dataset, resolved, cache)) return most;
  const auto all = static_cast<std::uint64_t>(resolved.samples_per_epoch / resolved.batch_size + 1);
  return std::max(most, std::min(kSharingBatches, all));
}

}  // namespace

void bound_self_tuning(const DataLoaderOptions& options, const DatasetState& dataset,
                       const DeliveryFormat& format, const SystemLimits& limits, std::uint64_t memory,
                       ResolvedOptions& resolved) {
  resolved.self_tuning = true;
  const double share = cpu_share(limits, resolved.local_world_size);
  resolved.cpu_limit = std::min<double>(options.cpu_limit.value_or(share), limits.cpus);
  const auto cpus = std::clamp<std::int64_t>(static_cast<std::int64_t>(resolved.cpu_limit), 1, kMaxWorkers);
  const std::uint64_t available = memory_share(limits, resolved.local_world_size);
  const std::int64_t wanted = std::max(cpus, std::min(kMostWaitingWorkers, kWorkersPerCpu * cpus));
  const std::uint64_t decodes = memory / 4 / largest_decode(dataset);
  resolved.num_workers =
      static_cast<std::int64_t>(std::clamp<std::uint64_t>(decodes, 1, static_cast<std::uint64_t>(wanted)));
  const std::uint64_t each = std::max<std::uint64_t>(1, batch_bytes(format, resolved));
  const std::uint64_t least = 3 * each <= memory / 2 ? 2 : 1;
  resolved.prefetch_batches = std::clamp<std::uint64_t>(
      memory / 4 / each, least,
      std::max(least, most_prefetched(options, dataset, format, resolved, available)));
}

void check_host_share(const DataLoaderOptions& options) {
  if (options.cpu_limit) {
    if (!(*options.cpu_limit > 0)) {
      throw OptionError(fmt::format("cpu_limit must be above 0; got {:g}", *options.cpu_limit));
    }
    if (options.num_workers != kAuto) {
      throw OptionError(
          "cpu_limit bounds what num_workers = auto may choose; set num_workers = auto, or leave it unset");
    }
  }
  if (options.local_world_size < 0 || options.local_world_size > kMaxWorldSize) {
    throw OptionError(fmt::format("local_world_size must be 0 (from the launcher) to {}; got {}",
                                  kMaxWorldSize, options.local_world_size));
  }
}

std::uint64_t usual_prefetch(const ResolvedOptions& options) noexcept {
  if (!options.self_tuning) return options.prefetch_batches;
  const auto cpus = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(options.cpu_limit));
  return std::min(options.prefetch_batches, cpus * static_cast<std::uint64_t>(kDefaultPrefetchFactor));
}

}  // namespace h5feed
