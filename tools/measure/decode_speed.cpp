// SPDX-License-Identifier: Apache-2.0
#include "tools/measure/decode_speed.hpp"

#include <algorithm>

#include "base/byte_units.hpp"
#include "plan/permutation.hpp"
#include "store/read/stored_chunks.hpp"
#include "tools/program/interrupt.hpp"

namespace h5feed::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Timings of chunks of one kind.
struct Timed {
  double seconds = 0;
  std::uint64_t chunks = 0;

  double each() const noexcept { return chunks == 0 ? 0 : seconds / static_cast<double>(chunks); }
};

std::uint64_t count_written(const ChunkReader& reader) {
  const StoredChunks& stored = StoredChunks::of(reader);
  std::uint64_t count = 0;
  for (std::uint64_t chunk = 0; chunk < reader.num_chunks(); ++chunk)
    count += stored.written(chunk) ? 1U : 0U;
  return count;
}

std::uint64_t first_written(const StoredChunks& stored) {
  std::uint64_t chunk = 0;
  while (!stored.written(chunk)) ++chunk;
  return chunk;
}

}  // namespace

double written_share(const ChunkReader& reader) {
  if (reader.num_chunks() == 0) return 0;
  return static_cast<double>(count_written(reader)) / static_cast<double>(reader.num_chunks());
}

double decode_seconds_per_byte(const ChunkReader& reader, std::chrono::nanoseconds budget) {
  constexpr std::uint64_t kLargestChunk = 256 * kMiB;
  constexpr std::uint64_t kMostChunks = 64;
  if (reader.num_chunks() == 0 || reader.chunk_bytes() == 0 || reader.chunk_bytes() > kLargestChunk) return 0;
  const double share = written_share(reader);
  if (share == 0) return 0;
  const Clock::time_point start = Clock::now();
  ByteBuffer values(static_cast<std::size_t>(reader.chunk_bytes()));
  ReadScratch scratch;
  const StoredChunks& stored = StoredChunks::of(reader);
  Timed written, never_written;
  const auto time = [&](std::uint64_t chunk) {
    check_interrupted();
    reader.read_chunk(chunk, values.span(), scratch);
    const Clock::time_point begin = Clock::now();
    reader.read_chunk(chunk, values.span(), scratch);
    Timed& kind = stored.written(chunk) ? written : never_written;
    kind.seconds += std::chrono::duration<double>(Clock::now() - begin).count();
    ++kind.chunks;
  };
  const Permutation order(reader.num_chunks(), mix_key(0, 0, 0));
  for (std::uint64_t i = 0; i < std::min(kMostChunks, reader.num_chunks()); ++i) {
    if (i > 0 && Clock::now() - start >= budget) break;
    time(order.at(i));
  }
  if (written.chunks == 0) time(first_written(stored));
  const double each = share * written.each() + (1 - share) * never_written.each();
  return each / static_cast<double>(reader.chunk_bytes());
}

}  // namespace h5feed::cli
