// SPDX-License-Identifier: Apache-2.0
// Chunks read and decoded without libhdf5.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "store/format/chunk_geometry.hpp"
#include "store/format/host_values.hpp"
#include "store/read/chunk_errors.hpp"
#include "store/read/reader_factories.hpp"
#include "store/read/stored_chunks.hpp"

namespace h5feed {
namespace {

// Bytes that headers and tables of any compressor add to a chunk of a few bytes.
constexpr std::uint64_t kSmallChunkOverheadBytes = 64 * 1024;

class DirectChunkReader final : public ChunkReader, public StoredChunks {
 public:
  DirectChunkReader(DatasetInfo info, ChunkIndex index, std::shared_ptr<const ByteSource> source,
                    std::shared_ptr<const LastChunks> last)
      : ChunkReader(info, info.chunk_shape),
        locations_(std::move(index.locations)),
        source_(std::move(source)),
        last_(std::move(last)),
        pipeline_(info_.filters, chunk_bytes_, size_of(info_.dtype)) {
    if (pipeline_.empty()) return;
    // Limited to what an encoder can make of a chunk: a damaged size must not determine how much memory all
    // reads take.
    const std::uint64_t believable_bytes = 2 * pipeline_.max_encoded_bytes() + kSmallChunkOverheadBytes;
    max_stored_bytes_ = 0;
    for (const ChunkLocation& location : locations_) {
      if (location.stored_bytes <= believable_bytes)
        max_stored_bytes_ = std::max(max_stored_bytes_, location.stored_bytes);
    }
  }

  std::uint64_t scratch_bytes() const noexcept override {
    return pipeline_.empty() ? 0 : max_stored_bytes_ + pipeline_.scratch_bytes();
  }
  bool direct() const noexcept override { return true; }
  std::string fallback_reason() const override { return {}; }

  ReadCost read_chunk(std::uint64_t chunk, std::span<std::byte> out, ReadScratch& scratch) const override {
    out = chunk_target(*this, chunk, out);
    const ChunkLocation& location = locations_[chunk];
    if (!location.allocated()) {
      ReadCost cost;
      const std::uint64_t begin = now_ns();
      fill_with(info_.fill_value, out);
      cost.decode_ns = now_ns() - begin;
      return cost;
    }
    if (pipeline_.skips_all(location.filter_mask)) return read_unfiltered(chunk, out);
    if (!believable(location)) throw unbelievable(chunk);
    // Allocated for the largest chunk at once: growing step by step would touch new memory each time.
    scratch.raw.resize_discard(max_stored_bytes_);
    const std::span<std::byte> raw = scratch.raw.span().first(location.stored_bytes);
    ReadCost cost = fetch_chunk(chunk, raw);
    cost.decode_ns = decode_chunk(chunk, raw, out, scratch).decode_ns;
    return cost;
  }

  std::uint64_t stored_bytes(std::uint64_t chunk) const override {
    const ChunkLocation& location = locations_.at(chunk);
    return location.allocated() && believable(location) ? location.stored_bytes : 0;
  }

  bool stored_decoded(std::uint64_t chunk) const override {
    return pipeline_.skips_all(locations_.at(chunk).filter_mask);
  }

  bool written(std::uint64_t chunk) const noexcept override { return locations_[chunk].allocated(); }

  std::uint32_t filter_mask(std::uint64_t chunk) const noexcept override {
    // The flag for unfiltered edge chunks is h5feed's own.
    const std::uint32_t mask = locations_[chunk].filter_mask;
    return mask == ChunkLocation::kAllFiltersSkipped ? 0 : mask;
  }

  std::optional<ChunkPlace> place(std::uint64_t chunk) const override {
    const ChunkLocation& location = locations_.at(chunk);
    return place_in_grid(*this, chunk, location.allocated() ? std::optional(location.address) : std::nullopt);
  }

  ReadCost fetch_chunk(std::uint64_t chunk, std::span<std::byte> raw) const override {
    ReadCost cost;
    const std::uint64_t begin = now_ns();
    try {
      source_->read(locations_.at(chunk).address, raw);
      if (last_) last_->check(chunk);
    } catch (...) {
      rethrow_for_chunk(*this, chunk);
    }
    cost.bytes_read = raw.size();
    cost.read_ns = now_ns() - begin;
    return cost;
  }

