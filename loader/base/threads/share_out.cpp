// SPDX-License-Identifier: Apache-2.0
#include "base/threads/share_out.hpp"

#include <thread>
#include <vector>

namespace h5feed {

void run_on_threads(std::uint64_t threads, const std::function<void()>& work) {
  std::vector<std::jthread> helpers;
  try {
    for (std::uint64_t i = 1; i < threads; ++i) helpers.emplace_back([&work] { work(); });
  } catch (const std::exception&) {
    // The system starts no more threads, or has no memory for one; those that run do all of the work.
  }
  work();
}

}  // namespace h5feed
