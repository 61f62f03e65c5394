// SPDX-License-Identifier: Apache-2.0
// Uses h5feed::gpu: with "auto" on any machine, with a GPU or without.
#include <cstdio>
#include <h5feed/data_loader.hpp>
#include <h5feed/device.hpp>
#include <h5feed/gpu.hpp>

bool delivers_anywhere(const h5feed::Dataset& data) {
  const h5feed::DataLoaderOptions options{.batch_size = 16, .device = h5feed::gpu::device("auto")};
  h5feed::DataLoader loader(data, options);
  const auto batch = loader.next();
  std::printf("delivered to %s\n", batch->gpu ? "a GPU" : "the CPU");
  return batch->gpu != nullptr || batch->data.defined();
}
