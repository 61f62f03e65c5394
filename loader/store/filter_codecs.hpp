// The compressors behind FilterPipeline, one file each. Decoders never write past `out`, never read
// past `in`, and throw FilterError for bytes that no encoder produces; they return the bytes written.
// Encoders throw std::bad_alloc where memory is short.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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

/// One bzip2 stream, as HDF5 filter 307 writes it. Throws FilterError, std::bad_alloc.
std::size_t decode_bzip2(std::span<const std::byte> in, std::span<std::byte> out);

/// Whether the libblosc at hand holds the compressor that filter parameters number as `codec`.
bool has_blosc_codec(unsigned codec) noexcept;

/// The container of HDF5 filter 32001: version 1 or 2 of the Blosc format ("Blosc header format",
/// README_CHUNK_FORMAT.rst of c-blosc 1). Throws FilterError, which names a codec that libblosc lacks.
std::size_t decode_blosc(std::span<const std::byte> in, std::span<std::byte> out);

/// What decode_blosc needs beside `out`, for `bytes` decoded.
std::size_t blosc_scratch_bytes(std::size_t bytes) noexcept;

/// Client data of HDF5 filter 32008: {version, version, element bytes, elements a block (0: chosen by
/// the element's size), codec, zstd level}; the last three may be missing.
struct BitshuffleParams {
  enum class Codec : unsigned { none = 0, lz4 = 2, zstd = 3 };

  /// Nothing where h5feed cannot decode it: missing parameters, an unknown codec, blocks that are no
  /// multiple of 8 elements.
  static std::optional<BitshuffleParams> from(const std::vector<unsigned>& params) noexcept;

  std::size_t element_bytes = 1;
  std::size_t block_elements = 0;  ///< a multiple of 8, never 0 after `from`
  Codec codec = Codec::none;
  int level = 0;

  std::size_t block_bytes() const noexcept { return block_elements * element_bytes; }

  /// The most bytes that `bytes` decoded ones take when they do not shrink.
  std::size_t grown_bytes(std::size_t bytes) const noexcept;
};

/// The framing of HDF5 filter 32008 (bshuf_h5filter.c of kiyo-masui/bitshuffle). Without a codec: the
/// bit planes of each block. With one: the header of decode_lz4, then per block its stored bytes (u32,
/// big-endian) and data. Elements behind the last multiple of 8 are stored raw. Needs as many bytes of
/// `workspace`, each, as a block has. Throws FilterError, std::bad_alloc.
std::size_t decode_bitshuffle(std::span<const std::byte> in, const BitshuffleParams& params,
                              std::span<std::byte> out, Workspace& workspace, ZstdDecoder& zstd);

/// Client data of HDF5 filter 4: {options, pixels a block, bits a pixel, pixels a scanline}.
struct SzipParams {
  /// Nothing where h5feed cannot decode it; the limits are those of libhdf5 and of the CCSDS
  /// recommendation 121.0-B that szip follows.
  static std::optional<SzipParams> from(const std::vector<unsigned>& params) noexcept;

  unsigned options = 0;
  unsigned block_pixels = 0;
  unsigned pixel_bits = 0;
  unsigned scanline_pixels = 0;

  /// What decode_szip needs beside `out`, for `bytes` decoded.
  std::size_t scratch_bytes(std::size_t bytes) const noexcept;
};

/// The framing of HDF5 filter 4: decoded bytes (u32, little-endian), then a CCSDS 121.0-B stream.
/// Throws FilterError, std::bad_alloc.
std::size_t decode_szip(std::span<const std::byte> in, const SzipParams& params, std::span<std::byte> out,
                        Workspace& workspace);

/// Client data of HDF5 filter 6: {scale type, scale factor, elements of a chunk, class, element bytes, sign,
/// byte order, whether a fill value is defined, the fill value in 12 words}, which libhdf5 derives from the
/// dataset.
struct ScaleOffsetParams {
  enum class Class : unsigned { integer = 0, floating = 1 };

  /// Nothing where h5feed cannot decode it: other counts of parameters, sizes or scale types than libhdf5
  /// writes.
  static std::optional<ScaleOffsetParams> from(const std::vector<unsigned>& params) noexcept;

  Class value_class = Class::integer;
  int decimal_digits = 0;  ///< of floats: the power of ten that they were multiplied by
  std::size_t elements = 0;
  std::size_t element_bytes = 1;  ///< 1, 2, 4 or 8; of floats 4 or 8
  bool is_signed = false;         ///< of integers
  bool big_endian = false;
  bool stores_as_is = false;                ///< integers of all their bits: the filter changes nothing
  std::optional<std::uint64_t> fill_value;  ///< bits of the element in its low bytes

  /// Bytes of a decoded chunk.
  std::size_t decoded_bytes() const noexcept { return elements * element_bytes; }
};

/// The framing of HDF5 filter 6: bits of a packed value (u32, little-endian), bytes of the minimum (u8), the
/// minimum (little-endian), from byte 21 on the values, most significant bit first without gaps. Values of
/// all bits of an element are the elements themselves, in little-endian order. Writes
/// `params.decoded_bytes()` in the byte order of the dataset. Throws FilterError.
std::size_t decode_scaleoffset(std::span<const std::byte> in, const ScaleOffsetParams& params,
                               std::span<std::byte> out);

/// One zlib stream. `level` is 0 (stored) to 9, as in zlib.
std::vector<std::byte> encode_deflate(std::span<const std::byte> in, unsigned level);

/// Blocks of `block_bytes`, which is 1 to 2^30.
std::vector<std::byte> encode_lz4(std::span<const std::byte> in, std::size_t block_bytes);

/// One frame that states its content size. `level` is 1 to 22.
std::vector<std::byte> encode_zstd(std::span<const std::byte> in, int level);

/// Equal input makes equal bytes, which liblzf's own encoder does not promise: its table of earlier
/// matches starts uninitialized. Throws FilterError for more than 4 GiB.
std::vector<std::byte> encode_lzf(std::span<const std::byte> in);

/// `level` is 1 to 9, in 100 kB a block. Throws FilterError for more than 4 GiB.
std::vector<std::byte> encode_bzip2(std::span<const std::byte> in, unsigned level);

struct BloscParams {
  std::size_t element_bytes = 1;
  unsigned level = 5;    ///< 0 (stored) to 9
  unsigned shuffle = 1;  ///< 0 none, 1 bytes, 2 bits
  unsigned codec = 1;    ///< 0 blosclz, 1 lz4, 2 lz4hc, 3 snappy, 4 zlib, 5 zstd
};

/// Throws FilterError for a codec that libblosc lacks and for more than 2 GiB.
std::vector<std::byte> encode_blosc(std::span<const std::byte> in, const BloscParams& params);

/// Throws FilterError where `in` is no whole number of elements.
std::vector<std::byte> encode_bitshuffle(std::span<const std::byte> in, const BitshuffleParams& params);

}  // namespace h5feed
