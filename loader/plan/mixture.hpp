// SPDX-License-Identifier: Apache-2.0
// A mixture: sets of samples, and how many of each an epoch draws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/row_layout.hpp"
#include "h5feed/options.hpp"
#include "plan/sample_subset.hpp"

namespace h5feed {

/// Positions in a block of a mixture. Each whole block draws the same number of samples from a set.
inline constexpr std::uint64_t kMixtureBlock = 4096;

/// Returns how many of the positions of a block each set gets: its share of the sum of the weights, rounded
/// so that the sum is `kMixtureBlock` (largest remainders). Throws OptionError, naming the set, unless all
/// weights are finite and at least 1/4096 of their sum.
std::vector<std::uint64_t> mixture_quotas(std::span<const double> weights);

/// One set of a mixture.
struct MixtureSet {
  /// Number of the set's sample 0 among the samples of the whole mixture.
  std::uint64_t first_sample = 0;
  RowLayout layout{0, 1};                           ///< The set's samples, counted from 0, in its chunks
  std::shared_ptr<const SampleSubset> subset = {};  ///< The samples of the set that take part; null: all
  std::uint64_t quota = 0;                          ///< Positions in each block, at least 1
  std::optional<Shuffle> shuffle = {};              ///< Order within the set; unset: the order of the loader

  /// Number of samples that take part.
  std::uint64_t size() const noexcept { return subset ? subset->size() : layout.num_rows(); }
};

/// Where an epoch of a mixture ends: before a set repeats a sample, after every sample was drawn, or after a
/// number of positions.
struct MixtureEnd {
  enum class Kind : std::uint8_t { shortest, longest, samples };
  Kind kind = Kind::shortest;
  std::uint64_t samples = 0;  ///< Positions of an epoch with `Kind::samples`, at least 1
};

/// The sets of a mixture and the size of its epochs, which all have the same number of positions. Immutable
/// and thread-safe.
class Mixture {
 public:
  /// Requires at least one set, none of them empty, quotas that sum to `kMixtureBlock`, and ascending
  /// `first_sample`.
  Mixture(std::vector<MixtureSet> sets, MixtureEnd end);

  /// The sets, in the order given.
  const std::vector<MixtureSet>& sets() const noexcept { return sets_; }
  /// Number of chunks of each set that hold samples that take part.
  const std::vector<std::uint64_t>& chunks() const noexcept { return chunks_; }
  /// Number of positions of an epoch, at least 1.
  std::uint64_t size() const noexcept { return size_; }
  /// Returns how many of the first `positions` of a block belong to each set, for a block that ends there:
  /// the quotas in proportion, rounded so that they sum to `positions`. Throws std::bad_alloc.
  std::vector<std::uint64_t> counts_in_block(std::uint64_t positions) const;
  /// Returns how many samples an epoch draws from each set. Throws std::bad_alloc.
  std::vector<std::uint64_t> draws() const;
  /// Returns the set that a sample of the mixture belongs to.
  std::size_t set_of(std::uint64_t sample) const noexcept;
  /// Returns a hash of everything that determines the order apart from seed and epoch.
  std::uint64_t fingerprint() const noexcept;

 private:
  std::vector<MixtureSet> sets_;
  std::vector<std::uint64_t> chunks_;
  std::uint64_t size_ = 0;
};

}  // namespace h5feed
