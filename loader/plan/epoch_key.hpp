// SPDX-License-Identifier: Apache-2.0
// Key of the random choices of an epoch.
#pragma once

#include <cstdint>

namespace h5feed {

/// Seed of a loader and number of an epoch: together with a sample's number they determine everything that is
/// drawn for the sample in this epoch.
struct EpochKey {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
};

}  // namespace h5feed
