// SPDX-License-Identifier: Apache-2.0
// HDF5 filter 32001 (blosc).
#include <blosc.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "store/filters/bytes.hpp"
#include "store/filters/entry.hpp"

namespace h5feed {
namespace {

// The filter's parameters: {filter version, format version, element bytes, chunk bytes, level, shuffle (0:
// none, 1: bytes, 2: bits), codec}.
enum BloscPlace : std::size_t {
  kBloscTypeBytes = 2,
  kBloscChunkBytes,
  kBloscLevel,
  kBloscShuffle,
  kBloscCodec
};
constexpr unsigned kBloscFilterVersion = 2, kBloscFormatVersion = 2;

// Compressors by their number in the parameters. Snappy (3) can be read, but not every libblosc can write it.
struct BloscCodec {
  unsigned number;
  std::string_view name;
};
constexpr unsigned kBloscLz4 = 1;
constexpr std::array<BloscCodec, 5> kBloscCodecs = {
    {{0, "blosclz"}, {kBloscLz4, "lz4"}, {2, "lz4hc"}, {4, "zlib"}, {5, "zstd"}}};

constexpr LevelRange kBloscLevels{0, 9, 5};

constexpr std::size_t kBloscHeaderBytes = BLOSC_MIN_HEADER_LENGTH;

// Compressed formats by their number in a container's flags, with a codec that reads each.
constexpr std::array<const char*, 5> kFormatCodecs = {"blosclz", "lz4", "snappy", "zlib", "zstd"};

struct BloscHeader {
  unsigned version = 0;
  unsigned flags = 0;
  std::size_t decoded_bytes = 0;
  std::size_t block_bytes = 0;
  std::size_t stored_bytes = 0;

