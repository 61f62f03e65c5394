#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "store/byte_order.hpp"
#include "store/chunk_geometry.hpp"
#include "store/chunk_readers.hpp"

namespace h5feed {
namespace {

class DirectChunkReader final : public ChunkReader {
 public:
  DirectChunkReader(DatasetInfo info, ChunkIndex index, std::shared_ptr<const ByteSource> source)
      : ChunkReader(info, info.chunk_shape),
        locations_(std::move(index.locations)),
        source_(std::move(source)),
        pipeline_(info_.filters, chunk_bytes_, size_of(info_.dtype)) {
    if (pipeline_.empty()) return;
    max_stored_bytes_ = 0;
    for (const ChunkLocation& location : locations_) {
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
    const ChunkLocation& location = locations_.at(chunk);
    ReadCost cost;
    const std::uint64_t begin = now_ns();
    std::uint64_t read_end = begin;
    if (!location.allocated()) {
      fill_with(info_.fill_value, out);
    } else {
      try {
        read_end = read_stored(location, out, scratch);
      } catch (...) {
        rethrow_for_chunk(*this, chunk);
      }
      cost.bytes_read = location.stored_bytes;
      if (info_.byte_swapped) swap_byte_order(out, size_of(info_.dtype));
    }
    cost.read_ns = read_end - begin;
    cost.decode_ns = now_ns() - read_end;
    return cost;
  }

  bool rows_readable() const noexcept override {
    return pipeline_.empty() && !info_.byte_swapped && !info_.shape.empty() &&
           std::equal(chunk_shape_.begin() + 1, chunk_shape_.end(), info_.shape.begin() + 1,
                      info_.shape.end());
  }

  ReadCost read_rows(std::uint64_t first, std::uint64_t count, std::span<std::byte> out) const override {
    check_rows(*this, first, count, out);
    if (out.empty()) return {};
    const std::uint64_t rows_per_chunk = chunk_shape_.front();
    const std::uint64_t chunk = first / rows_per_chunk;
    const std::uint64_t skipped_bytes = first % rows_per_chunk * info_.row_bytes();
    const ChunkLocation& location = locations_.at(chunk);
    ReadCost cost;
    const std::uint64_t begin = now_ns();
    if (!location.allocated()) {
      fill_with(info_.fill_value, out);
      cost.decode_ns = now_ns() - begin;
      return cost;
    }
    try {
      check_unfiltered(location);
      source_->read(location.address + skipped_bytes, out);
    } catch (...) {
      rethrow_for_chunk(*this, chunk);
    }
    cost.bytes_read = out.size();
    cost.read_ns = now_ns() - begin;
    return cost;
  }

 private:
  void check_unfiltered(const ChunkLocation& location) const {
    if (location.stored_bytes == chunk_bytes_) return;
    throw FilterError(
        fmt::format("{} bytes are stored, a chunk has {}", location.stored_bytes, chunk_bytes_));
  }

  // Returns when the bytes were there and decoding began.
  std::uint64_t read_stored(const ChunkLocation& location, std::span<std::byte> out,
                            ReadScratch& scratch) const {
    if (pipeline_.skips_all(location.filter_mask)) {
      check_unfiltered(location);
      source_->read(location.address, out);
      return now_ns();
    }
    scratch.raw.resize_discard(location.stored_bytes);
    const std::span<std::byte> raw = scratch.raw.span().first(location.stored_bytes);
    source_->read(location.address, raw);
    const std::uint64_t read_end = now_ns();
    pipeline_.decode(raw, location.filter_mask, out, scratch.decode);
    return read_end;
  }

  const std::vector<ChunkLocation> locations_;
  const std::shared_ptr<const ByteSource> source_;
  const FilterPipeline pipeline_;
};

}  // namespace

std::shared_ptr<const ChunkReader> make_direct_reader(DatasetInfo info, ChunkIndex index,
                                                      std::shared_ptr<const ByteSource> source) {
  return std::make_shared<DirectChunkReader>(std::move(info), std::move(index), std::move(source));
}

}  // namespace h5feed
