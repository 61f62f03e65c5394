#include <fmt/format.h>
#include <lz4.h>

#include <algorithm>
#include <cstring>

#include "store/filter_bytes.hpp"
#include "store/filter_codecs.hpp"
#include "store/shuffle_bits.hpp"

namespace h5feed {
namespace {

using Codec = BitshuffleParams::Codec;

// Elements are transposed in eights.
constexpr std::size_t kGroup = 8;

// What writers choose that are not told: 8 KiB, but at least 128 elements.
std::size_t default_block_elements(std::size_t element_bytes) noexcept {
  constexpr std::size_t kTargetBytes = 8192;
  constexpr std::size_t kMinElements = 128;
  return std::max(kTargetBytes / element_bytes / kGroup * kGroup, kMinElements);
}

// Calls visit(first byte, bytes) for each block of `bytes` decoded; returns the first byte of the raw
// rest, which is shorter than kGroup elements.
template <typename Visit>
std::size_t for_each_block(std::size_t bytes, std::size_t element_bytes, std::size_t block_bytes,
                           const Visit& visit) {
  const std::size_t transposed = bytes / (kGroup * element_bytes) * (kGroup * element_bytes);
  for (std::size_t first = 0; first < transposed; first += std::min(block_bytes, transposed - first)) {
    visit(first, std::min(block_bytes, transposed - first));
  }
  return transposed;
}

// One compressed block of exactly `out.size()` bytes.
void decompress(std::span<const std::byte> in, Codec codec, std::span<std::byte> out, ZstdDecoder& zstd) {
  std::size_t written = 0;
  if (codec == Codec::zstd) {
    written = zstd.decode(in, out);
  } else if (in.size() <= LZ4_MAX_INPUT_SIZE && out.size() <= LZ4_MAX_INPUT_SIZE) {
    const int got =
        LZ4_decompress_safe(reinterpret_cast<const char*>(in.data()), reinterpret_cast<char*>(out.data()),
                            static_cast<int>(in.size()), static_cast<int>(out.size()));
    written = got < 0 ? 0 : static_cast<std::size_t>(got);
  }
  if (written != out.size()) {
    throw FilterError(fmt::format("bitshuffle: a block does not decode to {} bytes", out.size()));
  }
}

std::vector<std::byte> compress(std::span<const std::byte> in, const BitshuffleParams& params) {
  if (params.codec == Codec::zstd) return encode_zstd(in, params.level);
  std::vector<std::byte> out(static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(in.size()))));
  const int got =
      LZ4_compress_default(reinterpret_cast<const char*>(in.data()), reinterpret_cast<char*>(out.data()),
                           static_cast<int>(in.size()), static_cast<int>(out.size()));
  out.resize(static_cast<std::size_t>(got));
  return out;
}

// Block size that the header states, in bytes.
std::size_t checked_block_bytes(std::uint64_t stated, std::size_t element_bytes) {
  const std::size_t elements = static_cast<std::size_t>(stated) / element_bytes;
  if (elements % kGroup != 0) {
    throw FilterError(fmt::format("bitshuffle: a block of {} bytes is no multiple of 8 elements", stated));
  }
  return (elements == 0 ? default_block_elements(element_bytes) : elements) * element_bytes;
}

}  // namespace

std::optional<BitshuffleParams> BitshuffleParams::from(const std::vector<unsigned>& params) noexcept {
  constexpr unsigned kMaxLevel = 22;
  if (params.size() < 3 || params[2] == 0) return std::nullopt;
  const auto at = [&params](std::size_t i) { return i < params.size() ? params[i] : 0U; };
  BitshuffleParams result{.element_bytes = at(2), .block_elements = at(3), .level = 3};
  if (result.block_elements == 0) result.block_elements = default_block_elements(result.element_bytes);
  if (at(4) != 0 && at(4) != 2 && at(4) != 3) return std::nullopt;
  result.codec = static_cast<Codec>(at(4));
  if (at(5) >= 1 && at(5) <= kMaxLevel) result.level = static_cast<int>(at(5));
  if (result.block_elements % kGroup != 0) return std::nullopt;
  return result;
}

