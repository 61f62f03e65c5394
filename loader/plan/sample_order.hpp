// SPDX-License-Identifier: Apache-2.0
// The order of the samples of one epoch, before sharding and batching.
#pragma once

#include <cstdint>
#include <optional>

namespace h5feed {

/// A sequence of samples with random access that can also predict which chunks it needs. A chunk is a run of
/// consecutive sample numbers. Immutable and thread-safe.
class SampleOrder {
 public:
  /// `num_chunks`: chunks that the samples come from.
  explicit SampleOrder(std::uint64_t num_chunks) : num_chunks_(num_chunks) {}
  SampleOrder(const SampleOrder&) = delete;
  SampleOrder& operator=(const SampleOrder&) = delete;
  virtual ~SampleOrder() = default;

  /// Number of positions in the order.
  virtual std::uint64_t size() const noexcept = 0;
  /// Returns the sample at `position` < `size()`. An order from a user's sampler throws OptionError for an
  /// invalid sample number, and whatever the sampler throws.
  virtual std::uint64_t at(std::uint64_t position) const = 0;
  /// Returns the position of a sample; nullopt if it is not part of the order or the order cannot tell.
  virtual std::optional<std::uint64_t> position_of(std::uint64_t sample) const noexcept = 0;

  /// Number of chunks that the samples come from.
  std::uint64_t num_chunks() const noexcept { return num_chunks_; }
  /// Returns how many chunks, in the order in which the epoch needs them, positions before `position` may
  /// take samples from. The default, for orders without an order of chunks: all of them, or none for position
  /// 0.
  virtual std::uint64_t chunks_before(std::uint64_t position) const noexcept {
    return position == 0 ? 0 : num_chunks_;
  }
  /// Returns the chunk at `place` of the order in which the epoch needs chunks. Meaningful only if the chunks
  /// are needed in a known order.
  virtual std::uint64_t chunk_in_order(std::uint64_t place) const noexcept { return place; }

 private:
  std::uint64_t num_chunks_;
};

}  // namespace h5feed
