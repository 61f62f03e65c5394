#include "tools/decode_speed.hpp"

#include <algorithm>

#include "base/byte_units.hpp"
#include "plan/permutation.hpp"
#include "tools/interrupt.hpp"

namespace h5feed::cli {

double decode_seconds_per_byte(const ChunkReader& reader, std::chrono::nanoseconds budget) {
  using Clock = std::chrono::steady_clock;
  constexpr std::uint64_t kLargestChunk = 256 * kMiB;
  constexpr std::uint64_t kMostChunks = 64;
  if (reader.num_chunks() == 0 || reader.chunk_bytes() == 0 || reader.chunk_bytes() > kLargestChunk) return 0;
  const Clock::time_point start = Clock::now();
  const Permutation order(reader.num_chunks(), mix_key(0, 0, 0));
  ByteBuffer values(static_cast<std::size_t>(reader.chunk_bytes()));
  ReadScratch scratch;
  double seconds = 0;
  std::uint64_t chunks = 0;
  for (std::uint64_t i = 0; i < std::min(kMostChunks, reader.num_chunks()); ++i) {
    if (chunks > 0 && Clock::now() - start >= budget) break;
    check_interrupted();
    const std::uint64_t chunk = order.at(i);
    if (!reader.written(chunk)) continue;
    reader.read_chunk(chunk, values.span(), scratch);
    const Clock::time_point begin = Clock::now();
    reader.read_chunk(chunk, values.span(), scratch);
    seconds += std::chrono::duration<double>(Clock::now() - begin).count();
    ++chunks;
  }
  return chunks == 0 ? 0
                     : seconds / (static_cast<double>(chunks) * static_cast<double>(reader.chunk_bytes()));
}

}  // namespace h5feed::cli
