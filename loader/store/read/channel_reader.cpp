// SPDX-License-Identifier: Apache-2.0
#include "store/read/channel_reader.hpp"

#include <algorithm>
#include <utility>

#include "store/format/chunk_geometry.hpp"
#include "store/read/chunk_errors.hpp"
#include "store/read/unfetched_chunk_reader.hpp"

namespace h5feed {
namespace {

DatasetInfo with_extent(DatasetInfo info, std::size_t dimension, std::uint64_t extent) {
  info.shape[dimension] = extent;
  info.max_shape = info.shape;
  if (!info.chunk_shape.empty()) info.chunk_shape[dimension] = extent;
  return info;
}

std::vector<std::uint64_t> with_extent(std::vector<std::uint64_t> shape, std::size_t dimension,
                                       std::uint64_t extent) {
  shape[dimension] = extent;
  return shape;
}

class ChannelReader final : public UnfetchedChunkReader {
 public:
  ChannelReader(std::shared_ptr<const ChunkReader> inner, std::size_t dimension,
                std::vector<std::uint64_t> channels)
      : UnfetchedChunkReader(with_extent(inner->info(), dimension, channels.size()),
                             with_extent(inner->chunk_shape(), dimension, channels.size()), inner->rows()),
        inner_(std::move(inner)),
        dimension_(dimension),
        channels_(std::move(channels)) {
    grid_ = inner_->grid();
    grid_[dimension_] = 1;
    num_chunks_ = 1;
    for (const std::uint64_t cells : grid_) num_chunks_ *= cells;
    chunk_bytes_ = size_of(info_.dtype);
    for (const std::uint64_t extent : chunk_shape_) chunk_bytes_ *= extent;
  }

  std::uint64_t scratch_bytes() const noexcept override {
    return inner_->scratch_bytes() + inner_->chunk_bytes();
  }
  bool direct() const noexcept override { return inner_->direct(); }
  std::string fallback_reason() const override { return inner_->fallback_reason(); }

  std::vector<FilterSpec> decoded_filters() const override { return inner_->decoded_filters(); }

  ReadCost read_chunk(std::uint64_t chunk, std::span<std::byte> out, ReadScratch& scratch) const override {
    out = chunk_target(*this, chunk, out);
    const std::vector<std::uint64_t>& from_shape = inner_->chunk_shape();
    const std::uint64_t height = from_shape[dimension_];
    const std::size_t element_bytes = size_of(info_.dtype);
    std::uint64_t inside = element_bytes;  // bytes of one channel behind the dimension
    for (std::size_t d = dimension_ + 1; d < from_shape.size(); ++d) inside *= from_shape[d];
    std::vector<std::uint64_t> extent = from_shape;
    extent[dimension_] = 1;
    std::vector<std::uint64_t> cell = chunk_coordinates(chunk, grid_);
    // A chunk of one row and one channel is decoded to its place.
    const bool in_place = inner_->chunk_bytes() == inside;
    ByteBuffer decoded;
    if (!in_place) decoded.resize_discard(inner_->chunk_bytes());
    ReadCost cost;
    std::vector<bool> done(channels_.size(), false);
    for (std::size_t first = 0; first < channels_.size(); ++first) {
      if (done[first]) continue;
      // All chosen channels of this chunk of the inner reader.
      cell[dimension_] = channels_[first] / height;
      std::uint64_t own = 0;
      for (std::size_t d = 0; d < cell.size(); ++d) own = own * inner_->grid()[d] + cell[d];
      const std::span<std::byte> target = in_place ? out.subspan(first * inside, inside) : decoded.span();
      cost += inner_->read_chunk(own, target, scratch);
      if (in_place) continue;
      for (std::size_t i = first; i < channels_.size(); ++i) {
        if (done[i] || channels_[i] / height != cell[dimension_]) continue;
        copy_box({extent, from_shape, chunk_shape_, element_bytes},
                 decoded.data() + channels_[i] % height * inside, out.data() + i * inside);
        done[i] = true;
      }
    }
    return cost;
  }

  RowOrigin origin(std::uint64_t row) const override { return inner_->origin(row); }

 private:
  const std::shared_ptr<const ChunkReader> inner_;
  const std::size_t dimension_;
  const std::vector<std::uint64_t> channels_;
};

}  // namespace

std::shared_ptr<const ChunkReader> as_channels(std::shared_ptr<const ChunkReader> reader,
                                               std::size_t dimension, std::vector<std::uint64_t> channels) {
  return std::make_shared<const ChannelReader>(std::move(reader), dimension, std::move(channels));
}

}  // namespace h5feed
