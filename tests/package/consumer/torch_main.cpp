// SPDX-License-Identifier: Apache-2.0
// As main.cpp, through the LibTorch drop-in.
#include <cstdio>
#include <h5feed/torch.hpp>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto data = h5feed::Dataset::open({.files = {argv[1]}, .data = "images", .target = "labels"});
  auto loader = h5feed::make_data_loader(data, {.batch_size = 16, .num_workers = 2});
  std::int64_t samples = 0;
  for (auto& batch : *loader)
    samples += batch.data.size(0) == batch.target.size(0) ? batch.target.size(0) : 0;
  std::printf("h5feed::torch fed %lld samples\n", static_cast<long long>(samples));
  return samples == data.size() ? 0 : 1;
}