std::size_t BitshuffleParams::grown_bytes(std::size_t bytes) const noexcept {
  if (codec == Codec::none) return bytes;
  // A block's length, and what lz4 or zstd add to bytes that they cannot shrink: a token, or a frame's header
  // and trailer.
  constexpr std::size_t kBlockOverheadBytes = 32;
  return bytes + (bytes / block_bytes() + 1) * kBlockOverheadBytes + bytes / 64 + 64;
}

std::size_t decode_bitshuffle(std::span<const std::byte> in, const BitshuffleParams& params,
                              std::span<std::byte> out, Workspace& workspace, ZstdDecoder& zstd) {
  std::uint64_t total = in.size();
  std::size_t block_bytes = params.block_bytes();
  if (params.codec != Codec::none) {
    total = read_big_endian(take(in, 8, "bitshuffle"));
    block_bytes = checked_block_bytes(read_big_endian(take(in, 4, "bitshuffle")), params.element_bytes);
  }
  require_fits(total, out, "bitshuffle");
  if (total % params.element_bytes != 0) {
    throw FilterError(fmt::format("bitshuffle: {} bytes are no whole number of elements of {}", total,
                                  params.element_bytes));
  }
  const auto bytes = static_cast<std::size_t>(total);
  const std::size_t most = std::min(block_bytes, bytes);
  for (ByteBuffer& buffer : workspace) buffer.resize_discard(most);
  const std::size_t transposed =
      for_each_block(bytes, params.element_bytes, block_bytes, [&](std::size_t first, std::size_t size) {
        std::span<const std::byte> planes;
        if (params.codec == Codec::none) {
          planes = take(in, size, "bitshuffle");
        } else {
          const std::uint64_t stored = read_big_endian(take(in, 4, "bitshuffle"));
          const std::span<std::byte> decompressed = workspace[0].span().first(size);
          decompress(take(in, stored, "bitshuffle"), params.codec, decompressed, zstd);
          planes = decompressed;
        }
        unshuffle_bits(planes, params.element_bytes, out.subspan(first, size),
                       workspace[1].span().first(size));
      });
  const std::span<const std::byte> rest = take(in, bytes - transposed, "bitshuffle");
  if (!rest.empty()) std::memcpy(out.data() + transposed, rest.data(), rest.size());
  return bytes;
}

std::vector<std::byte> encode_bitshuffle(std::span<const std::byte> in, const BitshuffleParams& params) {
  if (in.size() % params.element_bytes != 0) {
    throw FilterError(fmt::format("bitshuffle: {} bytes are no whole number of elements of {}", in.size(),
                                  params.element_bytes));
  }
  if (params.codec == Codec::lz4 && params.block_bytes() > LZ4_MAX_INPUT_SIZE) {
    throw FilterError(
        fmt::format("bitshuffle: a block of {} bytes is too large for lz4", params.block_bytes()));
  }
  std::vector<std::byte> out;
  if (params.codec != Codec::none) {
    append_big_endian(out, in.size(), 8);
    append_big_endian(out, params.block_bytes(), 4);
  }
  const std::size_t most = std::min(params.block_bytes(), in.size());
  std::vector<std::byte> planes(most);
  std::vector<std::byte> work(most);
  const std::size_t transposed = for_each_block(
      in.size(), params.element_bytes, params.block_bytes(), [&](std::size_t first, std::size_t size) {
        const std::span<std::byte> block = std::span(planes).first(size);
        shuffle_bits(in.subspan(first, size), params.element_bytes, block, std::span(work).first(size));
        if (params.codec == Codec::none) {
          out.insert(out.end(), block.begin(), block.end());
          return;
        }
        const std::vector<std::byte> packed = compress(block, params);
        append_big_endian(out, packed.size(), 4);
        out.insert(out.end(), packed.begin(), packed.end());
      });
  out.insert(out.end(), in.begin() + static_cast<std::ptrdiff_t>(transposed), in.end());
  return out;
}

}  // namespace h5feed
