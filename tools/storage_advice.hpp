// What a dataset's storage will cost a training run, and what to do about it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/chunk_reader.hpp"
#include "store/dataset_info.hpp"

namespace h5feed::cli {

/// Share of the cells of all chunks that lie outside the dataset, 0 to below 1; 0 for data without chunks.
double padding_share(const DatasetInfo& info);

/// The chunk shape that h5py chooses where a writer asks for compression or a growing dataset and names
/// none: extents are halved in turn until a chunk has about 16 KiB · 2^log10(dataset / 1 MiB), at least 8
/// KiB and at most 1 MiB (h5py's documentation, "Chunked storage", and its `guess_chunk`).
std::vector<std::uint64_t> h5py_auto_chunk(const std::vector<std::uint64_t>& shape,
                                           std::size_t element_bytes);

/// What one random sample and one epoch in chunk order take.
struct ReadForecast {
  double random_bytes = 0;    ///< decoded for one sample
  double random_seconds = 0;  ///< of one thread; 0: not measured
  double epoch_bytes = 0;
  double epoch_seconds = 0;  ///< of one thread; 0: not measured
};

/// `seconds_per_byte` as `decode_seconds_per_byte` measures it. Empty for scalars and for no data.
std::optional<ReadForecast> read_forecast(const DatasetInfo& info, double seconds_per_byte);

/// One line.
std::string forecast_line(const DatasetInfo& info, const ReadForecast& forecast);

/// One sentence for each mistake that is worth mending, with the command that mends it, the costliest first;
/// empty for sound storage and for datasets below 1 MiB. `reader` may be null: then nothing is said of how
/// the data is read.
std::vector<std::string> storage_advice(const DatasetInfo& info, const ChunkReader* reader);

}  // namespace h5feed::cli
