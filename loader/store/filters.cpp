#include "store/filters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "store/filter_bytes.hpp"
#include "store/filter_codecs.hpp"
#include "store/fletcher32.hpp"
#include "store/shuffle.hpp"

namespace h5feed {
namespace {

// What libdeflate's and zstd's decompressors allocate, rounded up.
constexpr std::size_t kCodecStateBytes = 256 * 1024;

// What libbz2 allocates for blocks of 900 kB, rounded up.
constexpr std::size_t kBzip2StateBytes = 4 * 1024 * 1024;

// Filter masks have 32 bits, and libhdf5 refuses longer pipelines.
constexpr std::size_t kMaxFilters = 32;

bool active(std::size_t filter, std::uint32_t mask) noexcept {
  return filter >= kMaxFilters || (mask >> filter & 1U) == 0;
}

// Whether what the filter makes has another size than what it was given.
bool compresses(const FilterSpec& filter) noexcept {
  switch (filter.id) {
    case filter_id::kDeflate:
    case filter_id::kSzip:
    case filter_id::kScaleOffset:
    case filter_id::kBzip2:
    case filter_id::kLzf:
    case filter_id::kBlosc:
    case filter_id::kLz4:
    case filter_id::kZstd:
      return true;
    case filter_id::kBitshuffle: {
      const auto params = BitshuffleParams::from(filter.params);
      return params && params->codec != BitshuffleParams::Codec::none;
    }
    default:
      return false;
  }
}

// The most that data a compressor could not shrink may have grown to, with room to spare for any
// encoder: the worst are bitshuffle with small blocks, LZF with a byte for each 32, and bzip2 with 600
// bytes more.
std::size_t grown(const FilterSpec& filter, std::size_t bytes) noexcept {
  switch (filter.id) {
    case filter_id::kBitshuffle: {
      const auto params = BitshuffleParams::from(filter.params);
      return params ? params->grown_bytes(bytes) : bytes;
    }
    case filter_id::kLzf:
      return bytes + bytes / 32 + 64;
    case filter_id::kBzip2:
      return bytes + bytes / 64 + 640;
    default:
      return bytes + bytes / 64 + 64;
  }
}

// Size of what a filter was given on writing: exact, unless a compressor ran before it.
struct StageInput {
  std::size_t bytes = 0;
  bool exact = true;
};

// The most that all filters together may make of a chunk: a hostile file may claim 32 that grow it, and
// what no encoder of use makes must not decide how much memory a read takes.
std::size_t most_grown(std::size_t chunk_bytes) noexcept {
  constexpr std::size_t kTimes = 8;
  constexpr std::size_t kSmallChunkBytes = 64 * 1024;
  return kTimes * chunk_bytes + kSmallChunkBytes;
}

// One more than the filters: the last is what is stored.
std::array<StageInput, kMaxFilters + 1> stage_inputs(const std::vector<FilterSpec>& filters,
                                                     std::uint32_t mask, std::size_t chunk_bytes) noexcept {
  std::array<StageInput, kMaxFilters + 1> inputs;
  StageInput current{chunk_bytes, true};
  for (std::size_t i = 0; i < filters.size(); ++i) {
    inputs[i] = current;
    if (!active(i, mask)) continue;
    if (filters[i].id == filter_id::kFletcher32) current.bytes += kFletcher32Bytes;
    if (compresses(filters[i])) {
      current = {std::min(grown(filters[i], current.bytes), most_grown(chunk_bytes)), false};
    }
  }
  inputs[filters.size()] = current;
  return inputs;
}

std::span<const std::byte> verify_fletcher32(std::span<const std::byte> in) {
  if (in.size() < kFletcher32Bytes) {
    throw FilterError(fmt::format("fletcher32: {} bytes are too few to hold a checksum", in.size()));
  }
  const std::span<const std::byte> data = in.first(in.size() - kFletcher32Bytes);
  if (!fletcher32_matches(data, read_little_endian32(in.subspan(data.size())))) {
    throw FilterError("fletcher32: the checksum does not match");
  }
  return data;
}

std::vector<std::byte> append_fletcher32(std::vector<std::byte> data) {
  const std::uint32_t sum = fletcher32(data);
  for (unsigned shift = 0; shift < 32; shift += 8) data.push_back(static_cast<std::byte>(sum >> shift));
  return data;
}

unsigned param(const FilterSpec& filter, std::size_t place, unsigned otherwise) noexcept {
  return place < filter.params.size() ? filter.params[place] : otherwise;
}

// The parsed parameters of a filter that `supports` accepts. Throws FilterError for others.
template <typename Params>
Params parsed(const FilterSpec& filter) {
  const std::optional<Params> params = Params::from(filter.params);
  if (!params) {
    throw FilterError(
        fmt::format("filter {} ({}) with these parameters is not built in", filter.id, filter.name));
  }
  return *params;
}

// Shuffling single bytes changes nothing, nor does packing integers in all their bits; yet writers ask for
// it.
bool does_nothing(const FilterSpec& filter) noexcept {
  if (filter.id == filter_id::kScaleOffset) {
    const auto params = ScaleOffsetParams::from(filter.params);
    return params && params->stores_as_is;
  }
  return filter.id == filter_id::kShuffle && param(filter, 0, 0) == 1;
}

std::vector<std::byte> encode_stage(const FilterSpec& filter, std::vector<std::byte> data) {
  constexpr unsigned kDefaultLz4Block = 1U << 30;
  switch (filter.id) {
    case filter_id::kDeflate:
      return encode_deflate(data, param(filter, 0, 6));
    case filter_id::kShuffle: {
      std::vector<std::byte> out(data.size());
      shuffle_bytes(data, filter.params.front(), out);
      return out;
    }
    case filter_id::kFletcher32:
      return append_fletcher32(std::move(data));
    case filter_id::kLz4: {
      const unsigned block = param(filter, 0, 0);
      return encode_lz4(data, block == 0 ? kDefaultLz4Block : std::min(block, kDefaultLz4Block));
    }
    case filter_id::kZstd:
      return encode_zstd(data, static_cast<int>(param(filter, 0, 3)));
    case filter_id::kLzf:
      return encode_lzf(data);
    case filter_id::kBzip2:
      return encode_bzip2(data, param(filter, 0, 9));
    case filter_id::kBlosc:
      return encode_blosc(data, {.element_bytes = param(filter, 2, 1),
                                 .level = param(filter, 4, 5),
                                 .shuffle = param(filter, 5, 1),
                                 .codec = param(filter, 6, 0)});
    case filter_id::kBitshuffle:
      return encode_bitshuffle(data, parsed<BitshuffleParams>(filter));
    default:
      throw FilterError(fmt::format("filter {} ({}) has no encoder", filter.id, filter.name));
  }
}

}  // namespace

struct DecodeScratch::State {
  std::array<ByteBuffer, 2> buffers;
  Workspace workspace;
  DeflateDecoder deflate;
  ZstdDecoder zstd;

