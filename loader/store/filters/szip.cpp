// SPDX-License-Identifier: Apache-2.0
// HDF5 filter 4 (szip).
#include <fmt/format.h>
#include <libaec.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "store/filters/bytes.hpp"
#include "store/filters/entry.hpp"
#include "store/filters/shuffle.hpp"

namespace h5feed {
namespace {

// Client data: {options, pixels per block, bits per pixel, pixels per scanline}.
struct SzipParams {
  // Returns empty if h5feed cannot decode the filter; the limits are those of libhdf5 and of the CCSDS
  // recommendation 121.0-B, which szip implements.
  static std::optional<SzipParams> from(const std::vector<unsigned>& params) noexcept;

  unsigned options = 0;
  unsigned block_pixels = 0;
  unsigned pixel_bits = 0;
  unsigned scanline_pixels = 0;
};

// Bits of the options (szlib.h).
constexpr unsigned kMostSignificantFirst = 16;
constexpr unsigned kNearestNeighbour = 32;

// Pixels of 32 and 64 bits are stored as planes of bytes.
bool in_planes(const SzipParams& params) noexcept { return params.pixel_bits > 24; }

std::size_t pixel_bytes(const SzipParams& params) noexcept {
  if (in_planes(params) || params.pixel_bits <= 8) return 1;
  return params.pixel_bits <= 16 ? 2 : 4;
}

std::size_t scanline_blocks(const SzipParams& params) noexcept {
  return (params.scanline_pixels + params.block_pixels - 1) / params.block_pixels;
}

std::size_t scanline_bytes(const SzipParams& params) noexcept {
  return params.scanline_pixels * pixel_bytes(params);
}

// Returns the size of a scanline as stored, in whole blocks.
std::size_t padded_scanline_bytes(const SzipParams& params) noexcept {
  return scanline_blocks(params) * params.block_pixels * pixel_bytes(params);
}

bool is_padded(const SzipParams& params) noexcept {
  return padded_scanline_bytes(params) != scanline_bytes(params);
}

// Returns the bytes that the stream itself decodes to, for `bytes` without padding.
std::size_t stream_bytes(const SzipParams& params, std::size_t bytes) noexcept {
  if (!is_padded(params)) return bytes;
  return (bytes + scanline_bytes(params) - 1) / scanline_bytes(params) * padded_scanline_bytes(params);
}

// Fills `out` as far as the stream reaches, which must be at least `needed_bytes`: the padding after the last
// pixel may be missing.
void decode_stream(std::span<const std::byte> in, const SzipParams& params, std::span<std::byte> out,
                   std::size_t needed_bytes) {
  aec_stream stream{};
  stream.next_in = reinterpret_cast<const unsigned char*>(in.data());
  stream.avail_in = in.size();
  stream.next_out = reinterpret_cast<unsigned char*>(out.data());
  stream.avail_out = out.size();
  stream.bits_per_sample = in_planes(params) ? 8 : params.pixel_bits;
  stream.block_size = params.block_pixels;
  stream.rsi = static_cast<unsigned>(scanline_blocks(params));
  if ((params.options & kMostSignificantFirst) != 0) stream.flags |= AEC_DATA_MSB;
  if ((params.options & kNearestNeighbour) != 0) stream.flags |= AEC_DATA_PREPROCESS;
  const int status = aec_buffer_decode(&stream);
  if (status == AEC_MEM_ERROR) throw std::bad_alloc();
  if (status != AEC_OK) throw FilterError("szip: not a valid stream");
  if (stream.total_out < needed_bytes) {
    throw FilterError(fmt::format("szip: {} bytes instead of {}", stream.total_out, needed_bytes));
  }
}

std::optional<SzipParams> SzipParams::from(const std::vector<unsigned>& params) noexcept {
  constexpr unsigned kMaxBlockPixels = 32;
  constexpr unsigned kMaxScanlinePixels = 4096;
  if (params.size() < 4) return std::nullopt;
  const SzipParams result{params[0], params[1], params[2], params[3]};
  const bool block_is_legal =
      result.block_pixels >= 2 && result.block_pixels <= kMaxBlockPixels && result.block_pixels % 2 == 0;
  const bool pixel_is_legal = (result.pixel_bits >= 1 && result.pixel_bits <= 24) ||
                              result.pixel_bits == 32 || result.pixel_bits == 64;
  if (!block_is_legal || !pixel_is_legal || result.scanline_pixels < result.block_pixels ||
      result.scanline_pixels > kMaxScanlinePixels) {
    return std::nullopt;
  }
  return result;
}

DecodeMemory szip_memory(const FilterSpec& filter, std::size_t bytes) noexcept {
  const auto params = SzipParams::from(filter.params);
  if (!params) return {};
  // libaec holds one scanline in 32-bit samples and tables of a few kilobytes.
  constexpr std::size_t kDecoderStateBytes = 64 * 1024;
  return {.kept = stream_bytes(*params, bytes) + kDecoderStateBytes};
}

// Decodes a chunk: its decoded bytes (u32, little-endian), then a CCSDS 121.0-B stream.
std::size_t decode_szip(const FilterSpec& filter, std::span<const std::byte> in, std::span<std::byte> out,
                        CodecState& state) {
  const auto params = parsed<SzipParams>(filter);
  const std::size_t bytes = read_little_endian32(take(in, 4, "szip"));
  require_fits(bytes, out, "szip");
  if (bytes == 0) return 0;
  const std::size_t whole_pixel = in_planes(params) ? params.pixel_bits / 8 : pixel_bytes(params);
  if (bytes % whole_pixel != 0) {
    throw FilterError(fmt::format("szip: {} bytes are no whole number of pixels of {}", bytes, whole_pixel));
  }
  std::span<std::byte> decoded = out.first(bytes);
  if (is_padded(params) || in_planes(params)) {
    const std::size_t padded_bytes = stream_bytes(params, bytes);
    state.workspace[0].resize_discard(padded_bytes);
    decoded = state.workspace[0].span().first(padded_bytes);
  }
  const std::size_t line_bytes = scanline_bytes(params);
  decode_stream(in, params, decoded, bytes / line_bytes * padded_scanline_bytes(params) + bytes % line_bytes);
  if (is_padded(params)) {
    std::size_t done = 0;
    for (std::size_t at = 0; done < bytes; at += padded_scanline_bytes(params)) {
      const std::size_t line = std::min(line_bytes, bytes - done);
      std::memmove(decoded.data() + done, decoded.data() + at, line);
      done += line;
    }
  }
  if (in_planes(params)) {
    unshuffle_bytes(decoded.first(bytes), params.pixel_bits / 8, out.first(bytes));
  } else if (decoded.data() != out.data()) {
    std::memcpy(out.data(), decoded.data(), bytes);
  }
  return bytes;
}

std::string unsupported_szip(const FilterSpec& filter) {
  return SzipParams::from(filter.params) ? "" : foreign_parameters(filter);
}

// libaec does not check all of them, and returns values of memory that it has not written.
std::string szip_contradicted_by(const FilterSpec& filter, const DatasetInfo&) {
  return SzipParams::from(filter.params) ? "" : foreign_parameters(filter);
}

}  // namespace

extern constinit const FilterEntry szip_filter = {.id = filter_id::kSzip,
                                                  .name = "szip",
                                                  .unsupported = unsupported_szip,
                                                  .contradiction = szip_contradicted_by,
                                                  .decode = decode_szip,
                                                  .encoded_size = compressed_size,
                                                  .decode_memory = szip_memory};

}  // namespace h5feed
