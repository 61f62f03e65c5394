// SPDX-License-Identifier: Apache-2.0
// The entry points of libFuzzer. With --write-seeds=DIR the program writes its seeds there and ends.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "fuzz/fuzz_target.hpp"

namespace h5feed::test::fuzz {
namespace {

void write_seeds(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  int number = 0;
  for (const Bytes& seed : seeds()) {
    std::ofstream file(folder / ("seed-" + std::to_string(number++)), std::ios::binary);
    file.write(reinterpret_cast<const char*>(seed.data()), static_cast<std::streamsize>(seed.size()));
    require(file.good(), "a seed can be written");
  }
}

}  // namespace
}  // namespace h5feed::test::fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr std::string_view kWriteSeeds = "--write-seeds=";
  for (int i = 1; i < *argc; ++i) {
    const std::string_view argument = (*argv)[i];
    if (!argument.starts_with(kWriteSeeds)) continue;
    h5feed::test::fuzz::write_seeds(argument.substr(kWriteSeeds.size()));
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  h5feed::test::fuzz::fuzz_one(std::as_bytes(std::span(data, size)));
  return 0;
}
