// SPDX-License-Identifier: Apache-2.0
// The program gpu_benchmark on the tests' CUDA runtime, at tiny sizes.
#include <cstddef>
#include <string>
#include <vector>

#include "gpu/bench.hpp"
#include "support/fakes/fake_cuda.hpp"

int main(int argc, char** argv) {
  const h5feed::test::FakeCuda cuda({.memory_bytes = std::size_t{1} << 28});
  std::vector<std::string> arguments(argv + 1, argv + argc);
  for (const char* more : {"--tiny", "--workers", "2"}) arguments.emplace_back(more);
  return h5feed::bench::run_benchmarks(arguments, h5feed::bench::plain_benchmarks());
}
