// SPDX-License-Identifier: Apache-2.0
// Properties of FilterPipeline::decode that every input must keep.
#pragma once

#include <cstdint>

#include "fuzz/guarded_buffer.hpp"
#include "store/filters/filters.hpp"

namespace h5feed::test::fuzz {

/// Most bytes of a chunk, and of what is stored for it, that the targets use.
inline constexpr std::size_t kMaxBytes = 8192;

/// Decodes twice into memory of other content: both times FilterError, or both times the same bytes, all
/// of them written. Returns whether it decoded.
inline bool check_decode(const FilterPipeline& pipeline, std::span<const std::byte> stored,
                         std::uint32_t mask, std::size_t chunk_bytes) {
  static GuardedBuffer in_memory(kMaxBytes);
  static GuardedBuffer out_memory(kMaxBytes);
  DecodeScratch scratch;
  const std::span<const std::byte> in = in_memory.copy(stored.first(std::min(stored.size(), kMaxBytes)));
  const auto decode = [&](std::byte fill) {
    const std::span<std::byte> out = out_memory.filled(chunk_bytes, fill);
    try {
      pipeline.decode(in, mask, out, scratch);
      return Bytes(out.begin(), out.end());
    } catch (const FilterError&) {
      return Bytes();
    }
  };
  const Bytes first = decode(std::byte{0x00});
  require(decode(std::byte{0xff}) == first, "decoding depends on the stored bytes only");
  return !first.empty();
}

}  // namespace h5feed::test::fuzz
