// SPDX-License-Identifier: Apache-2.0
// Position of a training run in its data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "h5feed/export.hpp"

namespace h5feed {

/// The position that `DataLoader::state()` saves: seed, epoch, and position in the order of the epoch. A
/// value type; the same on every rank. It identifies dataset and order by a hash and is independent of
/// workers, cache and device; with `Shard::strided` and `Uneven::exact` also of batch size, rank and world
/// size.
struct H5FEED_EXPORT LoaderState {
  /// Seed of the order.
  std::uint64_t seed = 0;
  /// Number of the epoch.
  std::uint64_t epoch = 0;
  /// Samples (batches, with a batch sampler) of the epoch that all ranks together delivered before this
  /// position. With an echo factor f, this is f times that number, plus the number of deliveries of the
  /// current batch.
  std::uint64_t position = 0;
  std::uint64_t plan = 0;       ///< hash of dataset and order
  std::int64_t world_size = 1;  ///< world size of the run that saved the state
  /// With echo: number of samples (batches, with a batch sampler), over all ranks, of the batch whose repeats
  /// are unfinished. 0 if the state is not between two deliveries of a batch.
  std::uint64_t echo_samples = 0;
  /// How many of the `echo_samples` samples, counted from the first, were already delivered once more than
  /// the others. Above 0 only if a resumed run delivers an unfinished echo as several batches.
  std::uint64_t echo_ahead = 0;

  /// Version of the saved form that `to_bytes` writes.
  static constexpr std::uint32_t kVersion = 2;
  /// Bytes of the saved form: six words, a tag with the version, and a checksum.
  static constexpr std::size_t kBytes = 64;

  /// Returns the saved form: `kBytes` bytes, the same on every platform. Throws StateError if `echo_samples`
  /// is 2^32 or more.
  std::string to_bytes() const;
  /// Returns the state of a saved form. Throws StateError for bytes that `to_bytes` did not write, and for
  /// another version, which it names.
  static LoaderState from_bytes(std::string_view bytes);

  bool operator==(const LoaderState&) const = default;
};

}  // namespace h5feed
