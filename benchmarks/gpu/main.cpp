// SPDX-License-Identifier: Apache-2.0
// GPU benchmarks that need no LibTorch; tools/gpu_check.sh runs them.
#include "gpu/bench.hpp"

int main(int argc, char** argv) {
  return h5feed::bench::run_benchmarks({argv + 1, argv + argc}, h5feed::bench::plain_benchmarks());
}
