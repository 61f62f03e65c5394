// SPDX-License-Identifier: Apache-2.0
// Key streams of a plan: the second argument of `mix_key`.
#pragma once

#include <cstdint>

namespace h5feed {

/// Purpose of a key. The golden tests pin the orders that depend on these numbers: never change one.
enum KeyStream : std::uint64_t {
  kSampleOrder = 1,
  kChunkOrder = 2,
  kWindowOrder = 3,
  kSubsetOrder = 4,
  kWeightedOrder = 5,
  kWeightedColumn = 6,
  kWeightedSide = 7,
  kTorchOrder = 8,
  kChunkOwner = 9,
  kOwnOrder = 10,
  kSplit = 11,
  kPlanHash = 12,
  kStateSum = 13,
  kAugment = 14,
  kTransform = 15,
  kReplacement = 16,
  kTilePlace = 20,
  kLabelPixel = 21,
  kMixtureOrder = 24,
  kMixtureSet = 25
};

}  // namespace h5feed
