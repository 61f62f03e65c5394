// SPDX-License-Identifier: Apache-2.0
// One dataset of `repack`: its plan, the work, and the verification.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/read/chunk_reader.hpp"
#include "store/write/h5_writer.hpp"
#include "store/write/object_copy.hpp"
#include "tools/storage/recut_plan.hpp"

namespace h5feed::cli {

/// A dataset that `repack` writes itself.
struct RepackJob {
  std::shared_ptr<const ChunkReader> reader;
  CopiedStorage storage;  ///< storage of the copy
  /// The elements are stored in the opposite of host byte order, as those of the source dataset; its reader
  /// may have no order of its own, as those of virtual and compact datasets.
  bool byte_swapped = false;
  bool chosen = false;                 ///< chosen by the user; other datasets keep their storage
  std::optional<RecutPlan> plan = {};  ///< empty: chunks are copied as stored
  RecutShapes shapes = {};             ///< shapes of the re-cut
  std::uint64_t stored_bytes = 0;      ///< bytes written so far
  /// If set, row i of the copy is row Permutation(rows, key).at(i) of the source. `sort_plan` then plans the
  /// first step, which writes rows in their new order to a scratch file; `plan` and `shapes` describe the
  /// second, from those rows to chunks.
  std::optional<std::uint64_t> shuffle_key = {};
  std::optional<RecutPlan> sort_plan = {};
  /// Row of the copy at which the rows of `reader` start; a multiple of its chunks' rows.
  std::uint64_t first_row = 0;

  const DatasetInfo& info() const noexcept { return reader->info(); }
};

/// Settings shared by all jobs of a `repack`.
struct RepackSettings {
  std::filesystem::path out;
  std::uint64_t memory_bytes = 0;
  std::uint64_t held_bytes = 0;  ///< part of `memory_bytes` taken by tables of chunks for the whole run
  unsigned jobs = 1;
  bool verify = true;
};

/// Returns the bytes of the tables of all source and copy chunks, which are held while all jobs run.
std::uint64_t bytes_of_chunk_tables(const std::vector<RepackJob>& jobs, bool verify);

/// Returns `settings` with `held_bytes` set for `jobs`. Throws OptionError if the tables would take half of
/// the memory or more.
RepackSettings settings_for(const std::vector<RepackJob>& jobs, RepackSettings settings);

/// SHA-256 digests of the decoded target chunks, computed from the source's values.
struct ChunkSeals {
  std::vector<std::array<std::byte, 32>> digests;  ///< by chunk number
  std::vector<std::uint8_t> written;               ///< 1: the chunk was written
};

using Advance = std::function<void(std::uint64_t decoded_bytes)>;

/// Returns the chunk shape in which the copy's values are written and verified; for contiguous copies, rows
/// of about 1 MiB.
std::vector<std::uint64_t> target_chunk_shape(const DatasetInfo& info, const CopiedStorage& storage);

/// Returns the bytes of scratch files in the target's folder while the job runs; 0 if memory suffices.
std::uint64_t scratch_bytes_of(const RepackJob& job, const RepackSettings& settings);

/// Returns the most memory that the job takes, tables of chunks included.
std::uint64_t memory_bytes_of(const RepackJob& job, const RepackSettings& settings);

/// Sets `plan` and `shapes` if values have to be decoded. Throws OptionError if `settings.memory_bytes` is
/// too small.
void plan_job(RepackJob& job, const RepackSettings& settings);

/// Writes all chunks of the copy and returns their digests. Blocks; calls `advance` with decoded bytes, from
/// one thread at a time. Throws ChunkError that names a corrupt source chunk, FileError, and Interrupted.
ChunkSeals write_job(RepackJob& job, H5Writer& writer, const RepackSettings& settings,
                     const Advance& advance);

/// Decodes every stored chunk of a copy that `job` has written, and returns its digests. Blocks; calls
/// `advance` with decoded bytes, from one thread at a time. Throws ChunkError, FileError and Interrupted.
ChunkSeals seals_of(const RepackJob& job, const ChunkReader& copy, const RepackSettings& settings,
                    const Advance& advance);

/// Decodes every chunk of the copy and compares its SHA-256 with that of the source's values. Blocks; calls
/// `advance` with decoded bytes, from one thread at a time. Throws ChunkError that names the first chunk that
/// differs, FileError, and Interrupted.
void verify_job(const RepackJob& job, const ChunkReader& copy, const ChunkSeals& seals,
                const RepackSettings& settings, const Advance& advance);

}  // namespace h5feed::cli
