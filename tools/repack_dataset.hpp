// One dataset of `repack`: what becomes of it, the work, and the proof.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/chunk_reader.hpp"
#include "store/h5_writer.hpp"
#include "store/object_copy.hpp"
#include "tools/recut_plan.hpp"

namespace h5feed::cli {

/// A dataset that `repack` fills itself.
struct RepackJob {
  std::shared_ptr<const ChunkReader> reader;
  CopiedStorage storage;               ///< of the copy
  bool chosen = false;                 ///< by the user; others are copied verbatim
  std::optional<RecutPlan> plan = {};  ///< empty: chunks are copied as they are stored
  RecutShapes shapes = {};             ///< of the re-cut
  std::uint64_t stored_bytes = 0;      ///< written so far
  /// Set: row i of the copy is row Permutation(rows, key).at(i) of the source. `plan` and `shapes` are then
  /// those of the second step, from rows in their new order; `sort_plan` that of the first, to rows.
  std::optional<std::uint64_t> shuffle_key = {};
  std::optional<RecutPlan> sort_plan = {};
  std::uint64_t first_row = 0;  ///< of the copy's dataset, where the rows of `reader` go; at a chunk's begin

  const DatasetInfo& info() const noexcept { return reader->info(); }
};

struct RepackSettings {
  std::filesystem::path out;
  std::uint64_t memory_bytes = 0;
  std::uint64_t held_bytes = 0;  ///< of them, by tables of chunks from the beginning to the end
  unsigned jobs = 1;
  bool verify = true;
};

/// What is known of each chunk of the jobs' sources and copies while all of them are worked on.
std::uint64_t bytes_of_chunk_tables(const std::vector<RepackJob>& jobs, bool verify);

/// `settings` with `held_bytes` for `jobs`. Throws OptionError where they leave nothing of the memory.
RepackSettings settings_for(const std::vector<RepackJob>& jobs, RepackSettings settings);

/// Digests of the decoded target chunks as they came from the source.
struct ChunkSeals {
  std::vector<std::array<std::byte, 32>> digests;  ///< by chunk number
  std::vector<std::uint8_t> written;               ///< 1: the chunk was written
};

using Advance = std::function<void(std::uint64_t decoded_bytes)>;

/// Chunk shape in which the copy's values are written and verified: rows of about 1 MiB where it is
/// contiguous.
std::vector<std::uint64_t> target_chunk_shape(const DatasetInfo& info, const CopiedStorage& storage);

/// Decoded bytes that are kept beside the target while the job runs, in scratch files; 0 where memory does.
std::uint64_t scratch_bytes_of(const RepackJob& job, const RepackSettings& settings);

/// The most memory that the job takes.
std::uint64_t memory_bytes_of(const RepackJob& job, const RepackSettings& settings);

/// Sets `plan` and `shapes` where values have to be decoded. Throws OptionError: too little memory.
void plan_job(RepackJob& job, const RepackSettings& settings);

/// Writes all chunks of the copy. Blocks; `advance` gets decoded bytes, from one thread at a time. Throws
/// ChunkError naming a corrupt source chunk, FileError, and Interrupted.
ChunkSeals write_job(RepackJob& job, H5Writer& writer, const RepackSettings& settings,
                     const Advance& advance);

/// Decodes every chunk of the copy and compares its SHA-256 with that of the source's values. Throws
/// ChunkError that names the first chunk that differs, and as write_job.
void verify_job(const RepackJob& job, const ChunkReader& copy, const ChunkSeals& seals,
                const RepackSettings& settings, const Advance& advance);

}  // namespace h5feed::cli
