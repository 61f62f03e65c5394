// SPDX-License-Identifier: Apache-2.0
// GPU benchmarks that need LibTorch; tools/gpu_check.sh runs them.
#include "gpu/torch_benches.hpp"

int main(int argc, char** argv) {
  using namespace h5feed::bench;  // NOLINT: this file is the program
  const auto with = [](auto measure, h5feed::OutputMemory memory) {
    return [=](Bench& bench) { return measure(bench, memory); };
  };
  std::vector<Benchmark> all = eager_benchmarks();
  // Benchmarks that docs/results.md does not list come last.
  all.insert(all.begin() + 2, {{{"stall_resnet50"}, with(measure_stall, h5feed::OutputMemory::consumer)},
                               {{"exposed_copy"}, with(measure_exposed_copy, h5feed::OutputMemory::consumer)},
                               {{"epoch_vs_memory"}, measure_epoch_against_memory},
                               {{"gpu_use_h5feed"}, measure_gpu_use_h5feed},
                               {{"gpu_use_naive"}, measure_gpu_use_naive}});
  all.push_back({{"stall_resnet50_ring"}, with(measure_stall, h5feed::OutputMemory::ring)});
  all.push_back({{"exposed_copy_ring"}, with(measure_exposed_copy, h5feed::OutputMemory::ring)});
  return run_benchmarks({argv + 1, argv + argc}, all);
}
