// SPDX-License-Identifier: Apache-2.0
// Benchmarks that need a LibTorch with CUDA.
#pragma once

#include <vector>

#include "gpu/bench.hpp"

namespace h5feed::bench {

std::vector<Row> measure_normalize_against_eager(Bench& bench);
std::vector<Row> measure_stall(Bench& bench);
std::vector<Row> measure_epoch_against_memory(Bench& bench);
std::vector<Row> measure_gpu_use_naive(Bench& bench);
std::vector<Row> measure_gpu_use_h5feed(Bench& bench);

}  // namespace h5feed::bench
