// SPDX-License-Identifier: Apache-2.0
// Checks and errors that the chunk readers share. Internal to this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "h5feed/error.hpp"
#include "store/read/chunk_reader.hpp"

namespace h5feed {

/// Returns the first `reader.chunk_bytes()` bytes of `out`. Throws std::invalid_argument if `out` is smaller
/// or the chunk does not exist.
std::span<std::byte> chunk_target(const ChunkReader& reader, std::uint64_t chunk, std::span<std::byte> out);

/// Throws std::invalid_argument unless the rows exist, are all in one chunk, and `outs` have exactly their
/// size.
void check_rows(const ChunkReader& reader, std::uint64_t first, std::uint64_t count,
                std::span<const std::span<std::byte>> outs);

/// Returns the error for a chunk whose stored bytes are invalid. `reason` is a clause: "the checksum does not
/// match".
ChunkError corrupt_chunk(const ChunkReader& reader, std::uint64_t chunk, std::string_view reason);

/// Rethrows the exception in flight with the chunk's description in front: FilterError as ChunkError,
/// FileError as FileError, others unchanged.
[[noreturn]] void rethrow_for_chunk(const ChunkReader& reader, std::uint64_t chunk);

/// Returns an error's text without the leading file and dataset, for use within another message. The result
/// borrows from `text`.
std::string_view without_place(std::string_view text, const DatasetInfo& info);

}  // namespace h5feed
