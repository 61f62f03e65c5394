// Whether there is room for what a command is about to write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "store/h5_writer.hpp"

namespace h5feed::cli {

/// Bytes that this user can still write in the folder of `file`, which need not exist; empty where the system
/// does not tell.
std::optional<std::uint64_t> free_bytes_for(const std::filesystem::path& file);

/// What a command is about to write.
struct SpaceNeed {
  std::uint64_t bytes = 0;               ///< of all files together
  std::uint64_t largest_file_bytes = 0;  ///< of any one of them
  bool estimated = false;                ///< compressed data: measured on a few values
};

/// One file of `bytes`.
inline SpaceNeed one_file(std::uint64_t bytes, bool estimated) { return {bytes, bytes, estimated}; }

/// Adds what goes into the same file.
void add_to(SpaceNeed& sum, const SpaceNeed& need) noexcept;

/// To be called before anything is written. Throws FileError that names `file`, what is needed and what is
/// free, where the folder of `file` or the process's limit (ulimit -f) has less room.
void require_free_space(const std::filesystem::path& file, const SpaceNeed& need);

/// Stored bytes for each decoded byte of `dataset`, measured by encoding about the first MiB of `rows`, which
/// holds at least one whole row of it; 1 without filters.
double measure_stored_share(const NewDataset& dataset, std::span<const std::byte> rows);

/// Bytes that the chunks, or the contiguous values, of `dataset` take at that share; the largest number where
/// they are beyond 64 bits.
std::uint64_t stored_bytes_of(const NewDataset& dataset, double stored_share);

/// The sum, or the largest number where that is beyond 64 bits.
std::uint64_t saturating_sum(std::uint64_t a, std::uint64_t b) noexcept;

}  // namespace h5feed::cli
