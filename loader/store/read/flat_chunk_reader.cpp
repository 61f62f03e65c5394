// SPDX-License-Identifier: Apache-2.0
// Contiguous datasets as chunks of rows.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/clock.hpp"
#include "store/format/chunk_geometry.hpp"
#include "store/format/host_values.hpp"
#include "store/read/chunk_errors.hpp"
#include "store/read/reader_factories.hpp"
#include "store/read/stored_chunks.hpp"

namespace h5feed {
namespace {

class FlatChunkReader final : public ChunkReader, public StoredChunks {
 public:
  FlatChunkReader(DatasetInfo info, std::optional<std::uint64_t> begin,
                  std::shared_ptr<const ByteSource> source)
      : ChunkReader(info, rows_as_chunks(info)), begin_(begin), source_(std::move(source)) {}

  std::uint64_t scratch_bytes() const noexcept override { return 0; }
  bool direct() const noexcept override { return true; }
  std::string fallback_reason() const override { return {}; }

  ReadCost read_chunk(std::uint64_t chunk, std::span<std::byte> out, ReadScratch&) const override {
    out = chunk_target(*this, chunk, out);
    const std::uint64_t first = chunk * rows_per_chunk();
    const std::uint64_t rows = std::min(rows_per_chunk(), info_.rows() - first);
    const std::span<std::byte> stored = out.first(rows * info_.row_bytes());
    return read_run(first, {&stored, 1});
  }

  std::uint64_t stored_bytes(std::uint64_t chunk) const override {
    if (!begin_) return 0;
    const std::uint64_t first = chunk * rows_per_chunk();
    return std::min(rows_per_chunk(), info_.rows() - first) * info_.row_bytes();
  }

  bool stored_decoded(std::uint64_t) const override { return true; }

  bool written(std::uint64_t) const noexcept override { return begin_.has_value(); }
  std::uint32_t filter_mask(std::uint64_t) const noexcept override { return 0; }

  std::optional<ChunkPlace> place(std::uint64_t chunk) const override {
    return place_in_grid(*this, chunk,
                         begin_ ? std::optional(row_address(chunk * rows_per_chunk())) : std::nullopt);
  }

  ReadCost fetch_chunk(std::uint64_t chunk, std::span<std::byte> raw) const override {
    return fetch_run(chunk * rows_per_chunk(), {&raw, 1});
  }

  ReadCost decode_chunk(std::uint64_t chunk, std::span<const std::byte> raw, std::span<std::byte> out,
                        ReadScratch&) const override {
    out = chunk_target(*this, chunk, out);
    ReadCost cost;
    const std::uint64_t begin = now_ns();
    std::memcpy(out.data(), raw.data(), raw.size());
    to_host_values(info_, out.first(raw.size()));
    cost.decode_ns = now_ns() - begin;
    return cost;
  }

  bool rows_readable() const noexcept override { return info_.stores_host_values() && !info_.shape.empty(); }

  ReadCost read_rows(std::uint64_t first, std::uint64_t count,
                     std::span<const std::span<std::byte>> outs) const override {
    check_rows(*this, first, count, outs);
    return read_run(first, outs);
  }

  void hint_rows(std::uint64_t first, std::uint64_t count) const noexcept override {
    if (begin_) source_->will_need(row_address(first), count * info_.row_bytes());
  }

  bool row_resident(std::uint64_t row) const noexcept override {
    return !begin_ || source_->resident(row_address(row));
  }

 private:
  std::uint64_t rows_per_chunk() const noexcept { return chunk_shape_.empty() ? 1 : chunk_shape_.front(); }

  std::uint64_t row_address(std::uint64_t row) const noexcept { return *begin_ + row * info_.row_bytes(); }

  ReadCost read_run(std::uint64_t first, std::span<const std::span<std::byte>> outs) const {
    ReadCost cost;
    if (begin_) cost = fetch_run(first, outs);
    const std::uint64_t begin = now_ns();
    for (const std::span<std::byte> out : outs) {
      if (!begin_) {
        fill_with(info_.fill_value, out);
      } else {
        to_host_values(info_, out);
      }
    }
    cost.decode_ns = now_ns() - begin;
    return cost;
  }

  ReadCost fetch_run(std::uint64_t first, std::span<const std::span<std::byte>> outs) const {
    ReadCost cost;
    const std::uint64_t begin = now_ns();
    try {
      source_->read_scattered(row_address(first), outs);
    } catch (...) {
      rethrow_for_chunk(*this, first / rows_per_chunk());
    }
    for (const std::span<std::byte> out : outs) cost.bytes_read += out.size();
    cost.read_ns = now_ns() - begin;
    return cost;
  }

  const std::optional<std::uint64_t> begin_;
  const std::shared_ptr<const ByteSource> source_;
};

}  // namespace

std::shared_ptr<const ChunkReader> make_flat_reader(DatasetInfo info, std::optional<std::uint64_t> begin,
                                                    std::shared_ptr<const ByteSource> source) {
  return std::make_shared<FlatChunkReader>(std::move(info), begin, std::move(source));
}

}  // namespace h5feed
