// SPDX-License-Identifier: Apache-2.0
// GPU benchmarks that need LibTorch; tools/gpu_check.sh runs them.
#include "gpu/torch_benches.hpp"

int main(int argc, char** argv) {
  using namespace h5feed::bench;  // NOLINT: this file is the program
  return run_benchmarks({argv + 1, argv + argc},
                        {{{"normalize_vs_eager", "normalize_vs_eager_f16"}, measure_normalize_against_eager},
                         {{"stall_resnet50", "exposed_copy"}, measure_stall},
                         {{"epoch_vs_memory"}, measure_epoch_against_memory},
                         {{"gpu_use_naive"}, measure_gpu_use_naive},
                         {{"gpu_use_h5feed"}, measure_gpu_use_h5feed}});
}
