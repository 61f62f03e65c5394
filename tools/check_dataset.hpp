// Compares what h5feed decodes with what libhdf5 reads, chunk by chunk.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "store/chunk_reader.hpp"
#include "store/h5_file.hpp"

namespace h5feed::cli {

/// How to check.
struct CheckSettings {
  unsigned jobs = 1;               ///< threads
  std::uint64_t memory_bytes = 0;  ///< for chunks and rows under way; at least one chunk is
  double sample = 1;               ///< share of the chunks to compare, above 0 and at most 1
  std::optional<std::chrono::steady_clock::time_point> deadline = {};  ///< no chunk is begun after it
};

/// What became of one dataset.
struct CheckResult {
  std::uint64_t chunks = 0;     ///< of the dataset
  std::uint64_t wanted = 0;     ///< to be visited: all, or a sample of them
  std::uint64_t visited = 0;    ///< compared, or where libhdf5 alone reads them, read
  std::uint64_t differing = 0;  ///< of these, with other bytes, or readable by h5feed only
  std::uint64_t corrupt = 0;    ///< of these, not readable by h5feed, or by libhdf5 where it alone reads
  /// Why libhdf5 was not asked, where it lacks a filter that h5feed has; empty where both read.
  std::string not_compared;
  std::string sha256;  ///< of the values; empty where `no_sha256` says why
  std::string no_sha256;
  /// The first findings in order of the chunks, one line each. Differences name file, dataset, chunk,
  /// samples and element.
  std::vector<std::string> findings;

  bool clean() const noexcept { return differing == 0 && corrupt == 0; }
  /// Whether a sample that is not the whole was visited to its end.
  bool sampled() const noexcept { return visited == wanted && wanted < chunks; }
};

/// Most findings that are described; the others are counted.
inline constexpr std::size_t kMostFindings = 5;

/// Compares every chunk of `reader` with H5Dread of the same elements, or, where the reader itself goes
/// through libhdf5, only reads them there. A chunk that h5feed refuses is not given to libhdf5, whose
/// decoders trust their input; nor is any where libhdf5 lacks a filter. The digest is that of all values in
/// row-major order of the dataset, in host (little-endian) byte order: it depends on the values alone, not on
/// chunks, filters or byte order of the file. Runs on `jobs` threads; libhdf5's side holds the HDF5 mutex.
/// Calls `advance` with the decoded bytes of each visit, from one thread at a time. Chunks that cannot be
/// read are findings; throws what else goes wrong, and Interrupted.
CheckResult check_dataset(const H5File& file, const ChunkReader& reader, const CheckSettings& settings,
                          const std::function<void(std::uint64_t)>& advance);

/// Numbers of the chunks that a sample visits: one at random in each of as many equal parts, the same for
/// equal arguments. `share` is above 0 and at most 1.
std::vector<std::uint64_t> sample_chunks(std::uint64_t num_chunks, double share);

}  // namespace h5feed::cli
