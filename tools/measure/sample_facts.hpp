// SPDX-License-Identifier: Apache-2.0
// Facts that a measurement needs about the samples of a dataset, whatever their form.
#pragma once

#include <cstdint>
#include <memory>

#include "dataset/dataset_state.hpp"
#include "h5feed/dataset.hpp"
#include "h5feed/options.hpp"

namespace h5feed::cli {

/// Sizes of the samples of a dataset, and which of its fields are decoded. Shares the dataset's state.
class SampleFacts {
 public:
  /// Describes the samples of `dataset`.
  explicit SampleFacts(const Dataset& dataset) : state_(DatasetAccess::state(dataset)) {}

  /// Returns the state of the dataset.
  const DatasetState& state() const noexcept { return *state_; }
  /// Returns the data.
  const Field& data() const noexcept { return state_->data; }
  /// Returns the sparse matrix whose rows are the samples; null for other data.
  const SparseData* sparse() const noexcept { return state_->sparse ? &*state_->sparse : nullptr; }

  /// Returns whether the rate of decoding can be compared with limits, which are those of the data alone: no
  /// target or field is too large to be read at open, and so decoded in addition to the data.
  bool limits_comparable() const noexcept;
  /// Returns the decoded bytes of all chunks of the data.
  std::uint64_t all_bytes() const noexcept;
  /// Returns the bytes of the data of a sample in the stored type, with all rows of a window; of a sparse row
  /// the average.
  double data_bytes() const noexcept;
  /// Returns the bytes of a sample, of all fields, that count as decoded or read directly.
  double cached_bytes() const noexcept;
  /// Returns the samples of a typical window of `shuffle`; 1 for a full shuffle.
  std::uint64_t window_samples(const Shuffle& shuffle) const noexcept;

 private:
  std::shared_ptr<const DatasetState> state_;
};

}  // namespace h5feed::cli
