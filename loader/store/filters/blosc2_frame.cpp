// SPDX-License-Identifier: Apache-2.0
#include "store/filters/blosc2_frame.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <string_view>

#include "store/filters/bytes.hpp"

namespace h5feed {
namespace {

constexpr std::string_view kFrameFilter = "blosc2";

// First bytes of the frame's parts in MessagePack, whose integers are big-endian.
enum FrameTag : unsigned {
  kFrameFields = 0x9e,  // Array of 14
  kFrameMagic = 0xa8,   // Text of 8
  kFrameFlags = 0xa4,   // Text of 4
  kFrameInt16 = 0xd1,
  kFrameInt32 = 0xd2,
  kFrameInt64 = 0xd3,
  kFrameUint16 = 0xcd,
  kFrameUint64 = 0xcf,
  kFrameFilters = 0xd8,  // 16 bytes of an extension type
  kFrameLayers = 0x93,   // Array of 3
  kFrameMap = 0xde,
  kFrameBytes32 = 0xc6,
  kFrameShortText = 0xa0,
  kFrameShortArray = 0x90,
};

constexpr std::uint64_t kMostDimensions = 8;

[[noreturn]] void refuse_frame(std::string_view reason) {
  throw FilterError(fmt::format("blosc2: not a valid frame: {}", reason));
}

unsigned take_byte(std::span<const std::byte>& in) {
  return std::to_integer<unsigned>(take(in, 1, kFrameFilter).front());
}

void expect_tag(std::span<const std::byte>& in, unsigned tag) {
  const unsigned found = take_byte(in);
  if (found != tag) refuse_frame(fmt::format("byte {:#x} where {:#x} should be", found, tag));
}

// Takes a tag and a big-endian integer of `bytes` bytes. Negative ones, which have no meaning here, are
// large.
std::uint64_t take_number(std::span<const std::byte>& in, unsigned tag, std::size_t bytes) {
  expect_tag(in, tag);
  return read_big_endian(take(in, bytes, kFrameFilter));
}

std::string_view as_text(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Returns the content of the metalayer that describes an array; empty if there is none. `header` is the whole
// header, `rest` its metalayers.
std::span<const std::byte> array_layer(std::span<const std::byte> header, std::span<const std::byte> rest) {
  expect_tag(rest, kFrameLayers);
  take_number(rest, kFrameUint16, 2);
  for (std::uint64_t left = take_number(rest, kFrameMap, 2); left > 0; --left) {
    const std::string_view name = as_text(take(rest, take_byte(rest) & 0x1fU, kFrameFilter));
    const std::uint64_t offset = take_number(rest, kFrameInt32, 4);
    if (name != "b2nd" && name != "caterva") continue;
    std::span<const std::byte> content = header;
    take(content, offset, kFrameFilter);
    const std::uint64_t bytes = take_number(content, kFrameBytes32, 4);
    return take(content, bytes, kFrameFilter);
  }
  return {};
}

std::vector<std::uint64_t> take_extents(std::span<const std::byte>& in, std::uint64_t rank, unsigned tag,
                                        std::size_t bytes) {
  expect_tag(in, kFrameShortArray | static_cast<unsigned>(rank));
  std::vector<std::uint64_t> extents(rank);
  for (std::uint64_t& extent : extents) extent = take_number(in, tag, bytes);
  return extents;
}

void read_array(std::span<const std::byte> layer, Blosc2Frame& frame) {
  if ((take_byte(layer) & 0xf0U) != kFrameShortArray) refuse_frame("its array has no fields");
  take_byte(layer);  // Version
  const unsigned rank = take_byte(layer);
  if (rank == 0 || rank > kMostDimensions) refuse_frame(fmt::format("an array of {} dimensions", rank));
  frame.shape = take_extents(layer, rank, kFrameInt64, 8);
  frame.covered = take_extents(layer, rank, kFrameInt32, 4);
  frame.block = take_extents(layer, rank, kFrameInt32, 4);
  std::uint64_t bytes = frame.element_bytes;
  for (unsigned d = 0; d < rank; ++d) {
    const std::uint64_t block = frame.block[d];
    std::uint64_t& covered = frame.covered[d];
    if (block == 0 || block > covered || frame.shape[d] == 0 || frame.shape[d] > covered ||
        covered > std::numeric_limits<std::int32_t>::max()) {
      refuse_frame(
          fmt::format("blocks of {} in chunks of {} for {} elements", block, covered, frame.shape[d]));
    }
    covered = (covered + block - 1) / block * block;
    // No overflow: both are below 2^32.
    bytes *= covered;
    if (bytes > frame.bytes) break;
  }
  if (bytes != frame.bytes) refuse_frame(fmt::format("its blocks do not make {} bytes", frame.bytes));
}

// Takes a Blosc2 chunk from the front; its header states its size.
std::span<const std::byte> take_chunk(std::span<const std::byte>& in) {
  constexpr std::size_t kSizePlace = 12;
  if (in.size() < kSizePlace + 4) refuse_frame("it ends before a chunk");
  return take(in, read_little_endian32(in.subspan(kSizePlace)), kFrameFilter);
}

}  // namespace

Blosc2Frame read_blosc2_frame(std::span<const std::byte> in) {
  std::span<const std::byte> rest = in;
  expect_tag(rest, kFrameFields);
  expect_tag(rest, kFrameMagic);
  if (as_text(take(rest, 8, kFrameFilter)) != std::string_view("b2frame", 8)) refuse_frame("no b2frame");
  const std::uint64_t header_bytes = take_number(rest, kFrameInt32, 4);
  const std::uint64_t frame_bytes = take_number(rest, kFrameUint64, 8);
  if (frame_bytes > in.size() || header_bytes > frame_bytes) {
    refuse_frame(fmt::format("it claims {} bytes, {} of them header, and {} are stored", frame_bytes,
                             header_bytes, in.size()));
  }
  expect_tag(rest, kFrameFlags);
  if ((std::to_integer<unsigned>(take(rest, 4, kFrameFilter)[1]) & 0xfU) != 0) refuse_frame("it is sparse");
  Blosc2Frame frame{.bytes = take_number(rest, kFrameInt64, 8)};
  const std::uint64_t chunks_bytes = take_number(rest, kFrameInt64, 8);
  frame.element_bytes = take_number(rest, kFrameInt32, 4);
  take_number(rest, kFrameInt32, 4);  // Bytes of a block
  const std::uint64_t chunk_bytes = take_number(rest, kFrameInt32, 4);
  if (frame.bytes > chunk_bytes || frame.element_bytes == 0 || frame.element_bytes > chunk_bytes)
    refuse_frame("it has more than one chunk");
  take_number(rest, kFrameInt16, 2);  // Threads
  take_number(rest, kFrameInt16, 2);
  take_byte(rest);  // Whether the trailer has metalayers
  expect_tag(rest, kFrameFilters);
  take(rest, 17, kFrameFilter);
  const std::span<const std::byte> header = in.first(static_cast<std::size_t>(header_bytes));
  const auto fixed_bytes = static_cast<std::size_t>(rest.data() - in.data());
  if (fixed_bytes > header.size()) refuse_frame("its header is cut");
  if (const auto layer = array_layer(header, header.subspan(fixed_bytes)); !layer.empty())
    read_array(layer, frame);

  std::span<const std::byte> body = in.subspan(header.size());
  std::span<const std::byte> chunks = take(body, chunks_bytes, kFrameFilter);
  frame.offsets = take_chunk(body);
  if (!chunks.empty()) frame.chunk = take_chunk(chunks);
  if (!chunks.empty()) refuse_frame("bytes follow its chunk");
  return frame;
}

bool blocks_in_order(const Blosc2Frame& frame) noexcept {
  if (frame.covered != frame.shape) return false;
  // Blocks of one element, then one dimension of any, then whole ones.
  std::size_t d = 0;
  while (d < frame.block.size() && frame.block[d] == 1) ++d;
  for (++d; d < frame.block.size(); ++d) {
    if (frame.block[d] != frame.shape[d]) return false;
  }
  return true;
}

bool blocks_are_ambiguous(const Blosc2Frame& frame) noexcept {
  return !frame.shape.empty() && frame.covered == frame.shape && frame.block.back() == frame.shape.back() &&
         !blocks_in_order(frame);
}

std::uint64_t padded_blosc2_bytes(std::span<const std::uint64_t> shape,
                                  std::uint64_t element_bytes) noexcept {
  std::uint64_t bytes = element_bytes, padded = element_bytes;
  for (const std::uint64_t extent : shape) {
    // Blocks have 2^k elements or all; the widest that do not divide the extent add most.
    const std::uint64_t widest = std::bit_floor(std::max<std::uint64_t>(extent, 1));
    bytes *= extent;
    padded *= (extent + widest - 1) / widest * widest;
  }
  return std::max(padded, 2 * bytes);
}

}  // namespace h5feed
