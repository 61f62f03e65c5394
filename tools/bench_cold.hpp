// How fast a file's bytes come from its storage by bare reads: the yardstick for cold rows of `bench`.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "store/byte_source.hpp"

namespace h5feed::cli {

/// A run of bytes in a file.
struct FileRange {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// Where the bytes of a dataset lie that its loader reads directly.
class StoredData {
 public:
  StoredData() = default;
  /// Empty where libhdf5 has to read the data. Blocks for the HDF5 mutex. Throws FileError.
  explicit StoredData(const Field& data);

  bool empty() const noexcept { return chunks_.empty(); }

  /// All bytes in file order, cut into large reads.
  std::vector<FileRange> in_file_order() const;
  /// Stored chunks, or runs of rows where the data is not chunked; those never written are left out.
  std::uint64_t num_chunks() const noexcept { return chunks_.size(); }
  FileRange chunk(std::uint64_t number) const noexcept { return chunks_[number]; }
  /// Single rows of uncompressed data. Rows behind a chunk that was never written are counted from its
  /// neighbours, so only their number and sizes are those of the dataset.
  std::uint64_t num_rows() const noexcept { return chunks_.size() * rows_per_chunk_; }
  FileRange row(std::uint64_t number) const noexcept;

 private:
  std::vector<FileRange> chunks_;
  std::uint64_t rows_per_chunk_ = 1;
  std::uint64_t row_bytes_ = 0;
};

/// Which order bare reads take.
enum class ColdOrder : std::uint8_t { sequential, random_chunks, random_rows };

struct ColdSetup {
  std::filesystem::path file;
  ColdOrder order = ColdOrder::sequential;
  unsigned depth = 1;  ///< reads in flight: as many threads
  std::uint64_t seed = 0;
  std::chrono::nanoseconds duration = std::chrono::seconds(1);
};

/// What bare reads achieved.
struct ColdRate {
  double bytes_per_s = 0;
  double resident_share = 0;  ///< largest share of pages that a drop left
};

/// Drops the file's pages, then reads each range once, in passes until the time is over; drops do not
/// count. Sequential reads use one thread. Blocks. Throws FileError.
ColdRate measure_cold_limit(const StoredData& data, const ColdSetup& setup);

}  // namespace h5feed::cli
