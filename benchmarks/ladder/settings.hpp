// SPDX-License-Identifier: Apache-2.0
// What all rungs of a ladder share.
#pragma once

#include <cstdint>
#include <string>

namespace h5feed::ladder {

/// Mean and standard deviation by which samples, as values in 0 … 1, are normalized in all channels.
constexpr double kMean = 0.5;
constexpr double kStd = 0.25;

/// Deliveries of each batch on the rung `echo`.
constexpr std::int64_t kEchoFactor = 2;

/// Chunk cache that libhdf5 has by default, in bytes; also h5feed's until the rung `chunks`.
constexpr std::uint64_t kCacheOfLibhdf5 = std::uint64_t{1} << 20;

struct Settings {
  std::string file;
  std::string data = "images";
  std::string target = "labels";
  std::string model = "cnn";  ///< cnn, resnet18 or resnet50
  std::string device = "auto";
  std::string order = "chunk:16";  ///< from the rung `chunks` on
  std::uint64_t cache_bytes = std::uint64_t{8} << 20;
  std::int64_t classes = 10;
  std::int64_t epochs = 3;
  std::int64_t batch_size = 64;
  std::int64_t num_workers = 2;
  int training_threads = 0;  ///< of LibTorch's operators; 0: LibTorch's choice
  double learning_rate = 0.01;
  double warmup_epochs = 1;
  std::uint64_t seed = 1;
};

}  // namespace h5feed::ladder
