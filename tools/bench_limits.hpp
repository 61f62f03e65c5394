// How fast the same threads could go if they did nothing but the unavoidable: the yardstick for the
// loader.
#pragma once

#include <chrono>
#include <cstdint>

#include "dataset/dataset_state.hpp"

namespace h5feed::cli {

/// What both limits are measured with.
struct LimitSetup {
  unsigned threads = 1;
  std::uint64_t slot_bytes = 0;  ///< all slots together, at least one row a thread is used
  std::chrono::nanoseconds duration = std::chrono::seconds(1);
};

/// Decoded bytes a second: threads read each chunk in turn, run its filters, and copy its rows into
/// rotating slots; no cache, no order, no queue. Blocks. Throws as ChunkReader::read_chunk.
double measure_decode_limit(const Field& data, const LimitSetup& setup);

/// Bytes a second: threads read single random rows straight into the slots. Needs
/// `data.reader->rows_readable()`. Blocks. Throws as ChunkReader::read_rows.
double measure_gather_limit(const Field& data, const LimitSetup& setup);

}  // namespace h5feed::cli
