// SPDX-License-Identifier: Apache-2.0
// Helpers shared by the tests of the loader.
#pragma once

#include <cstdint>
#include <string>

#include "h5feed/data_loader.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/index/chunk_index.hpp"
#include "support/files/sample_set.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {

/// Opens the samples and labels of a set.
inline Dataset open(const SampleSet& set) {
  return Dataset::open({.files = {set.path()}, .data = "images", .target = "labels"});
}

/// Returns the specification of 100 samples in 10 compressed chunks.
inline SampleSetSpec gzip_set() { return {.shape = {100, 8, 6}, .chunk_shape = {10, 8, 6}, .gzip = 4}; }

/// Returns the specification of 50 images of 6 × 5 pixels in 3 channels, stored channels last.
inline SampleSetSpec rgb_set(DType dtype = DType::u8, std::uint64_t chunk_samples = 5) {
  return {.shape = {50, 6, 5, 3}, .dtype = dtype, .chunk_shape = {chunk_samples, 6, 5, 3}, .gzip = 1};
}

/// Returns the file offset of a chunk of the images.
inline std::uint64_t chunk_offset(const SampleSet& set, std::uint64_t chunk) {
  const auto file = H5File::open(set.path());
  return build_chunk_index(*file, file->describe("images")).locations.at(chunk).address;
}

/// Returns the text of the Exception that a loader with these options throws; "accepted" if it throws none.
template <typename Exception>
std::string refusal(const Dataset& dataset, const DataLoaderOptions& options) {
  return refusal_of<Exception>([&] { DataLoader loader(dataset, options); });
}

}  // namespace h5feed::test
