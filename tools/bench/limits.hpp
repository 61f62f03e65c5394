// SPDX-License-Identifier: Apache-2.0
// Upper bounds for the loader's speed: the same threads do only the unavoidable work.
#pragma once

#include <chrono>
#include <cstdint>

#include "dataset/dataset_state.hpp"

namespace h5feed::cli {

/// Settings for both limits.
struct LimitSetup {
  unsigned threads = 1;
  std::uint64_t slot_bytes = 0;  ///< all threads' slots together; each thread has room for at least one row
  std::chrono::nanoseconds duration = std::chrono::seconds(1);
  bool skip_bad = false;  ///< pass over what cannot be read or decoded, instead of throwing
};

/// Returns decoded bytes per second: threads read each chunk in turn, run its filters, and copy its rows into
/// rotating slots, without cache, order or queue. Blocks. Throws the errors of ChunkReader::read_chunk,
/// without `skip_bad`.
double measure_decode_limit(const Field& data, const LimitSetup& setup);

/// Returns bytes per second: threads read single random rows straight into the slots. Needs
/// `data.reader->rows_readable()`. Blocks. Throws the errors of ChunkReader::read_rows,
/// without `skip_bad`.
double measure_gather_limit(const Field& data, const LimitSetup& setup);

}  // namespace h5feed::cli
