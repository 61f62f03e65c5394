// SPDX-License-Identifier: Apache-2.0
// Benchmarks that need a LibTorch with CUDA.
#pragma once

#include <vector>

#include "gpu/bench.hpp"

namespace h5feed::bench {

/// Returns one benchmark for each output type; first the two of docs/results.md.
std::vector<Benchmark> eager_benchmarks();
/// Rows of batches in memory other than the default have it in their names.
std::vector<Row> measure_stall(Bench& bench, OutputMemory memory);
std::vector<Row> measure_exposed_copy(Bench& bench, OutputMemory memory);
std::vector<Row> measure_epoch_against_memory(Bench& bench);
std::vector<Row> measure_gpu_use_naive(Bench& bench);
std::vector<Row> measure_gpu_use_h5feed(Bench& bench);

}  // namespace h5feed::bench
