// SPDX-License-Identifier: Apache-2.0
// Text and JSON that `repack` prints before it starts and at its end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/program/output.hpp"
#include "tools/repack/choice.hpp"
#include "tools/repack/dataset.hpp"

namespace h5feed::cli {

/// Totals of a `repack`; unknown ones are estimated from a few chunks of each dataset.
struct RepackEstimate {
  std::uint64_t bytes_in = 0;       ///< stored bytes of the source
  std::uint64_t bytes_out = 0;      ///< stored bytes of the copy
  std::uint64_t other_bytes = 0;    ///< part of `bytes_in`, and of `bytes_out`, that belongs to no job
  std::uint64_t decoded_bytes = 0;  ///< decoded bytes of all datasets that h5feed writes itself
  std::uint64_t memory_bytes = 0;   ///< peak memory
  std::uint64_t scratch_bytes = 0;  ///< scratch files in the target's folder while it is written
  /// Free bytes in the target's folder; empty if the system does not tell.
  std::optional<std::uint64_t> free_bytes = {};
  double seconds = 0;  ///< without verification
  double verify_seconds = 0;
};

/// Decodes and encodes a few chunks, decides for each job whether a scratch file is cheaper than decoding
/// again, and returns the totals. `rehearsal_s` is how long the rehearsal of the copy of all other objects
/// took
/// (`rehearse_copy`), 0 if none are copied. Blocks for well below a second per dataset with usual chunks.
/// Throws the errors of the readers.
RepackEstimate estimate_repack(std::vector<RepackJob>& jobs, const std::string& in, double rehearsal_s,
                               const RepackSettings& settings);

/// Says on stderr that links into other files, those of `check_copyable`, lead elsewhere from the copy.
void say_moved_links(const std::vector<std::string>& links);

/// Returns one line for each dataset and one with the totals.
std::string plan_text(const std::vector<RepackJob>& jobs, const RepackArguments& arguments,
                      const RepackEstimate& estimate);

/// Returns one line for each re-encoded dataset and one for the file.
std::string result_text(const std::vector<RepackJob>& jobs, const RepackArguments& arguments,
                        std::uint64_t file_bytes, double seconds);

/// Returns plan, estimate and result as JSON.
Json repack_json(const std::vector<RepackJob>& jobs, const RepackArguments& arguments,
                 const RepackEstimate& estimate, std::uint64_t file_bytes, double seconds);

}  // namespace h5feed::cli
