// SPDX-License-Identifier: Apache-2.0
#include "base/files/random_name.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <random>

namespace h5feed {

std::string random_digits() {
  std::random_device source("/dev/urandom");
  const std::uint64_t high = source();
  const std::uint64_t both = high << 32 | source();
  return fmt::format("{:012x}", both >> 16);
}

std::filesystem::path temporary_beside(const std::filesystem::path& target) {
  return target.parent_path() / fmt::format(".{}.tmp-{}", target.filename().string(), random_digits());
}

}  // namespace h5feed
