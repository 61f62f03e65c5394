// How fast the chunks of a dataset are read and decoded, from a few of them.
#pragma once

#include <chrono>

#include "store/chunk_reader.hpp"

namespace h5feed::cli {

/// Seconds of one thread for each decoded byte, reading and filters included; 0 where nothing was measured:
/// no chunk was ever written, or one exceeds 256 MiB. Reads chunks spread over the dataset, each twice,
/// until `budget` is over (at least one). Files that are not in memory are read from storage for the first
/// time only, which is not counted. Blocks. Throws as `read_chunk`, and Interrupted.
double decode_seconds_per_byte(const ChunkReader& reader, std::chrono::nanoseconds budget);

}  // namespace h5feed::cli
