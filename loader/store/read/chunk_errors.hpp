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

/// The first `chunk_bytes()` of `out`. Throws std::invalid_argument for a smaller span or a chunk that
/// does not exist.
std::span<std::byte> chunk_target(const ChunkReader& reader, std::uint64_t chunk, std::span<std::byte> out);

/// Throws std::invalid_argument unless the rows exist, lie in one chunk and `outs` have their size.
void check_rows(const ChunkReader& reader, std::uint64_t first, std::uint64_t count,
                std::span<const std::span<std::byte>> outs);

/// The error about a chunk whose stored bytes cannot be right, `reason` being a clause: "the checksum does
/// not match".
ChunkError corrupt_chunk(const ChunkReader& reader, std::uint64_t chunk, std::string_view reason);

/// Rethrows the exception in flight with the chunk's name in front: FilterError as ChunkError,
/// FileError as itself. Others pass through.
[[noreturn]] void rethrow_for_chunk(const ChunkReader& reader, std::uint64_t chunk);

/// An error's text without the file and dataset it begins with, to stand within another.
std::string_view without_place(std::string_view text, const DatasetInfo& info);

}  // namespace h5feed