  // Undoes one filter that writes its result elsewhere.
  std::size_t undo(const FilterSpec& filter, std::span<const std::byte> in, std::span<std::byte> out) {
    switch (filter.id) {
      case filter_id::kDeflate:
        return deflate.decode(in, out);
      case filter_id::kZstd:
        return zstd.decode(in, out);
      case filter_id::kLz4:
        return decode_lz4(in, out);
      case filter_id::kLzf:
        return decode_lzf(in, out);
      case filter_id::kBzip2:
        return decode_bzip2(in, out);
      case filter_id::kBlosc:
        return decode_blosc(in, out);
      case filter_id::kBitshuffle:
        return decode_bitshuffle(in, parsed<BitshuffleParams>(filter), out, workspace, zstd);
      case filter_id::kSzip:
        return decode_szip(in, parsed<SzipParams>(filter), out, workspace);
      case filter_id::kScaleOffset:
        return decode_scaleoffset(in, parsed<ScaleOffsetParams>(filter), out);
      case filter_id::kShuffle:
        if (in.size() > out.size()) {
          throw FilterError(fmt::format("shuffle: {} bytes, a chunk has {}", in.size(), out.size()));
        }
        unshuffle_bytes(in, filter.params.front(), out.first(in.size()));
        return in.size();
      default:
        throw FilterError(fmt::format("filter {} ({}) is not built in", filter.id, filter.name));
    }
  }
};

DecodeScratch::DecodeScratch() : state_(std::make_unique<State>()) {}
DecodeScratch::DecodeScratch(DecodeScratch&&) noexcept = default;
DecodeScratch& DecodeScratch::operator=(DecodeScratch&&) noexcept = default;
DecodeScratch::~DecodeScratch() = default;

FilterSpec completed(FilterSpec filter, std::size_t chunk_bytes, std::size_t element_bytes) {
  const auto set_chunk_bytes = [&](std::size_t place) {
    const bool fits = chunk_bytes <= std::numeric_limits<unsigned>::max();
    if (fits && param(filter, place, 1) == 0) filter.params[place] = static_cast<unsigned>(chunk_bytes);
  };
  if (filter.id == filter_id::kShuffle && filter.params.empty()) {
    filter.params = {static_cast<unsigned>(element_bytes)};
  }
  if (filter.id == filter_id::kLzf) set_chunk_bytes(2);
  if (filter.id == filter_id::kBlosc) set_chunk_bytes(3);
  return filter;
}

FilterPipeline::FilterPipeline(std::vector<FilterSpec> filters, std::size_t chunk_bytes,
                               std::size_t element_bytes)
    : filters_(std::move(filters)), chunk_bytes_(chunk_bytes) {
  if (filters_.size() > kMaxFilters) {
    throw FilterError(fmt::format("{} filters, HDF5 allows {}", filters_.size(), kMaxFilters));
  }
  for (std::size_t i = 0; i < filters_.size(); ++i) {
    filters_[i] = completed(std::move(filters_[i]), chunk_bytes, element_bytes);
    if (does_nothing(filters_[i])) idle_ |= 1U << i;
  }
}

bool FilterPipeline::skips_all(std::uint32_t filter_mask) const noexcept {
  for (std::size_t i = 0; i < filters_.size(); ++i) {
    if (active(i, filter_mask | idle_)) return false;
  }
  return true;
}

void FilterPipeline::decode(std::span<const std::byte> raw, std::uint32_t filter_mask,
                            std::span<std::byte> out, DecodeScratch& scratch) const {
  if (out.size() != chunk_bytes_) throw std::invalid_argument("FilterPipeline::decode: not a chunk's size");
  filter_mask |= idle_;
  const auto inputs = stage_inputs(filters_, filter_mask, chunk_bytes_);
  std::span<const std::byte> current = raw;
  std::size_t next_buffer = 0;
  for (std::size_t i = filters_.size(); i-- > 0;) {
    if (!active(i, filter_mask)) continue;
    if (filters_[i].id == filter_id::kFletcher32) {
      current = verify_fletcher32(current);
      continue;
    }
    std::span<std::byte> target = out;
    if (!skips_all(filter_mask | ~((1U << i) - 1U))) {
      ByteBuffer& buffer = scratch.state_->buffers[next_buffer];
      next_buffer = 1 - next_buffer;
      buffer.resize_discard(inputs[i].bytes);
      target = buffer.span().first(inputs[i].bytes);
    }
    const std::size_t written = scratch.state_->undo(filters_[i], current, target);
    if (inputs[i].exact && written != inputs[i].bytes) {
      throw FilterError(
          fmt::format("{}: {} bytes instead of {}", filters_[i].name, written, inputs[i].bytes));
    }
    current = target.first(written);
  }
  if (current.data() == out.data()) return;
  if (current.size() != out.size()) {
    throw FilterError(fmt::format("{} bytes are stored, a chunk has {}", current.size(), out.size()));
  }
  std::memcpy(out.data(), current.data(), current.size());
}

std::vector<std::byte> FilterPipeline::encode(std::span<const std::byte> chunk) const {
  std::vector<std::byte> data(chunk.begin(), chunk.end());
  const auto inputs = stage_inputs(filters_, 0, chunk_bytes_);
  for (std::size_t i = 0; i < filters_.size(); ++i) {
    data = encode_stage(filters_[i], std::move(data));
    if (data.size() > inputs[i + 1].bytes) {
      throw FilterError(fmt::format("{}: {} bytes of a chunk of {}, more than h5feed would read again",
                                    filters_[i].name, data.size(), chunk.size()));
    }
  }
  return data;
}

std::size_t FilterPipeline::max_encoded_bytes() const noexcept {
  return stage_inputs(filters_, 0, chunk_bytes_)[filters_.size()].bytes;
}

std::size_t FilterPipeline::scratch_bytes() const noexcept {
  if (filters_.empty()) return 0;
  const std::size_t buffers = std::min<std::size_t>(filters_.size() - 1, 2);
  const auto inputs = stage_inputs(filters_, 0, chunk_bytes_);
  // Workspaces are kept from stage to stage, what libblosc and libbz2 allocate is not.
  std::size_t workspace = 0;
  std::size_t transient = 0;
  for (std::size_t i = 0; i < filters_.size(); ++i) {
    const std::size_t bytes = inputs[i].bytes;
    if (filters_[i].id == filter_id::kBitshuffle) workspace = std::max(workspace, 2 * bytes);
    if (filters_[i].id == filter_id::kBlosc) transient = std::max(transient, blosc_scratch_bytes(bytes));
    if (filters_[i].id == filter_id::kBzip2) transient = std::max(transient, kBzip2StateBytes);
    if (const auto szip = SzipParams::from(filters_[i].params); szip && filters_[i].id == filter_id::kSzip) {
      workspace = std::max(workspace, szip->scratch_bytes(bytes));
    }
  }
  return buffers * max_encoded_bytes() + workspace + transient + kCodecStateBytes;
}

}  // namespace h5feed
