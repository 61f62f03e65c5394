// SPDX-License-Identifier: Apache-2.0
// Writes the sample numbers of h5feed's first epoch, in order, as int64 in the byte order of the machine:
//   sample_order FILE DATA ORDER BATCH_SIZE SEED OUT
// run.py gives them to the peers that can deliver a given order.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/dataset.hpp"
#include "tools/measure/epoch_order.hpp"

int main(int argc, char** argv) {
  if (argc != 7) {
    std::fputs("sample_order FILE DATA ORDER BATCH_SIZE SEED OUT\n", stderr);
    return 2;
  }
  try {
    const h5feed::Dataset dataset = h5feed::Dataset::open({.files = {argv[1]}, .data = argv[2]});
    const std::vector<std::int64_t> order = h5feed::epoch_order(
        dataset, {.batch_size = std::stoll(argv[4]), .shuffle = argv[3], .seed = std::stoull(argv[5])});
    std::ofstream out(argv[6], std::ios::binary);
    out.write(reinterpret_cast<const char*>(order.data()),
              static_cast<std::streamsize>(order.size() * sizeof(std::int64_t)));
    out.close();
    if (out) return 0;
    std::fprintf(stderr, "%s: cannot be written\n", argv[6]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 1;
}
