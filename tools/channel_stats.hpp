// Mean, standard deviation and range of each channel, in one pass over a dataset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "store/attributes.hpp"
#include "store/chunk_reader.hpp"

namespace h5feed::cli {

/// One channel, in the unit of the stored values.
struct ChannelStats {
  double mean = 0;
  double std = 0;  ///< of the whole set, not a sample of it: the square root of the mean square deviation
  double min = 0;
  double max = 0;
};

/// Figures of a dataset.
struct DatasetStats {
  std::vector<ChannelStats> channels;
  std::uint64_t values = 0;      ///< for each channel, those below included
  std::uint64_t non_finite = 0;  ///< NaN and infinite values of all channels, which count for nothing
};

/// How to pass over a dataset.
struct StatsSettings {
  unsigned jobs = 1;
  std::uint64_t memory_bytes = 0;  ///< bounds the chunks under way; at least one is
};

/// Every value counts once. Integers of up to 32 bits are summed exactly; 64-bit integers and floats by two
/// passes over each chunk, merged in the order of the chunks (Chan, Golub and LeVeque, "Updating Formulae
/// and a Pairwise Algorithm for Computing Sample Variances", 1979): the result is the same for any number of
/// jobs. `channel_dimension` is that of the channels; empty: all values are one channel. `advance` gets
/// decoded bytes, from one thread at a time. Blocks. Throws as `read_chunk`, and Interrupted.
DatasetStats channel_stats(const ChunkReader& reader, std::optional<std::size_t> channel_dimension,
                           const StatsSettings& settings, const std::function<void(std::uint64_t)>& advance);

/// The same for rows of uint8 that come in any order, from any thread. Thread-safe.
class ByteStats {
 public:
  /// `row_shape` is that of one row; `channel_dimension` one of its dimensions.
  ByteStats(const std::vector<std::uint64_t>& row_shape, std::optional<std::size_t> channel_dimension);

  /// Adds whole rows.
  void add(std::span<const std::byte> rows);
  DatasetStats finish() const;

 private:
  struct Sums;
  std::shared_ptr<Sums> sums_;
};

/// The scale of stored values that the loader uses by default: 1/255 for uint8, else 1.
double default_scale(DType dtype) noexcept;

/// Mean, std, min and max of each channel, in the unit of the stored values, as attributes of these names.
std::vector<NamedAttribute> stats_attributes(const DatasetStats& stats);

/// C++ lines that normalize with these figures, e.g.
/// "options.normalize = {.scale = 1.0 / 255, .mean = {0.286041}, .std = {0.353024}};"
std::string normalize_lines(const DatasetStats& stats, DType dtype);

}  // namespace h5feed::cli
