// A sample of a dataset, stored in other ways to see what each costs.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/byte_buffer.hpp"
#include "h5feed/dataset.hpp"
#include "store/chunk_reader.hpp"
#include "tools/storage_model.hpp"

namespace h5feed::cli {

/// Whole rows of a dataset in memory, in runs spread over it.
struct RowSample {
  DatasetInfo info;  ///< of the dataset; `shape.front()` is the number of sampled rows
  ByteBuffer values;
  std::uint64_t rows() const noexcept { return info.rows(); }
};

/// Reads up to `rows` rows until `deadline`; fewer where chunks are slow, at least one. Chunks that the rows
/// lie in are decoded whole. Blocks. Throws as `read_chunk`, and Interrupted.
RowSample sample_rows(const ChunkReader& reader, std::uint64_t rows,
                      std::chrono::steady_clock::time_point deadline);

/// On a few chunks from the front of the sample, about `bytes` of them. Blocks. Throws OptionError for a
/// wrong filter.
CandidateCosts measure_costs(const RowSample& sample, const Candidate& candidate, std::uint64_t bytes);

/// The sample in a file of its own, as the candidate stores it; removed with the object.
class CandidateFile {
 public:
  /// Encodes in parallel. Blocks. Throws FileError, Interrupted.
  CandidateFile(const RowSample& sample, const Candidate& candidate, std::filesystem::path path);
  CandidateFile(const CandidateFile&) = delete;
  CandidateFile& operator=(const CandidateFile&) = delete;
  ~CandidateFile();

  std::uint64_t stored_bytes() const noexcept { return stored_bytes_; }

  /// Samples a second of the fastest of several first epochs through the loader, each with an empty cache,
  /// until `duration` is over; at least two. Seconds are those that the process works, divided among as many
  /// cores as there are workers, so that other programs do not blur them. `cold`: the file's pages are
  /// dropped before each epoch, and seconds are those of the clock, since the storage counts. Blocks.
  double measure(const LoaderUse& use, std::chrono::nanoseconds duration, bool cold) const;

  /// Seconds that starting a loader and ending it take, counted in the same way.
  double measure_start(const LoaderUse& use) const;

  /// As `measure`, on average, for epochs that are served from the cache.
  double measure_cached(const LoaderUse& use, std::chrono::nanoseconds duration) const;

 private:
  std::filesystem::path path_;
  std::uint64_t chunks_ = 1;
  std::uint64_t stored_bytes_ = 0;
};

}  // namespace h5feed::cli
