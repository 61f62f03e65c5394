// SPDX-License-Identifier: Apache-2.0
// Has a data race on purpose, in a function that the loader's workers call: under ThreadSanitizer the
// test passes only when the race is reported, so that a silent sanitizer is noticed.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "store/write/h5_writer.hpp"

namespace {

int unprotected_counter = 0;

void planted_race(int) { ++unprotected_counter; }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::filesystem::path file = argv[1];
  {
    h5feed::H5Writer writer(file, true);
    writer.create_dataset({.path = "/images", .dtype = h5feed::DType::u8, .shape = {64, 8, 8}});
    const std::vector<std::byte> rows(64 * 8 * 8);
    writer.write_rows("/images", 0, 64, rows);
    writer.commit();
  }
  h5feed::DataLoader loader(h5feed::Dataset::open({.files = {file}}),
                            {.batch_size = 4, .num_workers = 4, .worker_init_fn = planted_race});
  planted_race(-1);
  std::int64_t samples = 0;
  for (h5feed::Batch& batch : loader) samples += batch.size();
  std::printf("%lld samples, counter %d\n", static_cast<long long>(samples), unprotected_counter);
  return samples == 64 ? 0 : 1;
}
