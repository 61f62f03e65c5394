// The order of one epoch's samples, before it is dealt to ranks and cut into batches.
#pragma once

#include <cstdint>
#include <optional>

namespace h5feed {

/// A sequence of samples with random access, and what it tells beforehand about chunks. A chunk is a run
/// of `rows_per_chunk` sample numbers. Immutable and thread-safe.
class SampleOrder {
 public:
  explicit SampleOrder(std::uint64_t num_chunks) : num_chunks_(num_chunks) {}
  SampleOrder(const SampleOrder&) = delete;
  SampleOrder& operator=(const SampleOrder&) = delete;
  virtual ~SampleOrder() = default;

  virtual std::uint64_t size() const noexcept = 0;
  /// The sample at `position` < `size()`. Throws where a user's sampler does, or gives what is no sample.
  virtual std::uint64_t at(std::uint64_t position) const = 0;
  /// Where a sample comes; empty where it does not, or the order cannot tell.
  virtual std::optional<std::uint64_t> position_of(std::uint64_t sample) const noexcept = 0;

  /// Chunks that samples come from.
  std::uint64_t num_chunks() const noexcept { return num_chunks_; }
  /// How many of them, in the order in which the epoch needs them, positions before `position` may take
  /// samples from: all but none where chunks come in no order.
  virtual std::uint64_t chunks_before(std::uint64_t position) const noexcept {
    return position == 0 ? 0 : num_chunks_;
  }
  /// The chunk at `place` of that order. Only where chunks come in one.
  virtual std::uint64_t chunk_in_order(std::uint64_t place) const noexcept { return place; }

 private:
  std::uint64_t num_chunks_;
};

}  // namespace h5feed
