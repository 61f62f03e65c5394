// SPDX-License-Identifier: Apache-2.0
// HDF5 filter 32026 (blosc2).
#include <blosc2.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <new>

#include "store/filters/blosc2_frame.hpp"
#include "store/filters/bytes.hpp"
#include "store/filters/entry.hpp"
#include "store/format/chunk_geometry.hpp"

namespace h5feed {
namespace {

// The filter's parameters: {filter version, block bytes, element bytes, chunk bytes, level, shuffle, codec},
// and for arrays the number of dimensions and the chunk's extents.
enum Blosc2Place : std::size_t { kBlosc2TypeBytes = 2, kBlosc2ChunkBytes, kBlosc2Rank = 7, kBlosc2Extents };

// Places in a chunk's header.
constexpr std::size_t kFlagsPlace = 2, kBytesPlace = 4, kBlockPlace = 8, kFiltersPlace = 16,
                      kFlags2Place = 31;
constexpr std::size_t kFilters = 6;

// A chunk whose values are all the same, and which has no blocks.
unsigned special_values(std::span<const std::byte> chunk) noexcept {
  return std::to_integer<unsigned>(chunk[kFlags2Place]) >> 4 & BLOSC2_SPECIAL_MASK;
}

// Differences that are not taken first, and once, with one shuffle behind them at most, are not what
// libblosc2 before 3.0.2 reads again: it undoes them with bytes that it has not written (c-blosc2 commit
// df9ea679).
void require_known_filters(std::span<const std::byte> filters) {
  unsigned differences = 0, shuffles = 0;
  for (const std::byte stored : filters) {
    const auto filter = std::to_integer<unsigned>(stored);
    if (filter > BLOSC_TRUNC_PREC)
      throw FilterError(fmt::format("blosc2: its filter {} is not built into libblosc2", filter));
    if (filter == BLOSC_DELTA) differences += 1 + shuffles;
    if (filter == BLOSC_SHUFFLE || filter == BLOSC_BITSHUFFLE) ++shuffles;
  }
  if (differences > 1 || (differences == 1 && shuffles > 1)) {
    throw FilterError(
        "blosc2: its differences of bytes are combined with other filters in a way that libblosc2 cannot "
        "undo");
  }
}

// libblosc2 looks for plugins of codecs and filters that it does not know, and starts programs to find them;
// reads lazy chunks from other places; and allocates by the block size. None of these is what the HDF5 filter
// writes.
void require_plain(std::span<const std::byte> chunk, std::uint64_t bytes) {
  if (chunk.size() < BLOSC_EXTENDED_HEADER_LENGTH) {
    throw FilterError(fmt::format("blosc2: {} bytes are too few to hold a chunk", chunk.size()));
  }
  const auto at = [&](std::size_t place) { return std::to_integer<unsigned>(chunk[place]); };
  const std::uint64_t claimed = read_little_endian32(chunk.subspan(kBytesPlace));
  const std::uint64_t block = read_little_endian32(chunk.subspan(kBlockPlace));
  if (claimed != bytes) {
    throw FilterError(fmt::format("blosc2: a chunk of {} bytes in a frame of {}", claimed, bytes));
  }
  if (block == 0 || block > std::max<std::uint64_t>(bytes, 1)) {
    throw FilterError(fmt::format("blosc2: a block size of {} bytes is impossible", block));
  }
  constexpr unsigned kExtended = BLOSC_DOSHUFFLE | BLOSC_DOBITSHUFFLE;
  const unsigned format = at(kFlagsPlace) >> 5;
  const bool known_format = format == BLOSC_BLOSCLZ_FORMAT || format == BLOSC_LZ4_FORMAT ||
                            format == BLOSC_ZLIB_FORMAT || format == BLOSC_ZSTD_FORMAT;
  const unsigned special = special_values(chunk);
  if ((at(kFlagsPlace) & kExtended) != kExtended || (at(kFlags2Place) & 0x8fU) != 0 ||
      (!known_format && special == 0) || special > BLOSC2_SPECIAL_LASTID) {
    throw FilterError(fmt::format("blosc2: a chunk with the flags {:#x} and {:#x} is not supported",
                                  at(kFlagsPlace), at(kFlags2Place)));
  }
  require_known_filters(chunk.subspan(kFiltersPlace, kFilters));
}

std::vector<std::uint64_t> block_grid(const Blosc2Frame& frame) {
  std::vector<std::uint64_t> grid(frame.block.size());
  for (std::size_t d = 0; d < grid.size(); ++d) grid[d] = frame.covered[d] / frame.block[d];
  return grid;
}

// Puts the blocks of an array to their places.
void join_blocks(const Blosc2Frame& frame, std::span<const std::byte> blocks, std::byte* out) {
  const std::vector<std::uint64_t> grid = block_grid(frame);
  std::uint64_t block_bytes = frame.element_bytes;
  for (const std::uint64_t extent : frame.block) block_bytes *= extent;
  std::vector<std::uint64_t> extent(grid.size());
  for (std::uint64_t block = 0; block * block_bytes < blocks.size(); ++block) {
    const std::vector<std::uint64_t> place = chunk_coordinates(block, grid);
    std::uint64_t first = 0;
    bool within = true;
    for (std::size_t d = 0; d < grid.size(); ++d) {
      const std::uint64_t begin = place[d] * frame.block[d];
      within = within && begin < frame.shape[d];
      if (!within) break;
      extent[d] = std::min(frame.block[d], frame.shape[d] - begin);
      first = first * frame.shape[d] + begin;
    }
    if (!within) continue;
    copy_box({extent, frame.block, frame.shape, static_cast<std::size_t>(frame.element_bytes)},
             blocks.data() + block * block_bytes, out + first * frame.element_bytes);
  }
}

// The values of a chunk that is not stored, from its place in the list of offsets.
void fill_unstored(std::span<const std::byte> offset, std::span<std::byte> out) {
  constexpr unsigned kSpecial = 0x80;
  const unsigned mark = std::to_integer<unsigned>(offset[offset.size() - 1]);
  const unsigned values = mark & BLOSC2_SPECIAL_MASK;
  if ((mark & kSpecial) == 0 || (values != BLOSC2_SPECIAL_ZERO && values != BLOSC2_SPECIAL_UNINIT))
    throw FilterError("blosc2: not a valid frame: it has no chunk");
  std::ranges::fill(out, std::byte{0});
}

std::size_t decode_blosc2(const FilterSpec&, std::span<const std::byte> in, std::span<std::byte> out,
                          CodecState& state) {
  const Blosc2Frame frame = read_blosc2_frame(in);
  std::uint64_t bytes = frame.bytes;
  std::span<std::byte> target = out;
  if (!frame.shape.empty()) {
    bytes = frame.element_bytes;
    for (const std::uint64_t extent : frame.shape) bytes *= extent;  // At most frame.bytes
  }
  require_fits(bytes, out, "blosc2");
  if (blocks_are_ambiguous(frame)) {
    throw FilterError(fmt::format(
        "blosc2: versions of libblosc2 put blocks of {} of {} in different orders, and the file does "
        "not tell which; rewrite the dataset with the plugin that wrote it",
        format_shape(frame.block), format_shape(frame.shape)));
  }
  if (frame.shape.empty() || blocks_in_order(frame)) {
    target = out.first(static_cast<std::size_t>(bytes));
  } else {
    if (frame.bytes > padded_blosc2_bytes(frame.shape, frame.element_bytes)) {
      throw FilterError(fmt::format("blosc2: blocks of {} bytes for a chunk of {}", frame.bytes, bytes));
    }
    state.workspace[0].resize_discard(static_cast<std::size_t>(frame.bytes));
    target = state.workspace[0].span().first(static_cast<std::size_t>(frame.bytes));
  }
  if (frame.chunk.empty()) {
    std::array<std::byte, 8> offset = {};
    state.blosc2.decode(frame.offsets, offset);
    fill_unstored(offset, target);
  } else {
    state.blosc2.decode(frame.chunk, target);
  }
  if (target.data() != out.data()) join_blocks(frame, target, out.data());
  return static_cast<std::size_t>(bytes);
}

DecodeMemory blosc2_memory(const FilterSpec& filter, std::size_t bytes) noexcept {
  std::uint64_t padded = bytes;
  if (const unsigned rank = param(filter, kBlosc2Rank, 0); rank > 0 && filter.params.size() > kBlosc2Rank) {
    const auto extents =
        std::span(filter.params).subspan(std::min<std::size_t>(kBlosc2Extents, filter.params.size()));
    const auto used = extents.first(std::min<std::size_t>(rank, extents.size()));
    const std::vector<std::uint64_t> shape(used.begin(), used.end());
    padded = std::max(padded, padded_blosc2_bytes(shape, param(filter, kBlosc2TypeBytes, 1)));
  }
  // Up to four blocks with an offset for each byte of an element, and a codec's state. A block is at most the
  // chunk.
  constexpr std::uint64_t kCodecBytes = 256 * 1024;
  return {.kept = static_cast<std::size_t>(padded),
          .transient = static_cast<std::size_t>(5 * padded + kCodecBytes)};
}

}  // namespace

void Blosc2Decoder::Free::operator()(blosc2_context_s* context) const noexcept { blosc2_free_ctx(context); }

void Blosc2Decoder::decode(std::span<const std::byte> chunk, std::span<std::byte> out) {
  require_plain(chunk, out.size());
  const unsigned special = special_values(chunk);
  if (special == BLOSC2_SPECIAL_ZERO || special == BLOSC2_SPECIAL_UNINIT) {
    std::ranges::fill(out, std::byte{0});
    return;
  }
  if (!context_) {
    blosc2_dparams params = BLOSC2_DPARAMS_DEFAULTS;
    params.nthreads = 1;
    context_.reset(blosc2_create_dctx(params));
    if (!context_) throw std::bad_alloc();
  }
  constexpr std::size_t kMost = std::numeric_limits<std::int32_t>::max();
  errno = 0;
  const int written =
      chunk.size() > kMost || out.size() > kMost
          ? -1
          : blosc2_decompress_ctx(context_.get(), chunk.data(), static_cast<std::int32_t>(chunk.size()),
                                  out.data(), static_cast<std::int32_t>(out.size()));
  if (written >= 0 && static_cast<std::size_t>(written) == out.size()) return;
  context_.reset();  // Nothing of a damaged chunk must remain for the next
  // The second of memory that a codec inside was denied, which libblosc2 reports as damage.
  if (written == BLOSC2_ERROR_MEMORY_ALLOC || errno == ENOMEM) throw std::bad_alloc();
  throw FilterError("blosc2: not a valid chunk");
}

extern constinit const FilterEntry blosc2_filter = {.id = filter_id::kBlosc2,
                                                    .name = "blosc2",
                                                    .decode = decode_blosc2,
                                                    .encoded_size = compressed_size,
                                                    .decode_memory = blosc2_memory,
                                                    .chunk_bytes_place = kBlosc2ChunkBytes};

}  // namespace h5feed
