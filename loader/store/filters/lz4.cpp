// SPDX-License-Identifier: Apache-2.0
// HDF5 filter 32004 (lz4).
#include <fmt/format.h>
#include <lz4.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "store/filters/bytes.hpp"
#include "store/filters/entry.hpp"

namespace h5feed {
namespace {

constexpr std::size_t kLengthBytes = 4;

std::size_t decode_lz4_stage(const FilterSpec&, std::span<const std::byte> in, std::span<std::byte> out,
                             CodecState&) {
  return decode_lz4(in, out);
}

std::vector<std::byte> encode_lz4_stage(const FilterSpec& filter, std::vector<std::byte> data) {
  constexpr unsigned kLargestBlock = 1U << 30;
  const unsigned block = param(filter, 0, 0);
  return encode_lz4(data, block == 0 ? kLargestBlock : std::min(block, kLargestBlock));
}

}  // namespace

std::size_t decode_lz4(std::span<const std::byte> in, std::span<std::byte> out) {
  const std::uint64_t total = read_big_endian(take(in, 8, "lz4"));
  const std::uint64_t block_bytes = read_big_endian(take(in, kLengthBytes, "lz4"));
  require_fits(total, out, "lz4");
  if (block_bytes > LZ4_MAX_INPUT_SIZE || (block_bytes == 0 && total > 0)) {
    throw FilterError(fmt::format("lz4: a block size of {} bytes is impossible", block_bytes));
  }
  std::size_t done = 0;
  while (done < total) {
    const std::size_t want = static_cast<std::size_t>(std::min<std::uint64_t>(block_bytes, total - done));
    const std::span<const std::byte> block = take(in, read_big_endian(take(in, kLengthBytes, "lz4")), "lz4");
    if (block.size() == want) {
      std::memcpy(out.data() + done, block.data(), want);
    } else {
      if (block.size() > LZ4_MAX_INPUT_SIZE) throw FilterError("lz4: a block is longer than any can be");
      const int got = LZ4_decompress_safe(reinterpret_cast<const char*>(block.data()),
                                          reinterpret_cast<char*>(out.data() + done),
                                          static_cast<int>(block.size()), static_cast<int>(want));
      if (got < 0 || static_cast<std::size_t>(got) != want) {
        throw FilterError(fmt::format("lz4: the block at byte {} does not decode to {} bytes", done, want));
      }
    }
    done += want;
  }
  return done;
}

std::vector<std::byte> encode_lz4(std::span<const std::byte> in, std::size_t block_bytes) {
  std::vector<std::byte> out;
  append_big_endian(out, in.size(), 8);
  append_big_endian(out, block_bytes, kLengthBytes);
  for (std::size_t done = 0; done < in.size();) {
    const std::span<const std::byte> block = in.subspan(done, std::min(block_bytes, in.size() - done));
    std::vector<std::byte> packed(
        static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(block.size()))));
    const int got = LZ4_compress_default(reinterpret_cast<const char*>(block.data()),
                                         reinterpret_cast<char*>(packed.data()),
                                         static_cast<int>(block.size()), static_cast<int>(packed.size()));
    packed.resize(static_cast<std::size_t>(got));
    // Equal lengths mean "raw" to a reader, so a block that does not shrink must be stored raw.
    const std::span<const std::byte> stored = packed.size() < block.size() ? packed : block;
    append_big_endian(out, stored.size(), kLengthBytes);
    out.insert(out.end(), stored.begin(), stored.end());
    done += block.size();
  }
  return out;
}

extern constinit const FilterEntry lz4_filter = {
    .id = filter_id::kLz4,
    .name = "lz4",
    .decode = decode_lz4_stage,
    .encode = encode_lz4_stage,
    .encoded_size = compressed_size,
    .spelling = {.compressor = "lz4"},
    .parse = [](std::string_view stage, const StageContext&) { return params_of_name(stage, "lz4", {}); }};

}  // namespace h5feed