  bool is_copy() const noexcept { return (flags & BLOSC_MEMCPYED) != 0; }
  std::size_t format() const noexcept { return flags >> 5; }
};

BloscHeader parse_header(std::span<const std::byte> in) {
  if (in.size() < kBloscHeaderBytes) {
    throw FilterError(fmt::format("blosc: {} bytes are too few to hold a header", in.size()));
  }
  return {.version = std::to_integer<unsigned>(in[0]),
          .flags = std::to_integer<unsigned>(in[2]),
          .decoded_bytes = read_little_endian32(in.subspan(4)),
          .block_bytes = read_little_endian32(in.subspan(8)),
          .stored_bytes = read_little_endian32(in.subspan(12))};
}

// libblosc trusts the stored size that the header states, and allocates by the block size.
void require_sane(const BloscHeader& header, std::span<const std::byte> in, std::span<const std::byte> out) {
  if (header.version < 1 || header.version > BLOSC_VERSION_FORMAT) {
    throw FilterError(
        fmt::format("blosc: version {} of the format is not version 1 or 2 (blosc2 is another filter, 32026)",
                    header.version));
  }
  if (header.stored_bytes < kBloscHeaderBytes || header.stored_bytes > in.size()) {
    throw FilterError(fmt::format("blosc: the header claims {} stored bytes, there are {}",
                                  header.stored_bytes, in.size()));
  }
  require_fits(header.decoded_bytes, out, "blosc");
  if (header.block_bytes == 0 || header.block_bytes > std::max<std::size_t>(header.decoded_bytes, 1)) {
    throw FilterError(fmt::format("blosc: a block size of {} bytes is impossible", header.block_bytes));
  }
  if (header.is_copy()) return;
  if (header.format() >= kFormatCodecs.size()) {
    throw FilterError(fmt::format("blosc: compressed format {} is unknown", header.format()));
  }
  if (blosc_compname_to_compcode(kFormatCodecs[header.format()]) < 0) {
    throw FilterError(fmt::format("blosc: compressed with {}, which this libblosc was built without",
                                  kFormatCodecs[header.format()]));
  }
}

// Returns libblosc's name of a codec; null if it was built without it.
const char* blosc_codec_name(unsigned codec) noexcept {
  const char* name = nullptr;
  const bool known = codec <= BLOSC_ZSTD && blosc_compcode_to_compname(static_cast<int>(codec), &name) >= 0;
  return known ? name : nullptr;
}

std::string unsupported_blosc(const FilterSpec& filter) {
  const unsigned codec = param(filter, kBloscCodec, 0);
  if (blosc_codec_name(codec) != nullptr) return {};
  return fmt::format("compresses with a codec that the installed libblosc does not support ({})", codec);
}

// Call after a failure of libblosc before which `errno` was 0. libblosc reports memory that zlib or zstd was
// denied as damage; POSIX's malloc says so here.
void throw_without_memory() {
  if (errno == ENOMEM) throw std::bad_alloc();
}

// Decodes a container of version 1 or 2 of the Blosc format ("Blosc header format", README_CHUNK_FORMAT.rst
// of c-blosc 1).
std::size_t decode_blosc(const FilterSpec&, std::span<const std::byte> in, std::span<std::byte> out,
                         CodecState&) {
  const BloscHeader header = parse_header(in);
  require_sane(header, in, out);
  // The _ctx functions keep all state on the stack; the others share a global context.
  errno = 0;
  const int written = blosc_decompress_ctx(in.data(), out.data(), header.decoded_bytes, 1);
  if (written < 0 || static_cast<std::size_t>(written) != header.decoded_bytes) {
    throw_without_memory();
    throw FilterError("blosc: not a valid container");
  }
  return header.decoded_bytes;
}

DecodeMemory blosc_memory(const FilterSpec&, std::size_t bytes) noexcept {
  // Two blocks, one with an offset for each of an element's up to 255 bytes, and a codec's state. A block is
  // at most the whole container.
  constexpr std::size_t kBloscCodecBytes = 256 * 1024;
  return {.transient = 3 * bytes + kBloscCodecBytes};
}

std::vector<std::byte> encode_blosc(const FilterSpec& filter, std::vector<std::byte> in) {
  const unsigned codec = param(filter, kBloscCodec, 0);
  const char* const name = blosc_codec_name(codec);
  if (name == nullptr)
    throw FilterError(fmt::format("blosc: this libblosc was built without codec {}", codec));
  if (in.size() > BLOSC_MAX_BUFFERSIZE) throw FilterError("blosc: more than 2 GiB in one chunk");
  std::vector<std::byte> out(in.size() + BLOSC_MAX_OVERHEAD);
  errno = 0;
  const int written = blosc_compress_ctx(
      static_cast<int>(param(filter, kBloscLevel, 5)), static_cast<int>(param(filter, kBloscShuffle, 1)),
      param(filter, kBloscTypeBytes, 1), in.size(), in.data(), out.data(), out.size(), name, 0, 1);
  if (written <= 0) {
    throw_without_memory();
    throw FilterError(fmt::format("blosc: libblosc refuses to compress with {}", name));
  }
  out.resize(static_cast<std::size_t>(written));
  return out;
}

std::optional<std::vector<unsigned>> parse_blosc(std::string_view stage, const StageContext& context) {
  const auto with = [&](unsigned codec, unsigned level) {
    // Larger elements are not shuffled, as if they were single bytes.
    const unsigned type_bytes =
        context.element_bytes <= 255 ? static_cast<unsigned>(context.element_bytes) : 1;
    return std::vector<unsigned>{
        kBloscFilterVersion, kBloscFormatVersion, type_bytes, 0, level, context.shuffled ? 0U : 1U, codec};
  };
  if (stage == "blosc") return with(kBloscLz4, kBloscLevels.otherwise);
  if (!stage.starts_with("blosc:")) return std::nullopt;
  stage.remove_prefix(std::string_view("blosc:").size());
  for (const BloscCodec& codec : kBloscCodecs) {
    if (const auto level = level_of(stage, codec.name, kBloscLevels)) return with(codec.number, *level);
  }
  return std::nullopt;
}

std::string blosc_text(const std::vector<unsigned>& params) {
  if (params.size() <= kBloscCodec) return {};
  for (const BloscCodec& codec : kBloscCodecs) {
    if (params[kBloscCodec] == codec.number) return fmt::format(":{}:{}", codec.name, params[kBloscLevel]);
  }
  return {};
}

}  // namespace

extern constinit const FilterEntry blosc_filter = {
    .id = filter_id::kBlosc,
    .name = "blosc",
    .unsupported = unsupported_blosc,
    .decode = decode_blosc,
    .encode = encode_blosc,
    .encoded_size = compressed_size,
    .decode_memory = blosc_memory,
    .chunk_bytes_place = kBloscChunkBytes,
    .spelling = {.compressor = "blosc:blosclz|lz4|lz4hc|zlib|zstd:0..9"},
    .parse = parse_blosc,
    .parameter_text = blosc_text};

}  // namespace h5feed
