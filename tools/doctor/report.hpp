// SPDX-License-Identifier: Apache-2.0
// The page that `doctor` prints.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/files/storage_kind.hpp"
#include "base/system_limits.hpp"
#include "tools/doctor/examined.hpp"
#include "tools/doctor/fault.hpp"
#include "tools/doctor/speed.hpp"
#include "tools/doctor/trial_run.hpp"
#include "tools/program/output.hpp"

namespace h5feed::cli {

/// Everything that `doctor` has to say.
struct Checkup {
  std::string file;  ///< the first file, or the first pattern of files, as typed
  StorageKind storage;
  SystemLimits limits;
  std::optional<Examined> examined;  ///< empty: what was to be examined cannot be opened, as a fault says
  std::optional<Speed> speed;        ///< of the settings; empty: not measured
  std::optional<TrialRun> trial;     ///< empty: there was no command
  std::vector<Fault> faults = {};    ///< after `sort_faults`

  bool serious() const;
};

/// Puts serious faults before minor ones, and leaves their order otherwise.
void sort_faults(std::vector<Fault>& faults);

/// Returns one row per fault.
Table checkup_table(const Checkup& checkup);
Json checkup_json(const Checkup& checkup);
/// Returns the page for people.
std::string checkup_text(const Checkup& checkup);

}  // namespace h5feed::cli
