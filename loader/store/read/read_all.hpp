// SPDX-License-Identifier: Apache-2.0
// Reads a whole dataset into memory.
#pragma once

#include "base/byte_buffer.hpp"
#include "store/read/chunk_reader.hpp"

namespace h5feed {

/// Reads the whole dataset into memory, in parallel on up to `threads` threads including the caller's, and
/// returns it with contiguous rows. Blocks. Throws FileError on I/O errors, ChunkError on corrupt bytes and
/// std::bad_alloc.
ByteBuffer read_all(const ChunkReader& reader, unsigned threads);

}  // namespace h5feed
