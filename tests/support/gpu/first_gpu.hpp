// SPDX-License-Identifier: Apache-2.0
// The first GPU of the machine, for tests that need a real one.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "cuda/runtime/check.hpp"
#include "cuda/runtime/handles.hpp"

namespace h5feed::gpu::test {

/// Returns why there is no GPU to test on; empty if there is one.
inline std::string no_gpu() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return {};
  ignore_error(code);
  return "no GPU: " + why_no_gpu(code == cudaSuccess ? cudaErrorNoDevice : code);
}

/// Fixture for tests on the first GPU, with a stream on it; skipped if there is no GPU.
class FirstGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = no_gpu(); !why.empty()) GTEST_SKIP() << why;
    stream_ = make_stream(0);
  }

  static void run(cudaError_t code) { check(code, "test", {0}); }
  void wait() const { run(cudaStreamSynchronize(stream_.get())); }

  /// Returns device memory as it is after all work on the stream. Blocks.
  std::vector<std::byte> download(const void* from, std::size_t bytes) const {
    std::vector<std::byte> to(bytes);
    run(cudaMemcpyAsync(to.data(), from, bytes, cudaMemcpyDeviceToHost, stream_.get()));
    wait();
    return to;
  }

  Stream stream_;
};

}  // namespace h5feed::gpu::test
