// SPDX-License-Identifier: Apache-2.0
// Sets, options and epochs of the tests of gpu_cache_bytes.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/files/sample_set.hpp"
#include "support/gpu/gpu_deliveries.hpp"
#include "support/gpu/on_gpu.hpp"
#include "support/loaders/deliveries.hpp"

namespace h5feed::test {

/// Returns the specification of 50 samples of 256 bytes in 10 chunks, of which the host keeps none.
inline SampleSetSpec small_set() { return {.shape = {50, 16, 16}, .chunk_shape = {5, 16, 16}, .gzip = 1}; }
/// Bytes of one of these samples.
inline constexpr std::uint64_t kRowBytes = 256;

/// Returns options of a loader on the fake GPU whose host keeps nothing.
inline DataLoaderOptions small_options(GpuCacheBytes size, std::int64_t workers = 0) {
  DataLoaderOptions options{.batch_size = 7, .shuffle = true, .seed = 3, .num_workers = workers};
  options.cache_bytes = 0;
  options.normalize = Normalize{};
  options.gpu_cache_bytes = size;
  return on_gpu(options);
}

/// Copies the first `epochs` epochs that a loader on the CPU delivers.
inline std::vector<Delivery> epochs_on_cpu(const Dataset& dataset, DataLoaderOptions options, int epochs) {
  options.device = "cpu";
  DataLoader loader(dataset, options);
  std::vector<Delivery> all;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (Delivery& delivery : rest_of_epoch(loader)) all.push_back(std::move(delivery));
  }
  return all;
}

/// Copies the next `epochs` epochs of a loader on the fake GPU.
inline std::vector<Delivery> epochs_on_gpu(FakeCuda& cuda, DataLoader& loader, int epochs) {
  std::vector<Delivery> all;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (Delivery& delivery : rest_of_gpu_epoch(cuda, loader)) all.push_back(std::move(delivery));
  }
  return all;
}

}  // namespace h5feed::test
