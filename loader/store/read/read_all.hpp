// SPDX-License-Identifier: Apache-2.0
// A whole dataset into memory.
#pragma once

#include "base/byte_buffer.hpp"
#include "store/read/chunk_reader.hpp"

namespace h5feed {

/// Reads the whole dataset into memory, chunks in parallel on up to `threads` threads of its own.
/// Rows are contiguous in the result. Throws as `ChunkReader::read_chunk`.
ByteBuffer read_all(const ChunkReader& reader, unsigned threads);

}  // namespace h5feed
