// SPDX-License-Identifier: Apache-2.0
// Mean, standard deviation and range of each channel of a dataset, in one pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "store/read/chunk_reader.hpp"
#include "store/write/attributes.hpp"

namespace h5feed::cli {

/// Statistics of one channel, in the unit of the stored values. All are NaN if the channel has no finite
/// value. Mean and range of large 64-bit integers are rounded to the next double, so `min` may equal `max`
/// where values differ; `std` is 0 only if they do not, or if it is too small for a double.
struct ChannelStats {
  double mean = 0;
  double std = 0;  ///< population standard deviation: square root of the mean squared deviation
  double min = 0;
  double max = 0;
};

/// Statistics of a dataset.
struct DatasetStats {
  std::vector<ChannelStats> channels;
  std::uint64_t values = 0;      ///< values per channel, non-finite ones included
  std::uint64_t non_finite = 0;  ///< NaN and infinite values of all channels; excluded from the statistics
};

/// Resources for a pass over a dataset.
struct StatsSettings {
  unsigned jobs = 1;
  std::uint64_t memory_bytes = 0;  ///< limit for chunks in flight; at least one is always in flight
};

/// Returns the statistics of all values of a reader whose chunks are `regular()`. Integers
/// are summed exactly; floats by two passes over each chunk, merged in chunk order (Chan,
/// Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979), so
/// the result does not depend on the number of jobs. `channel_dimension` is the index of the channel
/// dimension; empty: all values are one channel. Calls `advance` with decoded bytes, from one thread at a
/// time. Blocks. Throws Interrupted and the errors of ChunkReader::read_chunk.
DatasetStats channel_stats(const ChunkReader& reader, std::optional<std::size_t> channel_dimension,
                           const StatsSettings& settings, const std::function<void(std::uint64_t)>& advance);

/// Computes the statistics of uint8 rows that arrive in any order, from any thread. Thread-safe.
class ByteStats {
 public:
  /// `row_shape` is the shape of one row; `channel_dimension` is an index into it.
  ByteStats(const std::vector<std::uint64_t>& row_shape, std::optional<std::size_t> channel_dimension);

  /// Adds one or more whole rows.
  void add(std::span<const std::byte> rows);
  /// Returns the statistics of all rows added so far.
  DatasetStats finish() const;

 private:
  struct Sums;
  std::shared_ptr<Sums> sums_;
};

/// Returns the factor that the loader applies to stored values by default: 1/255 for uint8, else 1.
double default_scale(DType dtype) noexcept;

/// Returns attributes named mean, std, min and max with the values of all channels, in the unit of the stored
/// values.
std::vector<NamedAttribute> stats_attributes(const DatasetStats& stats);

/// Parameters of the loader's `normalize`, one of each per channel.
struct NormalizeStats {
  double scale = 1;
  std::vector<double> mean = {};
  std::vector<double> std = {};
  /// Number of channels without finite values or with one value only, for which `std` is 1: the loader
  /// refuses other numbers there.
  std::size_t unscaled = 0;
};

/// Returns the parameters with which the loader normalizes values of `dtype` to mean 0 and standard
/// deviation 1.
NormalizeStats normalize_stats(const DatasetStats& stats, DType dtype);

/// Returns C++ lines that normalize with these statistics, e.g.
/// "options.normalize = {.scale = 1.0 / 255, .mean = {0.286041}, .std = {0.353024}};"
std::string normalize_lines(const DatasetStats& stats, DType dtype);

}  // namespace h5feed::cli
