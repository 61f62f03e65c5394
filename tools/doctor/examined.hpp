// SPDX-License-Identifier: Apache-2.0
// Subject of `doctor`: the samples of a file, and the settings of the loader that trains with them.
#pragma once

#include <cstdint>
#include <string>

#include "base/system_limits.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"
#include "tools/bench/settings.hpp"

namespace h5feed::cli {

/// An opened dataset with the settings of its loader.
struct Examined {
  BenchSettings settings;        ///< as typed or configured, or those that doctor supposes
  std::int64_t num_workers = 0;  ///< `kAuto`, or a number
  std::string typed = {};        ///< file and settings as words of a shell, to give again
  bool supposed = false;         ///< no setting of the loader was given
  std::string others =
      {};  ///< options that name the next best dataset of the file; empty: no choice was made
  Dataset dataset;
  ResolvedOptions options;  ///< settings as a loader uses them

  const DatasetState& state() const { return *DatasetAccess::state(dataset); }
};

/// Returns the settings as typed and configured; they name one or more files. Throws OptionError, also for a
/// mixture.
BenchSettings settings_to_examine(const TypedSettings& typed);

/// Opens what the settings name: without --data and configuration the dataset of FILE with the most samples
/// that `info` knows how to read. Settings of the loader that are neither typed nor configured are those that
/// `info --write-config` starts with. `settings` are those of `typed`; `num_workers` is --num-workers as
/// typed; empty: not given. Blocks. Throws OptionError, FileError, and the errors of Dataset::open.
Examined examine(BenchSettings settings, const TypedSettings& typed, const std::string& num_workers,
                 const SystemLimits& limits);

}  // namespace h5feed::cli
