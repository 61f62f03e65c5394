#include <blosc.h>
#include <fmt/format.h>

#include <algorithm>

#include "store/filter_bytes.hpp"
#include "store/filter_codecs.hpp"

namespace h5feed {
namespace {

constexpr std::size_t kBloscHeaderBytes = BLOSC_MIN_HEADER_LENGTH;

// Compressed formats in a container's flags, by number, and a codec that reads each.
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

}  // namespace

bool has_blosc_codec(unsigned codec) noexcept {
  const char* name = nullptr;
  return codec <= BLOSC_ZSTD && blosc_compcode_to_compname(static_cast<int>(codec), &name) >= 0;
}

std::size_t decode_blosc(std::span<const std::byte> in, std::span<std::byte> out) {
  const BloscHeader header = parse_header(in);
  require_sane(header, in, out);
  // The _ctx calls keep everything on the stack; the others share one context.
  const int written = blosc_decompress_ctx(in.data(), out.data(), header.decoded_bytes, 1);
  if (written < 0 || static_cast<std::size_t>(written) != header.decoded_bytes) {
    throw FilterError("blosc: not a valid container");
  }
  return header.decoded_bytes;
}

std::size_t blosc_scratch_bytes(std::size_t bytes) noexcept {
  // Two blocks, one with an offset for each of up to 255 bytes of an element, and a codec's state.
  // A block is at most the whole container.
  constexpr std::size_t kCodecStateBytes = 256 * 1024;
  return 3 * bytes + kCodecStateBytes;
}

std::vector<std::byte> encode_blosc(std::span<const std::byte> in, const BloscParams& params) {
  const char* name = nullptr;
  if (params.codec > BLOSC_ZSTD || blosc_compcode_to_compname(static_cast<int>(params.codec), &name) < 0) {
    throw FilterError(fmt::format("blosc: this libblosc was built without codec {}", params.codec));
  }
  if (in.size() > BLOSC_MAX_BUFFERSIZE) throw FilterError("blosc: more than 2 GiB in one chunk");
  std::vector<std::byte> out(in.size() + BLOSC_MAX_OVERHEAD);
  const int written =
      blosc_compress_ctx(static_cast<int>(params.level), static_cast<int>(params.shuffle),
                         params.element_bytes, in.size(), in.data(), out.data(), out.size(), name, 0, 1);
  if (written <= 0) throw FilterError(fmt::format("blosc: libblosc refuses to compress with {}", name));
  out.resize(static_cast<std::size_t>(written));
  return out;
}

}  // namespace h5feed
