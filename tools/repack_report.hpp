// What `repack` says before it starts and at its end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/output.hpp"
#include "tools/repack_choice.hpp"
#include "tools/repack_dataset.hpp"

namespace h5feed::cli {

/// Figures of the whole, measured on a few chunks of each dataset where they cannot be known.
struct RepackEstimate {
  std::uint64_t bytes_in = 0;       ///< stored
  std::uint64_t bytes_out = 0;      ///< stored
  std::uint64_t other_bytes = 0;    ///< of them, of all that is in no job
  std::uint64_t decoded_bytes = 0;  ///< of all datasets that are not left to libhdf5
  std::uint64_t memory_bytes = 0;   ///< the most at once
  std::uint64_t scratch_bytes = 0;  ///< beside the target, while it is written
  /// Where the target goes; empty where the system does not tell.
  std::optional<std::uint64_t> free_bytes = {};
  double seconds = 0;  ///< without verification
  double verify_seconds = 0;
};

/// Decodes and encodes a few chunks, decides for each job whether a scratch file is cheaper than decoding
/// again, and sums up. Blocks for well below a second a dataset of usual chunks. Throws as the readers.
RepackEstimate estimate_repack(std::vector<RepackJob>& jobs, const std::string& in,
                               const RepackSettings& settings);

/// One line for each dataset and one of figures.
std::string plan_text(const std::vector<RepackJob>& jobs, const RepackArguments& arguments,
                      const RepackEstimate& estimate);

/// One line for each dataset stored anew and one for the file.
std::string result_text(const std::vector<RepackJob>& jobs, const RepackArguments& arguments,
                        std::uint64_t file_bytes, double seconds);

Json repack_json(const std::vector<RepackJob>& jobs, const RepackArguments& arguments,
                 const RepackEstimate& estimate, std::uint64_t file_bytes, double seconds);

}  // namespace h5feed::cli
