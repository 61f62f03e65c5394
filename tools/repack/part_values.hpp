// SPDX-License-Identifier: Apache-2.0
// Whether a part of `repack` still holds the values that were verified when it was written.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/repack/dataset.hpp"

namespace h5feed::cli {

/// Attribute of a part's root group: a digest of its values, which the process that wrote the part compared
/// with the source's. Parts that were written with --no-verify have none.
inline constexpr const char* kPartValues = "h5feed_values";

/// Returns a digest of the values of a part's datasets, in the order of its jobs.
std::string digest_of(const std::vector<ChunkSeals>& seals);

/// Whether a part, the file to which `repack` writes some of the rows with --split, --part or --resume, still
/// holds the values that were verified when it was written.
enum class PartValues {
  as_verified,   ///< They have the digest that was written with them
  not_verified,  ///< There is no digest
  changed        ///< They have another one, or cannot be read
};

/// Decodes the part's file, and returns what its values are. `jobs` are those that wrote it. Blocks; calls
/// `advance` with decoded bytes, from one thread at a time. Throws Interrupted, and IsolationError.
PartValues values_of_part(const std::filesystem::path& part, const std::vector<RepackJob>& jobs,
                          const RepackSettings& settings, const Advance& advance);

/// Returns whether the process that wrote the part has verified it. Reads its attribute only. Throws
/// FileError.
bool was_verified(const std::filesystem::path& part);

}  // namespace h5feed::cli
