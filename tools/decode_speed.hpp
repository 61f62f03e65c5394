// How fast the chunks of a dataset are read and decoded, from a few of them.
#pragma once

#include <chrono>

#include "store/chunk_reader.hpp"

namespace h5feed::cli {

/// Share of the chunks of which something is stored, 0 … 1: the others were never written and take the fill
/// value. 1 where that is not known. Looks at 2^20 chunks at most, spread over the dataset: of more the share
/// is estimated. Throws Interrupted.
double written_share(const ChunkReader& reader);

/// Seconds of one thread for each decoded byte, reading and filters included, on average over all chunks:
/// those never written cost less, and count by their share. 0 where nothing was measured: no written
/// chunk was found, or one exceeds 256 MiB. Reads chunks spread over the dataset, each twice, until `budget`
/// is over (at least one). Files that are not in memory are read from storage for the first time only, which
/// is not counted. Blocks. Throws as `read_chunk`, and Interrupted.
double decode_seconds_per_byte(const ChunkReader& reader, std::chrono::nanoseconds budget);

}  // namespace h5feed::cli
