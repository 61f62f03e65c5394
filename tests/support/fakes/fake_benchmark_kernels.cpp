// SPDX-License-Identifier: Apache-2.0
#include "support/fakes/fake_benchmark_kernels.hpp"

#include <atomic>

#include "gpu/kernels.hpp"
#include "support/fakes/fake_cuda.hpp"

namespace h5feed::test {
namespace {

std::atomic<std::uint64_t> spins{0};

}  // namespace

std::uint64_t fake_spins() noexcept { return spins; }

}  // namespace h5feed::test

namespace h5feed::bench {

cudaError_t launch_spin(std::uint64_t, int, cudaStream_t stream) noexcept {
  ++h5feed::test::spins;
  return h5feed::test::fake_launch(stream, [] {});
}

cudaError_t launch_soak_check(const SoakCheck& check, cudaStream_t stream) noexcept {
  return h5feed::test::fake_launch(stream, [check] {
    for (std::uint32_t sample = 0; sample < check.samples; ++sample) {
      for (std::uint32_t i = 0; i < check.sample_bytes; ++i) {
        if (check.data[sample * check.sample_bytes + i] == soak_byte(check.expected[sample], i)) continue;
        ++*check.wrong_samples;
        break;
      }
    }
  });
}

}  // namespace h5feed::bench
