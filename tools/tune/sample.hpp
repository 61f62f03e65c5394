// SPDX-License-Identifier: Apache-2.0
// A sample of a dataset, stored in several ways to measure the cost of each.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_buffer.hpp"
#include "base/clock.hpp"
#include "h5feed/dataset.hpp"
#include "store/read/chunk_reader.hpp"
#include "tools/storage/storage_model.hpp"

namespace h5feed::cli {

/// Whole rows of a dataset in memory, in runs spread over the dataset.
struct RowSample {
  DatasetInfo info;  ///< info of the dataset, except that `shape.front()` is the number of sampled rows
  ByteBuffer values;
  std::uint64_t rows() const noexcept { return info.rows(); }
};

/// Throws DatasetError if other chunks are not possible or not measured: values of variable length, one
/// sample, samples above 64 MiB. Blocks. Throws FileError.
void refuse_untunable(const DatasetInfo& info);

/// Reads up to `rows` rows until `deadline`; fewer if chunks are slow, at least one. Decodes each chunk that
/// holds one of the rows as a whole. The chunks must be `regular()`. Blocks. Throws Interrupted and the
/// errors of ChunkReader::read_chunk.
RowSample sample_rows(const ChunkReader& reader, std::uint64_t rows, Clock::time_point deadline);

/// Measures the costs on a few chunks from the front of the sample, about `bytes` of them. Blocks. Throws
/// OptionError for a wrong filter.
CandidateCosts measure_costs(const RowSample& sample, const Candidate& candidate, std::uint64_t bytes);

/// Seconds of one thread for each decoded byte.
struct FilterSpeed {
  double encode_s_per_byte = 0;
  double decode_s_per_byte = 0;
};

/// Measures `filter` on the first values of the sample, at most 128 KiB. Blocks for milliseconds. Throws
/// OptionError for a wrong filter.
FilterSpeed filter_speed(const RowSample& sample, const std::string& filter);

/// The sample in a file, stored as the candidate says; the destructor removes the file.
class CandidateFile {
 public:
  /// Encodes the sample in parallel and writes the file. Blocks. Throws FileError, Interrupted.
  CandidateFile(const RowSample& sample, const Candidate& candidate, std::filesystem::path path);
  /// Writes a file of the rows of `info` that holds none of their chunks: for `check` only. Throws FileError.
  CandidateFile(const DatasetInfo& info, std::uint64_t chunk_rows, std::filesystem::path path);
  CandidateFile(const CandidateFile&) = delete;
  CandidateFile& operator=(const CandidateFile&) = delete;
  ~CandidateFile();

  std::uint64_t stored_bytes() const noexcept { return stored_bytes_; }

  /// Throws OptionError if the memory does not suffice for a loader with these settings.
  void check(const LoaderUse& use) const;

  /// Returns samples per second of the fastest of several first epochs through the loader, each with an empty
  /// cache; repeats until `duration` is over, at least twice. Time is the process's CPU time divided among as
  /// many cores as there are workers, so that other programs do not disturb it. If `cold`, drops the file's
  /// pages before each epoch and uses elapsed time, since the storage counts. Blocks.
  double measure(const LoaderUse& use, std::chrono::nanoseconds duration, bool cold) const;

  /// Returns the seconds that starting and ending a loader take, measured in the same way as `measure`:
  /// the fastest of ten, fewer if `duration` is over, at least two.
  double measure_start(const LoaderUse& use, std::chrono::nanoseconds duration) const;

  /// Returns the mean samples per second of epochs that are served from the cache, measured in the same way
  /// as `measure`. Blocks.
  double measure_cached(const LoaderUse& use, std::chrono::nanoseconds duration) const;

 private:
  Dataset open(const LoaderUse& use) const;

  std::filesystem::path path_;
  std::uint64_t stored_bytes_ = 0;
};

}  // namespace h5feed::cli
