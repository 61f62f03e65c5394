// SPDX-License-Identifier: Apache-2.0
// Applies the user's transform to stored samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "h5feed/options.hpp"

namespace h5feed {

/// `DataLoaderOptions::transform` for the samples of one dataset. Immutable.
class StoredTransform {
 public:
  using Function = std::function<void(const SampleView&, const SampleKey&)>;

  /// Creates no transform.
  StoredTransform() = default;
  /// `function` may be empty: there is no transform then.
  StoredTransform(Function function, const DatasetState& dataset);

  explicit operator bool() const noexcept { return static_cast<bool>(function_); }

  /// Returns the transformed copy of a stored sample, in memory of the calling thread that is valid until its
  /// next call. Requires a transform. Thread-safe, as far as the user's function is. Throws what that
  /// function throws, and std::bad_alloc.
  const std::byte* run(const std::byte* sample, const SampleKey& key) const;

 private:
  Function function_;
  DType dtype_ = DType::u8;
  std::vector<std::int64_t> shape_;
  bool channels_last_ = false;
  std::size_t bytes_ = 0;
};

}  // namespace h5feed
