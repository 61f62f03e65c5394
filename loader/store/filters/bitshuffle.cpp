// SPDX-License-Identifier: Apache-2.0
// HDF5 filter 32008 (bitshuffle).
#include <fmt/format.h>
#include <lz4.h>

#include <algorithm>
#include <cstring>

#include "store/filters/bytes.hpp"
#include "store/filters/entry.hpp"
#include "store/filters/shuffle_bits.hpp"

namespace h5feed {
namespace {

enum class Codec : unsigned { none = 0, lz4 = 2, zstd = 3 };

// Client data: {version, version, element bytes, elements per block (0: chosen by the element size), codec,
// zstd level}; the last three may be missing.
struct BitshuffleParams {
  // Returns empty if h5feed cannot decode the filter: missing parameters, an unknown codec, or a block size
  // that is not a multiple of 8 elements.
  static std::optional<BitshuffleParams> from(const std::vector<unsigned>& params) noexcept;

  std::size_t element_bytes = 1;
  std::size_t block_elements = 0;  // A multiple of 8, never 0 after `from`
  Codec codec = Codec::none;
  int level = 0;

  std::size_t block_bytes() const noexcept { return block_elements * element_bytes; }
};

// The version that the public plugin stores.
constexpr unsigned kBitshuffleMajor = 0, kBitshuffleMinor = 4;

// Elements are transposed in groups of eight.
constexpr std::size_t kGroup = 8;

// Default block size of writers: 8 KiB, but at least 128 elements.
std::size_t default_block_elements(std::size_t element_bytes) noexcept {
  constexpr std::size_t kTargetBytes = 8192;
  constexpr std::size_t kMinElements = 128;
  return std::max(kTargetBytes / element_bytes / kGroup * kGroup, kMinElements);
}

// Calls visit(first byte, bytes) for each block of decoded `bytes`; returns the first byte of the raw
// remainder, which is shorter than kGroup elements.
template <typename Visit>
std::size_t for_each_block(std::size_t bytes, std::size_t element_bytes, std::size_t block_bytes,
                           const Visit& visit) {
  const std::size_t transposed = bytes / (kGroup * element_bytes) * (kGroup * element_bytes);
  for (std::size_t first = 0; first < transposed; first += std::min(block_bytes, transposed - first)) {
    visit(first, std::min(block_bytes, transposed - first));
  }
  return transposed;
}

// Decodes one compressed block of exactly `out.size()` bytes.
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

// Returns the block size in bytes that the header states.
std::size_t checked_block_bytes(std::uint64_t stated, std::size_t element_bytes) {
  const std::size_t elements = static_cast<std::size_t>(stated) / element_bytes;
  if (elements % kGroup != 0) {
    throw FilterError(fmt::format("bitshuffle: a block of {} bytes is no multiple of 8 elements", stated));
  }
  return (elements == 0 ? default_block_elements(element_bytes) : elements) * element_bytes;
}

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

EncodedSize bitshuffled_size(const FilterSpec& filter, std::size_t bytes) noexcept {
  const auto params = BitshuffleParams::from(filter.params);
  if (!params || params->codec == Codec::none) return {.bytes = bytes, .exact = true};
  // A block's length, and the overhead of lz4 or zstd for incompressible data: a token, or a frame's header
  // and trailer.
  constexpr std::size_t kBlockOverheadBytes = 32;
  return {.bytes = bytes + (bytes / params->block_bytes() + 1) * kBlockOverheadBytes + bytes / 64 + 64};
}

// Decodes the framing of bshuf_h5filter.c of kiyo-masui/bitshuffle. Without a codec: the bit planes of each
// block. With one: the header as in decode_lz4, then for each block its stored bytes (u32, big-endian) and
// data. Elements after the last multiple of 8 are stored raw.
std::size_t decode_bitshuffle(const FilterSpec& filter, std::span<const std::byte> in,
                              std::span<std::byte> out, CodecState& state) {
  const auto params = parsed<BitshuffleParams>(filter);
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
  for (ByteBuffer& buffer : state.workspace) buffer.resize_discard(most);
  const std::size_t transposed =
      for_each_block(bytes, params.element_bytes, block_bytes, [&](std::size_t first, std::size_t size) {
        std::span<const std::byte> planes;
        if (params.codec == Codec::none) {
          planes = take(in, size, "bitshuffle");
        } else {
          const std::uint64_t stored = read_big_endian(take(in, 4, "bitshuffle"));
          const std::span<std::byte> decompressed = state.workspace[0].span().first(size);
          decompress(take(in, stored, "bitshuffle"), params.codec, decompressed, state.zstd);
          planes = decompressed;
        }
        unshuffle_bits(planes, params.element_bytes, out.subspan(first, size),
                       state.workspace[1].span().first(size));
      });
  const std::span<const std::byte> rest = take(in, bytes - transposed, "bitshuffle");
  if (!rest.empty()) std::memcpy(out.data() + transposed, rest.data(), rest.size());
  return bytes;
}

std::vector<std::byte> encode_bitshuffle(const FilterSpec& filter, std::vector<std::byte> data) {
  const auto params = parsed<BitshuffleParams>(filter);
  const std::span<const std::byte> in = data;
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

std::string unsupported_bitshuffle(const FilterSpec& filter) {
  const std::vector<unsigned>& params = filter.params;
  if (BitshuffleParams::from(params)) return {};
  if (params.size() < 3 || params[2] == 0) return "lacks the size of an element among its parameters";
  if (params.size() > 3 && params[3] % 8 != 0) {
    return fmt::format("has blocks that are no multiple of 8 elements ({})", params[3]);
  }
  return fmt::format("compresses with an unknown codec ({}; known are 0 none, 2 lz4, 3 zstd)",
                     param(filter, 4, 0));
}

std::optional<std::vector<unsigned>> parse_bitshuffle(std::string_view stage, const StageContext& context) {
  const auto with = [&](Codec codec) {
    return std::vector<unsigned>{kBitshuffleMajor, kBitshuffleMinor,
                                 static_cast<unsigned>(context.element_bytes), 0,
                                 static_cast<unsigned>(codec)};
  };
  if (stage == "bitshuffle") return with(Codec::none);
  if (stage == "bitshuffle:lz4") return with(Codec::lz4);
  const auto level = level_of(stage, "bitshuffle:zstd", kZstdLevels);
  if (!level) return std::nullopt;
  std::vector<unsigned> params = with(Codec::zstd);
  params.push_back(*level);
  return params;
}

std::string bitshuffle_text(const std::vector<unsigned>& params) {
  const Codec codec = params.size() > 4 ? static_cast<Codec>(params[4]) : Codec::none;
  if (codec == Codec::lz4) return ":lz4";
  if (codec != Codec::zstd) return {};
  return params.size() > 5 ? fmt::format(":zstd:{}", params[5]) : ":zstd";
}

}  // namespace

extern constinit const FilterEntry bitshuffle_filter = {
    .id = filter_id::kBitshuffle,
    .name = "bitshuffle",
    .unsupported = unsupported_bitshuffle,
    .decode = decode_bitshuffle,
    .encode = encode_bitshuffle,
    .encoded_size = bitshuffled_size,
    // Two blocks.
    .decode_memory = [](const FilterSpec&,
                        std::size_t bytes) noexcept { return DecodeMemory{.kept = 2 * bytes}; },
    .plugin_params = 3,
    .spelling = {.before = "bitshuffle", .compressor = "bitshuffle:lz4|bitshuffle:zstd:1..22"},
    .parse = parse_bitshuffle,
    .parameter_text = bitshuffle_text};

}  // namespace h5feed
