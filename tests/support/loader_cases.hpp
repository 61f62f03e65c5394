// What the tests of the loader share.
#pragma once

#include <cstdint>
#include <string>

#include "h5feed/data_loader.hpp"
#include "store/chunk_index.hpp"
#include "store/h5_file.hpp"
#include "support/refusal.hpp"
#include "support/sample_set.hpp"

namespace h5feed::test {

/// Samples and labels of a set.
inline Dataset open(const SampleSet& set) {
  return Dataset::open({.files = {set.path()}, .data = "images", .target = "labels"});
}

/// 100 samples in 10 compressed chunks.
inline SampleSetSpec gzip_set() { return {.shape = {100, 8, 6}, .chunk_shape = {10, 8, 6}, .gzip = 4}; }

/// Where in the file a chunk of the images begins.
inline std::uint64_t chunk_offset(const SampleSet& set, std::uint64_t chunk) {
  const auto file = H5File::open(set.path());
  return build_chunk_index(*file, file->describe("images")).locations.at(chunk).address;
}

/// What a loader with these options is refused with; "accepted" where it is not.
template <typename Exception>
std::string refusal(const Dataset& dataset, const DataLoaderOptions& options) {
  return refusal_of<Exception>([&] { DataLoader loader(dataset, options); });
}

}  // namespace h5feed::test
