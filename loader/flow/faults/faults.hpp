// SPDX-License-Identifier: Apache-2.0
// Parts of a loader that continue after data could not be read.
#pragma once

#include <memory>
#include <utility>

#include "dataset/dataset_state.hpp"
#include "flow/faults/bad_data.hpp"
#include "flow/faults/sample_choice.hpp"
#include "flow/measure/counters.hpp"
#include "h5feed/options.hpp"
#include "plan/sample_subset.hpp"

namespace h5feed {

/// Bad data found by a loader, and the choice of samples that avoids it. Exists unless `on_error` is `fail`.
struct Faults {
  /// Borrows `dataset` and `counters`. `chosen` is the subset of samples; null selects all. Throws
  /// OptionError if `user.bad_list` cannot be written.
  Faults(const DatasetState& dataset, std::shared_ptr<const SampleSubset> chosen,
         const DataLoaderOptions& user, Counters& counters)
      : bad(dataset, user.on_error, user.bad_list, counters),
        choice(dataset, std::move(chosen), bad, {user.on_error, user.max_bad_share}) {}

  BadData bad;
  SampleChoice choice;
};

}  // namespace h5feed
