// SPDX-License-Identifier: Apache-2.0
// Runs of `h5feed repack`.
#pragma once

#include <string>
#include <vector>

#include "support/files/temp_dir.hpp"
#include "support/programs/run_program.hpp"

namespace h5feed::test {

/// Runs `h5feed repack a.h5 b.h5` with `options` in `dir`.
inline ProgramResult repack(const TempDir& dir, std::vector<std::string> options) {
  options.insert(options.begin(), {"repack", "a.h5", "b.h5"});
  return run_program(dir.path(), options);
}

}  // namespace h5feed::test
