// SPDX-License-Identifier: Apache-2.0
#include "tools/storage/row_range_reader.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "store/format/chunk_geometry.hpp"
#include "store/read/stored_chunks.hpp"

namespace h5feed::cli {
namespace {

DatasetInfo cut_to(DatasetInfo info, std::uint64_t rows, bool stored_swapped) {
  info.shape.front() = rows;
  info.max_shape = info.shape;
  info.byte_swapped = stored_swapped;
  return info;
}

class RowRangeReader final : public ChunkReader, public StoredChunks {
 public:
  RowRangeReader(std::shared_ptr<const ChunkReader> base, std::uint64_t first, std::uint64_t rows,
                 bool stored_swapped)
      : ChunkReader(cut_to(base->info(), rows, stored_swapped), base->chunk_shape()),
        base_(std::move(base)),
        stored_(StoredChunks::of(*base_)),
        first_(first) {
    max_stored_bytes_ = base_->max_stored_bytes();
    const std::uint64_t chunk_rows = chunk_shape_.front();
    skipped_rows_ = first % chunk_rows;
    for (std::size_t d = 1; d < grid_.size(); ++d) chunks_per_band_ *= grid_[d];
    first_chunk_ = first / chunk_rows * chunks_per_band_;
    const DatasetInfo& stored = base_->info();
    direct_ = aligned() && base_->direct() && stored.byte_swapped == stored_swapped &&
              !stored.unfiltered_edge_chunks;
  }

  std::uint64_t scratch_bytes() const noexcept override {
    return base_->scratch_bytes() + (aligned() ? 0 : chunk_bytes_);
  }
  bool direct() const noexcept override { return direct_; }
  std::string fallback_reason() const override {
    return direct_ || base_->fallback_reason().empty() ? "" : base_->fallback_reason();
  }

  ReadCost read_chunk(std::uint64_t chunk, std::span<std::byte> out, ReadScratch& scratch) const override {
    if (aligned()) return base_->read_chunk(in_base(chunk), out, scratch);
    const std::uint64_t chunk_rows = chunk_shape_.front();
    const std::uint64_t row_bytes = chunk_bytes_ / chunk_rows;
    ByteBuffer whole(static_cast<std::size_t>(chunk_bytes_));
    ReadCost cost = base_->read_chunk(in_base(chunk), whole.span(), scratch);
    std::copy_n(whole.data() + skipped_rows_ * row_bytes, (chunk_rows - skipped_rows_) * row_bytes,
                out.data());
    const std::uint64_t next = in_base(chunk) + chunks_per_band_;
    if (next >= base_->num_chunks()) return cost;
    cost += base_->read_chunk(next, whole.span(), scratch);
    std::copy_n(whole.data(), skipped_rows_ * row_bytes,
                out.data() + (chunk_rows - skipped_rows_) * row_bytes);
    return cost;
  }

  std::uint64_t stored_bytes(std::uint64_t chunk) const override {
    return aligned() ? base_->stored_bytes(in_base(chunk)) : 0;
  }
  bool stored_decoded(std::uint64_t chunk) const override {
    return aligned() && base_->stored_decoded(in_base(chunk));
  }
  bool written(std::uint64_t chunk) const noexcept override {
    const std::uint64_t next = in_base(chunk) + chunks_per_band_;
    return stored_.written(in_base(chunk)) ||
           (!aligned() && next < base_->num_chunks() && stored_.written(next));
  }
  std::uint32_t filter_mask(std::uint64_t chunk) const noexcept override {
    return stored_.filter_mask(in_base(chunk));
  }
  ReadCost fetch_chunk(std::uint64_t chunk, std::span<std::byte> raw) const override {
    if (!aligned()) throw std::logic_error("RowRangeReader: these rows are not stored as chunks");
    return base_->fetch_chunk(in_base(chunk), raw);
  }
  ReadCost decode_chunk(std::uint64_t chunk, std::span<const std::byte> raw, std::span<std::byte> out,
                        ReadScratch& scratch) const override {
    if (!aligned()) throw std::logic_error("RowRangeReader: these rows are not stored as chunks");
    return base_->decode_chunk(in_base(chunk), raw, out, scratch);
  }
  ReadCost read_rows(std::uint64_t first, std::uint64_t count,
                     std::span<const std::span<std::byte>> outs) const override {
    return base_->read_rows(first_ + first, count, outs);
  }
  bool rows_readable() const noexcept override { return aligned() && base_->rows_readable(); }
  void hint_rows(std::uint64_t first, std::uint64_t count) const noexcept override {
    base_->hint_rows(first_ + first, count);
  }
  bool row_resident(std::uint64_t row) const noexcept override { return base_->row_resident(first_ + row); }

 private:
  bool aligned() const noexcept { return skipped_rows_ == 0; }
  std::uint64_t in_base(std::uint64_t chunk) const noexcept { return first_chunk_ + chunk; }

  std::shared_ptr<const ChunkReader> base_;
  const StoredChunks& stored_;  // of `base_`
  std::uint64_t first_;
  std::uint64_t skipped_rows_ = 0;  // rows to skip in the first chunk of `base_`
  std::uint64_t chunks_per_band_ = 1;
  std::uint64_t first_chunk_ = 0;
  bool direct_ = false;
};

}  // namespace

std::shared_ptr<const ChunkReader> make_row_range(std::shared_ptr<const ChunkReader> base,
                                                  std::uint64_t first, std::uint64_t rows,
                                                  bool stored_swapped) {
  return std::make_shared<const RowRangeReader>(std::move(base), first, rows, stored_swapped);
}

}  // namespace h5feed::cli
