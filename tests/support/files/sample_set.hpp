// SPDX-License-Identifier: Apache-2.0
// Small sets of samples, written by libhdf5 itself and kept in memory for comparison.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "h5feed/dtype.hpp"

namespace h5feed::test {

/// Datasets to write: /images of `shape`, and /labels with one row per sample.
struct SampleSetSpec {
  std::vector<std::uint64_t> shape = {100, 8, 6};
  DType dtype = DType::u8;
  std::vector<std::uint64_t> chunk_shape = {};  ///< empty: contiguous, or compact
  bool compact = false;
  bool shuffle = false;
  int gzip = -1;  ///< level; −1: none
  bool fletcher32 = false;
  DType label_dtype = DType::u8;
  std::vector<std::uint64_t> label_shape = {};  ///< empty: (N)
  std::uint64_t first_label = 0;                ///< smallest label
  std::uint64_t label_count = 10;               ///< number of different labels, assigned in turn
};

/// A file in the test's temporary directory; the destructor removes it.
class SampleSet {
 public:
  /// Writes the file. Every element is a function of its position. Throws std::runtime_error if libhdf5
  /// refuses.
  explicit SampleSet(const SampleSetSpec& spec);
  SampleSet(const SampleSet&) = delete;
  SampleSet& operator=(const SampleSet&) = delete;
  ~SampleSet();

  const std::filesystem::path& path() const noexcept { return path_; }
  std::uint64_t samples() const noexcept { return spec_.shape.front(); }
  std::size_t sample_bytes() const noexcept { return images_.size() / samples(); }
  /// Returns the stored bytes of one sample, in host byte order.
  const std::byte* sample(std::int64_t index) const noexcept {
    return images_.data() + static_cast<std::size_t>(index) * sample_bytes();
  }
  /// Returns the first element of the sample's label.
  std::int64_t label(std::int64_t index) const noexcept {
    return static_cast<std::int64_t>(spec_.first_label) +
           index % static_cast<std::int64_t>(spec_.label_count);
  }

 private:
  SampleSetSpec spec_;
  std::filesystem::path path_;
  std::vector<std::byte> images_;
};

/// Returns a path in the test's temporary directory that no other test uses.
std::filesystem::path unique_path(const std::string& suffix);

/// Flips every bit of `count` bytes of a file in place.
void damage(const std::filesystem::path& path, std::uint64_t offset, std::uint64_t count);

}  // namespace h5feed::test
