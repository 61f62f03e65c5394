// SPDX-License-Identifier: Apache-2.0
// Codecs that more than their own filter uses. Decoders never write past `out`, never read past `in`, and
// throw FilterError for bytes that no encoder produces; they return the bytes written. Encoders throw
// std::bad_alloc where memory is short.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/byte_buffer.hpp"

struct libdeflate_decompressor;
struct ZSTD_DCtx_s;

namespace h5feed {

/// Decompressor state for one thread, created on first use. Not thread-safe.
class DeflateDecoder {
 public:
  /// One zlib stream; its Adler-32 is verified. Throws FilterError, std::bad_alloc.
  std::size_t decode(std::span<const std::byte> in, std::span<std::byte> out);

 private:
  struct Free {
    void operator()(libdeflate_decompressor* decompressor) const noexcept;
  };
  std::unique_ptr<libdeflate_decompressor, Free> decompressor_;
};

/// As DeflateDecoder, for Zstandard frames.
class ZstdDecoder {
 public:
  /// One or more frames back to back. Throws FilterError, std::bad_alloc.
  std::size_t decode(std::span<const std::byte> in, std::span<std::byte> out);

 private:
  struct Free {
    void operator()(ZSTD_DCtx_s* context) const noexcept;
  };
  std::unique_ptr<ZSTD_DCtx_s, Free> context_;
};

/// Buffers that a decoder of one thread needs beside its output; kept for the next chunk.
using Workspace = std::array<ByteBuffer, 2>;

/// The framing of HDF5 filter 32004: total bytes (u64, big-endian), block bytes (u32), then each
/// block's stored bytes (u32) and data, raw where both are equal. Throws FilterError.
std::size_t decode_lz4(std::span<const std::byte> in, std::span<std::byte> out);

/// The bare LZF stream of HDF5 filter 32000. Throws FilterError.
std::size_t decode_lzf(std::span<const std::byte> in, std::span<std::byte> out);

/// One zlib stream. `level` is 0 (stored) to 9, as in zlib.
std::vector<std::byte> encode_deflate(std::span<const std::byte> in, unsigned level);

/// Blocks of `block_bytes`, which is 1 to 2^30.
std::vector<std::byte> encode_lz4(std::span<const std::byte> in, std::size_t block_bytes);

/// One frame that states its content size. `level` is 1 to 22.
std::vector<std::byte> encode_zstd(std::span<const std::byte> in, int level);

/// Equal input makes equal bytes, which liblzf's own encoder does not promise: its table of earlier
/// matches starts uninitialized. Throws FilterError for more than 4 GiB.
std::vector<std::byte> encode_lzf(std::span<const std::byte> in);

}  // namespace h5feed
