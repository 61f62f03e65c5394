// The three ways of reading chunks. Internal: ChunkReader::open chooses.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "store/chunk_index.hpp"
#include "store/chunk_reader.hpp"

namespace h5feed {

/// Chunked layout by pread and own filters.
std::shared_ptr<const ChunkReader> make_direct_reader(DatasetInfo info, ChunkIndex index,
                                                      std::shared_ptr<const ByteSource> source);

/// Contiguous or compact data, cut into runs of rows. `source` holds it from `begin` on; empty when
/// nothing was ever written.
std::shared_ptr<const ChunkReader> make_flat_reader(DatasetInfo info, std::optional<std::uint64_t> begin,
                                                    std::shared_ptr<const ByteSource> source);

/// Anything, under libhdf5's lock. Chunks whose filters are all built in are only read there, and
/// decoded outside; the rest goes through H5Dread.
std::shared_ptr<const ChunkReader> make_fallback_reader(DatasetInfo info, std::shared_ptr<H5File> file,
                                                        std::string reason);

/// As `make_fallback_reader`, with the reason logged where `settings` says so.
std::shared_ptr<const ChunkReader> open_fallback(std::shared_ptr<H5File> file, DatasetInfo info,
                                                 const std::string& reason, const ReaderSettings& settings);

/// A virtual dataset, whose sources `settings.pool` opens. Throws FileError and DatasetError that name a
/// source which is missing or cannot be read.
std::shared_ptr<const ChunkReader> open_virtual(const std::shared_ptr<H5File>& file, const DatasetInfo& info,
                                                const ReaderSettings& settings);

/// The first `chunk_bytes()` of `out`. Throws std::invalid_argument for a smaller span or a chunk that
/// does not exist.
std::span<std::byte> chunk_target(const ChunkReader& reader, std::uint64_t chunk, std::span<std::byte> out);

/// Throws std::invalid_argument unless the rows exist, lie in one chunk and `outs` have their size.
void check_rows(const ChunkReader& reader, std::uint64_t first, std::uint64_t count,
                std::span<const std::span<std::byte>> outs);

/// Rethrows the exception in flight with the chunk's name in front: FilterError as ChunkError,
/// FileError as itself. Others pass through.
[[noreturn]] void rethrow_for_chunk(const ChunkReader& reader, std::uint64_t chunk);

/// Nanoseconds of a monotonic clock.
std::uint64_t now_ns() noexcept;

}  // namespace h5feed
