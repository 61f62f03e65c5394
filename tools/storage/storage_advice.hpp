// SPDX-License-Identifier: Apache-2.0
// Predicts what a dataset's storage costs a training run, and finds what to improve.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/system_limits.hpp"
#include "store/format/dataset_info.hpp"
#include "store/read/chunk_reader.hpp"

namespace h5feed::cli {

/// Returns the share of chunk elements that are outside the dataset, from 0 to below 1; 0 for data without
/// chunks.
double padding_share(const DatasetInfo& info);

/// Returns the chunk shape that h5py chooses when a writer asks for compression or a resizable dataset
/// without a chunk shape: extents are halved in turn until a chunk has about 16 KiB · 2^log10(dataset / 1
/// MiB), at least 8 KiB and at most 1 MiB (h5py's documentation, "Chunked storage", and its `guess_chunk`).
std::vector<std::uint64_t> h5py_auto_chunk(const std::vector<std::uint64_t>& shape,
                                           std::size_t element_bytes);

/// Cost of one random sample and of one epoch in chunk order.
struct ReadForecast {
  double random_bytes = 0;    ///< bytes decoded for one sample
  double random_seconds = 0;  ///< seconds of one thread for one sample; 0: not measured
  double epoch_bytes = 0;
  double epoch_seconds = 0;  ///< seconds of one thread for one epoch; 0: not measured
};

/// Returns the forecast from `seconds_per_byte`, as measured by `decode_seconds_per_byte`. Empty for scalars
/// and for empty data.
std::optional<ReadForecast> read_forecast(const DatasetInfo& info, double seconds_per_byte);

/// Returns the forecast as one line of text.
std::string forecast_line(const DatasetInfo& info, const ReadForecast& forecast);

/// Mistakes in how a dataset is stored.
enum class StorageMistake : std::uint8_t {
  cut_samples,     ///< a sample spans several chunks
  fallback,        ///< libhdf5 has to read it, one thread at a time
  unset_chunks,    ///< samples are cut by chunks that h5py chose
  wide_chunks,     ///< chunks exceed the shape
  padding,         ///< many cells of the chunks are outside the data
  one_row_chunks,  ///< a small sample in each chunk
  one_chunk,       ///< all is one large compressed chunk
  large_chunks,    ///< chunks take much memory
  useless_filter,  ///< a filter that saves hardly any space
};

/// One mistake in how a dataset is stored.
struct StorageFault {
  StorageMistake mistake = StorageMistake::cut_samples;
  std::string what;     ///< what is wrong, with figures
  std::string cure;     ///< what to do
  std::string command;  ///< the command, or the line of h5py, that does it; empty: none does

  /// Returns the fault as one line: "/images: WHAT; CURE: COMMAND".
  std::string line(const DatasetInfo& info) const;
};

/// A way to mend how a dataset is stored.
struct StorageCure {
  std::string text;     ///< a sentence that says what it changes
  std::string command;  ///< the command, or the line of h5py, that does it
};

/// Returns `text` with the command of `repack` with `options`, which rewrites the dataset in chunks of
/// `chunk`; with --memory if it needs more than its default. Where this machine has no memory for the places
/// of the chunks, or there are millions of which none is written, returns what works better: to write the
/// dataset anew in such chunks, by h5py.
StorageCure storage_cure(const DatasetInfo& info, std::string text, std::string_view options,
                         const std::vector<std::uint64_t>& chunk,
                         std::uint64_t available_bytes = system_limits().available_bytes);

/// Returns the fault of a dataset whose samples span several chunks, with figures; empty if they do not.
std::optional<StorageFault> cut_samples(const DatasetInfo& info);

/// Returns the other mistakes worth fixing, the costliest first; none for sound storage and for datasets
/// below 1 MiB. If `reader` is null, omits how the data is read.
std::vector<StorageFault> storage_faults(const DatasetInfo& info, const ChunkReader* reader);

}  // namespace h5feed::cli
