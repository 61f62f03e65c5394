// What `tune` prints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/output.hpp"
#include "tools/tune_model.hpp"

namespace h5feed::cli {

/// What was found.
struct TuneResult {
  DatasetInfo info;
  LoaderUse use;
  bool cold = false;  ///< measured from storage
  std::uint64_t sample_rows = 0;
  std::vector<Trial> trials;  ///< ranked, at least one
  std::size_t left_out = 0;   ///< candidates for which there was no time at all
  double seconds = 0;
};

Table tune_table(const TuneResult& result);
Json tune_json(const TuneResult& result);

/// The recommendation with its reason, the command to run, and what says the same in h5py.
std::string tune_verdict(const TuneResult& result);

}  // namespace h5feed::cli
