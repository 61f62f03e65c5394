// SPDX-License-Identifier: Apache-2.0
// Codecs shared by several filters. Decoders never write past `out` or read past `in`, throw FilterError for
// bytes that no encoder produces, and return the number of bytes written. Encoders throw std::bad_alloc if
// memory is short.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/byte_buffer.hpp"
#include "h5feed/config.hpp"

struct blosc2_context_s;
struct libdeflate_decompressor;
struct ZSTD_DCtx_s;

namespace h5feed {

/// Deflate decompressor of one thread; its state is created on first use. Not thread-safe.
class DeflateDecoder {
 public:
  /// Decodes one zlib stream into `out`, verifies its Adler-32 and returns the bytes written. Throws
  /// FilterError for invalid data or if `out` is too small, and std::bad_alloc.
  std::size_t decode(std::span<const std::byte> in, std::span<std::byte> out);

 private:
  struct Free {
    void operator()(libdeflate_decompressor* decompressor) const noexcept;
  };
  std::unique_ptr<libdeflate_decompressor, Free> decompressor_;
};

/// Zstandard decompressor of one thread; its state is created on first use. Not thread-safe.
class ZstdDecoder {
 public:
  /// Decodes one or more consecutive frames into `out` and returns the bytes written. Throws FilterError for
  /// invalid data or if `out` is too small, and std::bad_alloc.
  std::size_t decode(std::span<const std::byte> in, std::span<std::byte> out);

 private:
  struct Free {
    void operator()(ZSTD_DCtx_s* context) const noexcept;
  };
  std::unique_ptr<ZSTD_DCtx_s, Free> context_;
};

#if H5FEED_HAS_BLOSC2
/// Decompressor of Blosc2 chunks of one thread; its state is created on first use. Not thread-safe.
class Blosc2Decoder {
 public:
  /// Decodes a chunk to exactly `out`. Throws FilterError for invalid data, another size, or features that
  /// the HDF5 filter does not use, and std::bad_alloc.
  void decode(std::span<const std::byte> chunk, std::span<std::byte> out);

 private:
  struct Free {
    void operator()(blosc2_context_s* context) const noexcept;
  };
  std::unique_ptr<blosc2_context_s, Free> context_;
};
#endif

/// Temporary buffers of one thread's decoder, reused from chunk to chunk.
using Workspace = std::array<ByteBuffer, 2>;

/// Decodes the framing of HDF5 filter 32004 and returns the bytes written: total bytes (u64, big-endian),
/// block bytes (u32), then each block's stored bytes (u32) and data; a block is raw if its stored size equals
/// its decoded size. Throws FilterError for invalid data or if `out` is too small.
std::size_t decode_lz4(std::span<const std::byte> in, std::span<std::byte> out);

/// Decodes the bare LZF stream of HDF5 filter 32000 and returns the bytes written. Throws FilterError for
/// invalid data or if `out` is too small.
std::size_t decode_lzf(std::span<const std::byte> in, std::span<std::byte> out);

/// Encodes `in` as one zlib stream. `level` is 0 (stored) to 9, as in zlib. Throws std::bad_alloc.
std::vector<std::byte> encode_deflate(std::span<const std::byte> in, unsigned level);

/// Encodes `in` in the framing of HDF5 filter 32004, in blocks of `block_bytes` (1 to 2^30). Throws
/// std::bad_alloc.
std::vector<std::byte> encode_lz4(std::span<const std::byte> in, std::size_t block_bytes);

/// Encodes `in` as one Zstandard frame that states its content size. `level` is 1 to 22. Throws
/// std::bad_alloc.
std::vector<std::byte> encode_zstd(std::span<const std::byte> in, int level);

/// Encodes `in` as a bare LZF stream. Deterministic, unlike liblzf's own encoder, whose table of earlier
/// matches starts uninitialized. Throws FilterError for more than 4 GiB, and std::bad_alloc.
std::vector<std::byte> encode_lzf(std::span<const std::byte> in);

}  // namespace h5feed
