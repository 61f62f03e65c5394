// SPDX-License-Identifier: Apache-2.0
#include "dataset/isolation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"

namespace h5feed {

std::shared_ptr<ReaderProcess> reader_process_of(const DatasetOptions& options) {
  constexpr std::uint64_t kLeastBytes = 256 * kMiB;  // The libraries alone take most of it
  if (options.isolation_timeout.count() <= 0) {
    throw OptionError(
        fmt::format("isolation_timeout must be above 0; got {} ms", options.isolation_timeout.count()));
  }
  if (options.isolation_memory_bytes != 0 && options.isolation_memory_bytes < kLeastBytes) {
    throw OptionError(fmt::format("isolation_memory_bytes must be 0 or at least {}; got {}", kLeastBytes,
                                  options.isolation_memory_bytes));
  }
  if (options.isolation == Isolation::none) return nullptr;
  // 68 years, which the clocks of both processes can count.
  constexpr std::chrono::milliseconds kLongest =
      std::chrono::seconds(std::numeric_limits<std::int32_t>::max());
  return std::make_shared<ReaderProcess>(IsolationLimits{
      .time = std::min(options.isolation_timeout, kLongest), .memory_bytes = options.isolation_memory_bytes});
}

}  // namespace h5feed
