// SPDX-License-Identifier: Apache-2.0
// Measures how fast the chunks of a dataset are read and decoded, from a few of them.
#pragma once

#include <chrono>

#include "store/read/chunk_reader.hpp"

namespace h5feed::cli {

/// Returns the share of the chunks, 0 … 1, that were ever written; the others hold the fill value. 1 if that
/// is not known. Examines at most 2^20 chunks, spread over the dataset; of more chunks the share is an
/// estimate. Throws Interrupted.
double written_share(const ChunkReader& reader);

/// Reads one chunk that was written, to see whether the dataset can be decoded; none where no written chunk
/// is found. Blocks. Throws Interrupted and the errors of ChunkReader::read_chunk.
void read_a_written_chunk(const ChunkReader& reader);

/// Returns one thread's seconds per decoded byte, reading and filters included, averaged over all chunks;
/// chunks that were never written count by their share. 0 if nothing was measured: no written chunk was
/// found, or one exceeds 256 MiB. Reads 1 to 64 chunks spread over the dataset until `budget` is over, each
/// twice; only the second read counts, so time to load pages from storage is excluded. Blocks. Throws
/// Interrupted and the errors of ChunkReader::read_chunk.
double decode_seconds_per_byte(const ChunkReader& reader, std::chrono::nanoseconds budget);

}  // namespace h5feed::cli
