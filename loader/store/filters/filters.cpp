// SPDX-License-Identifier: Apache-2.0
#include "store/filters/filters.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "store/filters/entry.hpp"

namespace h5feed {
namespace {

// Memory that libdeflate's and zstd's decompressors allocate, rounded up.
constexpr std::size_t kCodecStateBytes = 256 * 1024;

// Filter masks have 32 bits, and libhdf5 refuses longer pipelines.
constexpr std::size_t kMaxFilters = 32;

bool active(std::size_t filter, std::uint32_t mask) noexcept {
  return filter >= kMaxFilters || (mask >> filter & 1U) == 0;
}

// Limit of what all filters together may make of a chunk: a hostile file may claim 32 filters that grow it,
// and sizes that no useful encoder produces must not determine how much memory a read takes.
std::size_t most_grown(std::size_t chunk_bytes) noexcept {
  constexpr std::size_t kTimes = 8;
  constexpr std::size_t kSmallChunkBytes = 64 * 1024;
  return kTimes * chunk_bytes + kSmallChunkBytes;
}

std::vector<std::byte> encode_stage(const FilterEntry& entry, const FilterSpec& filter,
                                    std::vector<std::byte> data) {
  if (entry.encode != nullptr) return entry.encode(filter, std::move(data));
  throw FilterError(fmt::format("filter {} ({}) has no encoder", filter.id, filter.name));
}

}  // namespace

struct DecodeScratch::State {
  std::array<ByteBuffer, 2> buffers;
  CodecState codecs;
};

// The first decode allocates the state: a thread that starts without memory must not throw.
DecodeScratch::DecodeScratch() = default;
DecodeScratch::DecodeScratch(DecodeScratch&&) noexcept = default;
DecodeScratch& DecodeScratch::operator=(DecodeScratch&&) noexcept = default;
DecodeScratch::~DecodeScratch() = default;

bool FilterPipeline::supports(const FilterSpec& filter) { return unsupported_reason(filter).empty(); }

bool FilterPipeline::encodes(const FilterSpec& filter) {
  return filter_entry(filter.id).encode != nullptr && supports(filter);
}

std::string unsupported_reason(const FilterSpec& filter) {
  const FilterEntry& entry = filter_entry(filter.id);
  return entry.unsupported == nullptr ? std::string() : entry.unsupported(filter);
}

std::string foreign_parameters(const FilterSpec& filter) {
  return fmt::format("has parameters ({}) that its encoder does not write", fmt::join(filter.params, ", "));
}

std::string contradiction(const FilterSpec& filter, const DatasetInfo& info) {
  const FilterEntry& entry = filter_entry(filter.id);
  return entry.contradiction == nullptr ? std::string() : entry.contradiction(filter, info);
}

FilterSpec completed(FilterSpec filter, std::size_t chunk_bytes, std::size_t element_bytes) {
  const FilterEntry& entry = filter_entry(filter.id);
  if (entry.complete != nullptr) entry.complete(filter, element_bytes);
  const bool fits = chunk_bytes <= std::numeric_limits<unsigned>::max();
  if (entry.chunk_bytes_place && fits && param(filter, *entry.chunk_bytes_place, 1) == 0) {
    filter.params[*entry.chunk_bytes_place] = static_cast<unsigned>(chunk_bytes);
  }
  return filter;
}

FilterSpec without_chunk_size(FilterSpec filter) {
  const auto place = filter_entry(filter.id).chunk_bytes_place;
  if (place && *place < filter.params.size()) filter.params[*place] = 0;
  return filter;
}

std::size_t plugin_params(unsigned id) noexcept { return filter_entry(id).plugin_params; }

FilterPipeline::FilterPipeline(std::vector<FilterSpec> filters, std::size_t chunk_bytes,
                               std::size_t element_bytes)
    : filters_(std::move(filters)), chunk_bytes_(chunk_bytes) {
  if (filters_.size() > kMaxFilters) {
    throw FilterError(fmt::format("{} filters, HDF5 allows {}", filters_.size(), kMaxFilters));
  }
  for (std::size_t i = 0; i < filters_.size(); ++i) {
    filters_[i] = completed(std::move(filters_[i]), chunk_bytes, element_bytes);
    const auto does_nothing = filter_entry(filters_[i].id).does_nothing;
    if (does_nothing != nullptr && does_nothing(filters_[i])) idle_ |= 1U << i;
  }
  stages_ = stages_under(idle_);
  const std::vector<Stage> unskipped = stages_under(0);
  max_encoded_bytes_ = unskipped.back().given_bytes;
  scratch_bytes_ = scratch_for(unskipped);
}

std::vector<FilterPipeline::Stage> FilterPipeline::stages_under(std::uint32_t mask) const {
  std::vector<Stage> stages;
  stages.reserve(filters_.size() + 1);
  EncodedSize size{.bytes = chunk_bytes_, .exact = true};
  for (std::size_t i = 0; i < filters_.size(); ++i) {
    const FilterEntry& entry = filter_entry(filters_[i].id);
    stages.push_back({&entry, size.bytes, size.exact});
    if (!active(i, mask) || entry.encoded_size == nullptr) continue;
    const EncodedSize encoded = entry.encoded_size(filters_[i], size.bytes);
    size.bytes = encoded.exact ? encoded.bytes : std::min(encoded.bytes, most_grown(chunk_bytes_));
    size.exact = size.exact && encoded.exact;
  }
  stages.push_back({nullptr, size.bytes, size.exact});
  return stages;
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
  std::vector<Stage> masked;
  if (filter_mask != idle_) masked = stages_under(filter_mask);
  const std::vector<Stage>& stages = filter_mask == idle_ ? stages_ : masked;
  std::span<const std::byte> current = raw;
  std::size_t next_buffer = 0;
  if (!scratch.state_) scratch.state_ = std::make_unique<DecodeScratch::State>();
  DecodeScratch::State& state = *scratch.state_;
  for (std::size_t i = filters_.size(); i-- > 0;) {
    if (!active(i, filter_mask)) continue;
    const Stage& stage = stages[i];
    if (stage.entry->verify != nullptr) {
      current = stage.entry->verify(current);
      continue;
    }
    std::span<std::byte> target = out;
    if (!skips_all(filter_mask | ~((1U << i) - 1U))) {
      ByteBuffer& buffer = state.buffers[next_buffer];
      next_buffer = 1 - next_buffer;
      buffer.resize_discard(stage.given_bytes);
      target = buffer.span().first(stage.given_bytes);
    }
    const std::size_t written = stage.entry->decode(filters_[i], current, target, state.codecs);
    if (stage.exact && written != stage.given_bytes) {
      throw FilterError(
          fmt::format("{}: {} bytes instead of {}", filters_[i].name, written, stage.given_bytes));
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
  for (std::size_t i = 0; i < filters_.size(); ++i) {
    data = encode_stage(*stages_[i].entry, filters_[i], std::move(data));
    if (data.size() > stages_[i + 1].given_bytes) {
      throw FilterError(fmt::format("{}: {} bytes of a chunk of {}, more than h5feed would read again",
                                    filters_[i].name, data.size(), chunk.size()));
    }
  }
  return data;
}

std::size_t FilterPipeline::scratch_for(const std::vector<Stage>& stages) const noexcept {
  if (filters_.empty()) return 0;
  const std::size_t buffers = std::min<std::size_t>(filters_.size() - 1, 2);
  // Workspaces are kept from stage to stage; memory allocated by the codecs' libraries is not.
  DecodeMemory most;
  for (std::size_t i = 0; i < filters_.size(); ++i) {
    if (stages[i].entry->decode_memory == nullptr) continue;
    const DecodeMemory memory = stages[i].entry->decode_memory(filters_[i], stages[i].given_bytes);
    most.kept = std::max(most.kept, memory.kept);
    most.transient = std::max(most.transient, memory.transient);
  }
  return buffers * max_encoded_bytes_ + most.kept + most.transient + kCodecStateBytes;
}

}  // namespace h5feed
