// SPDX-License-Identifier: Apache-2.0
// Compares what h5feed decodes with what libhdf5 reads, chunk by chunk.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/read/bad_list.hpp"
#include "store/read/chunk_reader.hpp"

namespace h5feed::cli {

/// Settings of a check.
struct CheckSettings {
  unsigned jobs = 1;  ///< threads
  /// Limit for chunks and rows in flight; at least one chunk is always in flight.
  std::uint64_t memory_bytes = 0;
  double sample = 1;  ///< share of the chunks to compare, above 0 and at most 1
  /// No chunk is started after this time.
  std::optional<Clock::time_point> deadline = {};
  BadList* bad_list = nullptr;  ///< gets the chunks that cannot be read; may be null
  bool only_decodes = false;    ///< encoded images: libhdf5 is not asked, and there is no digest
};

/// Result of checking one dataset.
struct CheckResult {
  std::uint64_t chunks = 0;     ///< chunks in the dataset
  std::uint64_t wanted = 0;     ///< chunks to visit: all, or a sample of them
  std::uint64_t visited = 0;    ///< chunks compared, or only read if libhdf5 is the only reader
  std::uint64_t differing = 0;  ///< visited chunks that differ, or that only h5feed can read
  std::uint64_t corrupt = 0;  ///< visited chunks that h5feed cannot read, or libhdf5 if it is the only reader
  /// Why libhdf5 was not asked: it lacks a filter that h5feed has. Empty if both read the chunks.
  std::string not_compared;
  std::string sha256;  ///< SHA-256 of the values in hexadecimal; empty if `no_sha256` says why
  std::string no_sha256;
  /// The first findings in chunk order, one line each. Differences name file, dataset, chunk, samples and
  /// element.
  std::vector<std::string> findings;

  /// True if no visited chunk differs or is corrupt.
  bool clean() const noexcept { return differing == 0 && corrupt == 0; }
  /// Returns whether a sample that is not the whole was visited to its end.
  bool sampled() const noexcept { return visited == wanted && wanted < chunks; }
};

/// Maximum number of findings that are described; further ones are only counted.
inline constexpr std::size_t kMostFindings = 5;

/// Compares every chunk of `reader` with H5Dread of the same elements; if the reader itself uses libhdf5,
/// only reads them. A chunk that h5feed refuses is not passed to libhdf5, whose decoders trust their input;
/// if libhdf5 lacks a filter, no chunk is. The digest covers all values in row-major order, in little-endian
/// byte order, so it does not depend on chunks, filters or byte order of the file. Runs on `jobs` threads;
/// reads through libhdf5 hold the HDF5 mutex. Calls `advance` with the decoded bytes of each visit, from one
/// thread at a time. Chunks that cannot be read are findings; throws all other errors, and Interrupted.
/// Blocks.
CheckResult check_dataset(const H5File& file, const ChunkReader& reader, const CheckSettings& settings,
                          const std::function<void(std::uint64_t)>& advance);

/// The chunks to visit for a sample: one random chunk in each of equal parts of the dataset, in chunk order,
/// the same for equal arguments. Each is computed when it is asked for: a sample of any number of chunks
/// takes no memory.
class ChunkSample {
 public:
  /// `share` is above 0 and at most 1.
  ChunkSample(std::uint64_t num_chunks, double share);

  /// Returns the number of chunks in the sample; 0 only if the dataset has none.
  std::uint64_t size() const noexcept { return parts_; }
  /// Returns the number of the chunk in one part, counted from 0.
  std::uint64_t operator[](std::uint64_t part) const;

 private:
  std::uint64_t num_chunks_;
  std::uint64_t parts_ = 0;
};

}  // namespace h5feed::cli
