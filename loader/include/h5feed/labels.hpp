// SPDX-License-Identifier: Apache-2.0
// Classes of a dataset: how frequent they are, and weights that balance them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "h5feed/dataset.hpp"
#include "h5feed/export.hpp"

namespace h5feed {

/// One class of a dataset.
struct LabelShare {
  std::int64_t label = 0;    ///< The label that the samples of the class have
  std::int64_t samples = 0;  ///< Number of samples of the class, at least 1
  /// Share of the class among the samples that an epoch delivers: of a mixture by the weights of its sets,
  /// else of all samples; 0 … 1.
  double share = 0;
};

/// Returns the classes of a dataset, of the samples of a subset, or of a mixture, in ascending order of their
/// labels. `field` is the name of a named field with one integer per sample; empty: the target. With tiles
/// each tile counts. Blocks while it reads a field that is not in memory. Thread-safe. Throws OptionError if
/// there is no such field, or it is not one integer per sample; FileError, ChunkError if it cannot be read.
H5FEED_EXPORT std::vector<LabelShare> label_share(const Dataset& dataset, std::string_view field = {});

/// Returns the weight 1/(n·k) of each sample, numbered from 0 to `size()` − 1, where n samples have the same
/// label and k is the number of classes: with these weights, WeightedRandomSampler draws every class equally
/// often. `field` as for `label_share`. Blocks and throws as that, and throws OptionError for a mixture,
/// which takes no sampler.
H5FEED_EXPORT std::vector<double> balanced_weights(const Dataset& dataset, std::string_view field = {});

}  // namespace h5feed
