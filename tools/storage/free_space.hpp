// SPDX-License-Identifier: Apache-2.0
// Checks that there is room for what a command is about to write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "store/write/h5_writer.hpp"

namespace h5feed::cli {

/// Returns the bytes that this user can still write in the folder of `file`, or of its target if `file` is a
/// link. `file` need not exist. Empty if the system does not tell.
std::optional<std::uint64_t> free_bytes_for(const std::filesystem::path& file);

/// Bytes that a command is about to write.
struct SpaceNeed {
  std::uint64_t bytes = 0;               ///< total of all files
  std::uint64_t largest_file_bytes = 0;  ///< largest single file
  bool estimated = false;  ///< the sizes are estimates: compressed data, measured on a few values
};

/// Returns the need of a single file of `bytes`.
inline SpaceNeed one_file(std::uint64_t bytes, bool estimated) { return {bytes, bytes, estimated}; }

/// Adds `need` to `sum`, for data that goes into the same file.
void add_to(SpaceNeed& sum, const SpaceNeed& need) noexcept;

/// Call before writing. Throws FileError that names `file` and the bytes needed and free, if the folder of
/// `file` or the process's file-size limit (ulimit -f) has less room.
void require_free_space(const std::filesystem::path& file, const SpaceNeed& need);

/// Returns stored bytes per decoded byte of `dataset`, measured by encoding at most the first MiB of `rows`,
/// which must hold at least one whole row; 1 without filters.
double measure_stored_share(const NewDataset& dataset, std::span<const std::byte> rows);

/// Returns the bytes that the values of `dataset` take at that share, with an estimate of the chunk index if
/// it is chunked; the largest number if that exceeds 64 bits.
std::uint64_t stored_bytes_of(const NewDataset& dataset, double stored_share);

/// Returns a + b, or the largest number if that exceeds 64 bits.
std::uint64_t saturating_sum(std::uint64_t a, std::uint64_t b) noexcept;

}  // namespace h5feed::cli
