// SPDX-License-Identifier: Apache-2.0
// Text and JSON that `tune` prints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "store/format/dataset_info.hpp"
#include "tools/program/output.hpp"
#include "tools/storage/storage_model.hpp"

namespace h5feed::cli {

/// Result of `tune`.
struct TuneResult {
  DatasetInfo info;
  LoaderUse use;
  bool cold = false;  ///< measured from storage
  std::uint64_t sample_rows = 0;
  std::vector<Trial> trials;  ///< ranked, at least one
  std::size_t left_out = 0;   ///< candidates for which there was no time at all
  double seconds = 0;
};

/// Returns one row per trial, in the order of `result.trials`.
Table tune_table(const TuneResult& result);
/// Returns the result as JSON.
Json tune_json(const TuneResult& result);

/// Returns the recommendation with its reason, the command to run, and the equivalent in h5py.
std::string tune_verdict(const TuneResult& result);

}  // namespace h5feed::cli