  ReadCost decode_chunk(std::uint64_t chunk, std::span<const std::byte> raw, std::span<std::byte> out,
                        ReadScratch& scratch) const override {
    out = chunk_target(*this, chunk, out);
    ReadCost cost;
    const std::uint64_t begin = now_ns();
    try {
      pipeline_.decode(raw, locations_.at(chunk).filter_mask, out, scratch.decode);
    } catch (...) {
      rethrow_for_chunk(*this, chunk);
    }
    to_host_values(info_, out);
    cost.decode_ns = now_ns() - begin;
    return cost;
  }

  bool rows_readable() const noexcept override {
    return pipeline_.empty() && info_.stores_host_values() && !info_.shape.empty() &&
           std::equal(chunk_shape_.begin() + 1, chunk_shape_.end(), info_.shape.begin() + 1,
                      info_.shape.end());
  }

  ReadCost read_rows(std::uint64_t first, std::uint64_t count,
                     std::span<const std::span<std::byte>> outs) const override {
    check_rows(*this, first, count, outs);
    ReadCost cost;
    if (count == 0) return cost;
    const std::uint64_t chunk = first / chunk_shape_.front();
    const ChunkLocation& location = locations_.at(chunk);
    const std::uint64_t begin = now_ns();
    if (!location.allocated()) {
      for (const std::span<std::byte> out : outs) fill_with(info_.fill_value, out);
      cost.decode_ns = now_ns() - begin;
      return cost;
    }
    if (location.stored_bytes != chunk_bytes_) throw not_whole(chunk);
    try {
      source_->read_scattered(row_address(location, first), outs);
    } catch (...) {
      rethrow_for_chunk(*this, chunk);
    }
    cost.bytes_read = count * info_.row_bytes();
    cost.read_ns = now_ns() - begin;
    return cost;
  }

  void hint_rows(std::uint64_t first, std::uint64_t count) const noexcept override {
    const ChunkLocation& location = locations_[first / chunk_shape_.front()];
    if (location.allocated()) source_->will_need(row_address(location, first), count * info_.row_bytes());
  }

  bool row_resident(std::uint64_t row) const noexcept override {
    const ChunkLocation& location = locations_[row / chunk_shape_.front()];
    return !location.allocated() || source_->resident(row_address(location, row));
  }

 private:
  std::uint64_t row_address(const ChunkLocation& location, std::uint64_t row) const noexcept {
    return location.address + row % chunk_shape_.front() * info_.row_bytes();
  }

  bool believable(const ChunkLocation& location) const noexcept {
    return location.stored_bytes <= max_stored_bytes_;
  }

  ChunkError unbelievable(std::uint64_t chunk) const {
    return corrupt_chunk(*this, chunk,
                         fmt::format("its index claims {} stored bytes for {} decoded ones",
                                     locations_[chunk].stored_bytes, chunk_bytes_));
  }

  // Returns the error for an unfiltered chunk whose stored size is not the chunk size.
  ChunkError not_whole(std::uint64_t chunk) const {
    return corrupt_chunk(
        *this, chunk,
        fmt::format("{} bytes are stored, a chunk has {}", locations_[chunk].stored_bytes, chunk_bytes_));
  }

  // The stored bytes are the chunk's values: no intermediate buffer.
  ReadCost read_unfiltered(std::uint64_t chunk, std::span<std::byte> out) const {
    if (locations_[chunk].stored_bytes != chunk_bytes_) throw not_whole(chunk);
    ReadCost cost = fetch_chunk(chunk, out);
    const std::uint64_t begin = now_ns();
    to_host_values(info_, out);
    cost.decode_ns = now_ns() - begin;
    return cost;
  }

  const std::vector<ChunkLocation> locations_;
  const std::shared_ptr<const ByteSource> source_;
  const std::shared_ptr<const LastChunks> last_;  // Null: no chunk moves
  const FilterPipeline pipeline_;
};

}  // namespace

std::shared_ptr<const ChunkReader> make_direct_reader(DatasetInfo info, ChunkIndex index,
                                                      std::shared_ptr<const ByteSource> source,
                                                      std::shared_ptr<const LastChunks> last) {
  return std::make_shared<DirectChunkReader>(std::move(info), std::move(index), std::move(source),
                                             std::move(last));
}

}  // namespace h5feed
