// SPDX-License-Identifier: Apache-2.0
// Uses h5feed::nvml: on any machine, with a driver or without.
#include <cstdio>
#include <h5feed/data_loader.hpp>
#include <h5feed/error.hpp>
#include <h5feed/gpu_monitor.hpp>

int main(int, char** argv) {
  h5feed::DataLoaderOptions options{.batch_size = 16};
  try {
    options.gpu_probe = h5feed::gpu::monitor();
  } catch (const h5feed::DeviceError& error) {
    std::printf("no GPU is watched: %s\n", error.what());
  }
  h5feed::DataLoader loader(h5feed::Dataset::open({.files = {argv[1]}}), options);
  while (loader.next()) {
  }
  std::printf("%s\n", loader.report().c_str());
}
