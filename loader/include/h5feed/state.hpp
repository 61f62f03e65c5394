// SPDX-License-Identifier: Apache-2.0
// Where a training run stands in its data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "h5feed/export.hpp"

namespace h5feed {

/// What `DataLoader::state()` saves: seed, epoch, and a position in the epoch's order. A value; the same on
/// every rank. It refers to a dataset and an order, by a hash of both, and not to workers, cache or device;
/// with `Shard::strided` and `Uneven::exact` nor to batch size, rank or world size.
struct H5FEED_EXPORT LoaderState {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  /// Samples (with a batch sampler: batches) of the epoch before it, of all ranks; with an echo factor f, f
  /// times that plus the deliveries of the present batch.
  std::uint64_t position = 0;
  std::uint64_t plan = 0;       ///< hash of dataset and order
  std::int64_t world_size = 1;  ///< of the run that saved it
  /// Saved between two deliveries of a batch: its samples on all ranks together. Otherwise 0.
  std::uint64_t echo_samples = 0;
  /// The first samples of `echo_samples` that were delivered once more than `position` says: where a resumed
  /// run repeats them in several batches.
  std::uint64_t echo_ahead = 0;

  static constexpr std::uint32_t kVersion = 2;
  /// Bytes of the saved form: six words, a mark with the version, and a checksum.
  static constexpr std::size_t kBytes = 64;

  /// The saved form: `kBytes` bytes, the same on every platform. Throws StateError for an echo of 2^32
  /// samples and more.
  std::string to_bytes() const;
  /// Also reads version 1 (56 bytes, h5feed 0.1), which does not say what an echo repeats. Throws StateError
  /// for anything else than what `to_bytes` gave, naming the version it would need.
  static LoaderState from_bytes(std::string_view bytes);

  bool operator==(const LoaderState&) const = default;
};

}  // namespace h5feed
