// A sample of a dataset, stored in other ways to see what each costs.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_buffer.hpp"
#include "h5feed/dataset.hpp"
#include "h5feed/options.hpp"
#include "store/chunk_reader.hpp"

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

/// One way to store it.
struct Candidate {
  std::uint64_t chunk_rows = 1;
  std::string filter;  ///< as --filter takes it
};

/// What a thread works for a chunk of it, and how small it gets.
struct CandidateCosts {
  double decode_s = 0;      ///< a chunk, the fastest of several passes
  double encode_s = 0;      ///< a chunk
  double stored_share = 1;  ///< stored / decoded
};

/// On a few chunks from the front of the sample, about `bytes` of them. Blocks. Throws OptionError for a
/// wrong filter.
CandidateCosts measure_costs(const RowSample& sample, const Candidate& candidate, std::uint64_t bytes);

/// Seconds that a thread works for each decoded byte.
struct FilterSpeed {
  double encode_s_per_byte = 0;
  double decode_s_per_byte = 0;
};

/// Of `filter` on the first values of the sample, 128 KiB at most. Blocks for milliseconds. Throws
/// OptionError for a wrong filter.
FilterSpeed filter_speed(const RowSample& sample, const std::string& filter);

/// How the loader is to be used.
struct LoaderUse {
  std::uint64_t batch_size = 256;
  Shuffle shuffle;
  std::uint64_t cache_bytes = 0;
  std::optional<std::uint64_t> memory_budget_bytes = {};  ///< unset: the loader's default
  std::int64_t num_workers = 0;
  InputLayout layout = InputLayout::automatic;
};

/// The sample in a file of its own, as the candidate stores it; removed with the object.
class CandidateFile {
 public:
  /// Encodes in parallel. Blocks. Throws FileError, Interrupted.
  CandidateFile(const RowSample& sample, const Candidate& candidate, std::filesystem::path path);
  CandidateFile(const CandidateFile&) = delete;
  CandidateFile& operator=(const CandidateFile&) = delete;
  ~CandidateFile();

  std::uint64_t stored_bytes() const noexcept { return stored_bytes_; }

  /// Throws OptionError where no loader can be used so, for want of memory.
  void check(const LoaderUse& use) const;

  /// Samples a second of the fastest of several first epochs through the loader, each with an empty cache,
  /// until `duration` is over; at least two. Seconds are those that the process works, divided among as many
  /// cores as there are workers, so that other programs do not blur them. `cold`: the file's pages are
  /// dropped before each epoch, and seconds are those of the clock, since the storage counts. Blocks.
  double measure(const LoaderUse& use, std::chrono::nanoseconds duration, bool cold) const;

  /// Seconds that starting a loader and ending it take, counted in the same way: the fastest of ten, fewer
  /// where `duration` is over, at least two.
  double measure_start(const LoaderUse& use, std::chrono::nanoseconds duration) const;

  /// As `measure`, on average, for epochs that are served from the cache.
  double measure_cached(const LoaderUse& use, std::chrono::nanoseconds duration) const;

 private:
  std::filesystem::path path_;
  std::uint64_t chunks_ = 1;
  std::uint64_t stored_bytes_ = 0;
};

}  // namespace h5feed::cli
