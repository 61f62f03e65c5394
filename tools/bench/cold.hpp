// SPDX-License-Identifier: Apache-2.0
// Measures how fast a file's bytes can be read from its storage: the reference for cold rows of `bench`.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "store/format/byte_source.hpp"

namespace h5feed::cli {

/// A run of bytes in a file.
struct FileRange {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// The byte ranges of a dataset that its loader reads directly. Immutable.
class StoredData {
 public:
  StoredData() = default;
  /// Lists the ranges of `data`; empty if only libhdf5 can read the data. Opens the file and blocks for the
  /// HDF5 mutex. Throws FileError.
  explicit StoredData(const Field& data);

  /// True if libhdf5 has to read the data, or nothing was ever written.
  bool empty() const noexcept { return chunks_.empty(); }

  /// Returns all stored bytes in file order, in reads of at most 4 MiB.
  std::vector<FileRange> in_file_order() const;
  /// Number of stored chunks, or of runs of rows if the data is not chunked. Chunks that were never written
  /// are not counted.
  std::uint64_t num_chunks() const noexcept { return chunks_.size(); }
  /// Returns the bytes of one stored chunk or run of rows. `number` must be below `num_chunks()`.
  FileRange chunk(std::uint64_t number) const noexcept { return chunks_[number]; }
  /// Number of single rows in the stored chunks, for uncompressed data. If some chunks were never written,
  /// row numbers shift, so only the number and sizes of rows match the dataset.
  std::uint64_t num_rows() const noexcept { return chunks_.size() * rows_per_chunk_; }
  /// Returns the bytes of one row. `number` must be below `num_rows()`.
  FileRange row(std::uint64_t number) const noexcept;

 private:
  std::vector<FileRange> chunks_;
  std::uint64_t rows_per_chunk_ = 1;
  std::uint64_t row_bytes_ = 0;
};

/// Order of the bare reads.
enum class ColdOrder : std::uint8_t { sequential, random_chunks, random_rows };

/// Settings of a measurement of bare reads.
struct ColdSetup {
  std::filesystem::path file;
  ColdOrder order = ColdOrder::sequential;
  unsigned depth = 1;  ///< reads in flight, one thread each
  std::uint64_t seed = 0;
  std::chrono::nanoseconds duration = std::chrono::seconds(1);
};

/// Result of bare reads.
struct ColdRate {
  double bytes_per_s = 0;
  double resident_share = 0;  ///< largest share of the file's pages, 0 … 1, still cached after a drop
};

/// Drops the file's pages, then reads each range once; repeats such passes until the time is over. Time spent
/// dropping pages is not counted. Sequential reads use one thread. Blocks. Throws FileError.
ColdRate measure_cold_limit(const StoredData& data, const ColdSetup& setup);

}  // namespace h5feed::cli
