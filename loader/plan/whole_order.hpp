// SPDX-License-Identifier: Apache-2.0
// An order of all samples of a dataset: in file order, permuted, or permuted within windows of chunks.
#pragma once

#include <cstdint>
#include <optional>

#include "h5feed/options.hpp"
#include "plan/permutation.hpp"
#include "plan/sample_order.hpp"

namespace h5feed {

/// Orders samples 0 … n−1 with chunks of equal height. O(1) memory and construction. The order is part of the
/// public contract: golden vectors in the tests pin it.
class WholeOrder final : public SampleOrder {
 public:
  /// Requires `num_samples` ≥ 1 and `rows_per_chunk` ≥ 1.
  WholeOrder(std::uint64_t num_samples, std::uint64_t rows_per_chunk, const Shuffle& shuffle,
             std::uint64_t seed, std::uint64_t epoch);

  std::uint64_t size() const noexcept override { return num_samples_; }
  std::uint64_t at(std::uint64_t position) const noexcept override;
  std::optional<std::uint64_t> position_of(std::uint64_t sample) const noexcept override;
  std::uint64_t chunks_before(std::uint64_t position) const noexcept override;
  std::uint64_t chunk_in_order(std::uint64_t place) const noexcept override;

 private:
  struct Place {
    std::uint64_t full_position;  // position if the short chunk were full
    std::uint64_t window;
  };
  struct Window {
    std::uint64_t first_chunk;  // place in the order of chunks
    Permutation rows;
  };
  Place place_of(std::uint64_t position) const noexcept;
  Window window(std::uint64_t number) const noexcept;
  std::uint64_t in_window(std::uint64_t position) const noexcept;
  std::uint64_t position_in_windows(std::uint64_t sample) const noexcept;
  std::uint64_t chunks_per_window() const noexcept { return window_rows_ / rows_per_chunk_; }

  std::uint64_t num_samples_;
  std::uint64_t rows_per_chunk_;
  Shuffle::Kind kind_;
  std::uint64_t window_rows_;         // rows of a window of K full chunks
  std::uint64_t missing_rows_;        // rows by which the last chunk of the dataset is short
  std::uint64_t window_key_;          // base of the keys of the windows
  Permutation order_;                 // permutes samples (full) or chunks (chunk:K)
  std::uint64_t short_position_ = 0;  // chunk:K: place of the dataset's last, possibly short, chunk
  std::uint64_t short_window_ = 0;    // chunk:K: window that contains the last chunk
};

}  // namespace h5feed
