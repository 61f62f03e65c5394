// SPDX-License-Identifier: Apache-2.0
#include "tools/measure/decode_speed.hpp"

#include <algorithm>
#include <optional>

#include "base/byte_units.hpp"
#include "base/clock.hpp"
#include "plan/permutation.hpp"
#include "store/read/stored_chunks.hpp"
#include "tools/program/interrupt.hpp"

namespace h5feed::cli {
namespace {

// Timings of chunks of one kind.
struct Timed {
  double seconds = 0;
  std::uint64_t chunks = 0;

  double each() const noexcept { return chunks == 0 ? 0 : seconds / static_cast<double>(chunks); }
};

// Which chunks were ever written, by the chunks that were examined.
struct WrittenChunks {
  double share = 0;
  std::optional<std::uint64_t> first = {};  // one of them
};

// Examines a bounded number of chunks, one in each of as many equal parts of the dataset. Examines every
// chunk of a dataset that has fewer.
WrittenChunks look_for_written(const ChunkReader& reader) {
  constexpr std::uint64_t kMostLooks = 1 << 20, kLooksAtOnce = 1 << 16;
  const StoredChunks& stored = StoredChunks::of(reader);
  const std::uint64_t chunks = reader.num_chunks();
  const std::uint64_t looks = std::min(chunks, kMostLooks);
  WrittenChunks found;
  std::uint64_t count = 0;
  for (std::uint64_t i = 0; i < looks; ++i) {
    if (i % kLooksAtOnce == 0) check_interrupted();
    const std::uint64_t part = chunks / looks, longer = chunks % looks;
    const std::uint64_t begin = i * part + std::min(i, longer);
    // Within its part at random: chunks may be written in a regular pattern.
    const std::uint64_t chunk = begin + mix_key(0, 0, i) % (part + (i < longer ? 1 : 0));
    if (!stored.written(chunk)) continue;
    if (count++ == 0) found.first = chunk;
  }
  if (looks > 0) found.share = static_cast<double>(count) / static_cast<double>(looks);
  return found;
}

}  // namespace

double written_share(const ChunkReader& reader) { return look_for_written(reader).share; }

void read_a_written_chunk(const ChunkReader& reader) {
  const WrittenChunks found = look_for_written(reader);
  if (!found.first) return;
  ByteBuffer values(static_cast<std::size_t>(reader.chunk_bytes()));
  ReadScratch scratch;
  reader.read_chunk(*found.first, values.span(), scratch);
}

double decode_seconds_per_byte(const ChunkReader& reader, std::chrono::nanoseconds budget) {
  constexpr std::uint64_t kLargestChunk = 256 * kMiB;
  constexpr std::uint64_t kMostChunks = 64;
  if (reader.num_chunks() == 0 || reader.chunk_bytes() == 0 || reader.chunk_bytes() > kLargestChunk) return 0;
  const WrittenChunks found = look_for_written(reader);
  if (!found.first) return 0;
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
  if (written.chunks == 0) time(*found.first);
  const double each = found.share * written.each() + (1 - found.share) * never_written.each();
  return each / static_cast<double>(reader.chunk_bytes());
}

}  // namespace h5feed::cli
