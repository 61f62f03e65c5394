// SPDX-License-Identifier: Apache-2.0
// Chunks read through H5Dread, under libhdf5's lock.
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/clock.hpp"
#include "store/format/chunk_geometry.hpp"
#include "store/format/host_values.hpp"
#include "store/read/chunk_errors.hpp"
#include "store/read/reader_factories.hpp"
#include "store/read/unfetched_chunk_reader.hpp"

namespace h5feed {
namespace {

// The part of the dataset that one chunk covers, in elements.
struct ChunkBox {
  std::vector<std::uint64_t> coordinates;  // Chunk coordinates in the grid
  std::vector<std::uint64_t> start;
  std::vector<std::uint64_t> count;
  std::uint64_t bytes = 0;
};

// Reads chunks through libhdf5, without a separate fetch step; decodes chunks whose filters are built in
// outside the lock.
class FallbackChunkReader final : public UnfetchedChunkReader {
 public:
  FallbackChunkReader(DatasetInfo info, std::shared_ptr<H5File> file, std::string reason)
      : UnfetchedChunkReader(info, info.chunk_shape.empty() ? rows_as_chunks(info) : info.chunk_shape),
        file_(std::move(file)),
        reason_(std::move(reason)) {
    if (info_.layout == StorageLayout::chunked && !info_.filters.empty() &&
        std::all_of(info_.filters.begin(), info_.filters.end(), FilterPipeline::supports)) {
      pipeline_.emplace(info_.filters, chunk_bytes_, size_of(info_.dtype));
      max_stored_bytes_ = pipeline_->max_encoded_bytes();
    }
  }

  // Counts the stored bytes or a clipped copy, and the buffers of the decoders or of libhdf5: filter output
  // and the chunk cache.
  std::uint64_t scratch_bytes() const noexcept override {
    return max_stored_bytes_ + (pipeline_ ? pipeline_->scratch_bytes() : chunk_bytes_ + chunk_cache_bytes());
  }
  bool direct() const noexcept override { return false; }
  std::string fallback_reason() const override { return reason_; }

  ReadCost read_chunk(std::uint64_t chunk, std::span<std::byte> out, ReadScratch& scratch) const override {
    out = chunk_target(*this, chunk, out);
    const ChunkBox box = box_of(chunk);
    ReadCost cost;
    cost.fallback = true;
    const std::uint64_t begin = now_ns();
    std::uint64_t read_end = begin;
    try {
      // libhdf5 would read from addresses that it learned before the change.
      file_->check_unchanged();
      if (!pipeline_ || !read_stored(box, out, scratch, cost, read_end))
        read_decoded(box, out, scratch, cost);
    } catch (...) {
      rethrow_for_chunk(*this, chunk);
    }
    cost.read_ns = read_end - begin;
    cost.decode_ns = now_ns() - read_end;
    return cost;
  }

 private:
  // Size of libhdf5's chunk cache. Every read is of a whole chunk and h5feed keeps decoded chunks itself, so
  // only room for the current chunk helps. 0 for virtual datasets: libhdf5 would give each source a cache and
  // keep them all. 0 without filters: with a cache, libhdf5 1.10 trusts the chunk's size in a damaged index.
  std::uint64_t chunk_cache_bytes() const noexcept {
    return info_.layout == StorageLayout::chunked && !info_.filters.empty() && !pipeline_ ? chunk_bytes_ : 0;
  }

  ChunkBox box_of(std::uint64_t chunk) const {
    ChunkBox box;
    box.coordinates = chunk_coordinates(chunk, grid_);
    box.bytes = size_of(info_.dtype);
    for (std::size_t d = 0; d < grid_.size(); ++d) {
      box.start.push_back(box.coordinates[d] * chunk_shape_[d]);
      box.count.push_back(std::min(chunk_shape_[d], info_.shape[d] - box.start[d]));
      box.bytes *= box.count[d];
    }
    return box;
  }

  // Returns false if libhdf5 finds no stored chunk: H5Dread then distinguishes a missing chunk from a damaged
  // index.
  bool read_stored(const ChunkBox& box, std::span<std::byte> out, ReadScratch& scratch, ReadCost& cost,
                   std::uint64_t& read_end) const {
    const auto stored = file_->read_stored_chunk(info_, box.start, max_stored_bytes_, scratch.raw);
    if (!stored) return false;
    cost.bytes_read = stored->bytes;
    read_end = now_ns();
    const bool unfiltered = info_.unfiltered_edge_chunks && cut_by_extent(box.coordinates, info_);
    const std::uint32_t mask = unfiltered ? ChunkLocation::kAllFiltersSkipped : stored->filter_mask;
    pipeline_->decode(scratch.raw.span().first(stored->bytes), mask, out, scratch.decode);
    to_host_values(info_, out);
    return true;
  }

  void read_decoded(const ChunkBox& box, std::span<std::byte> out, ReadScratch& scratch,
                    ReadCost& cost) const {
    cost.bytes_read = box.bytes;
    if (box.count == chunk_shape_) {
      file_->read_hyperslab(info_, box.start, box.count, out, chunk_cache_bytes());
      return;
    }
    scratch.raw.resize_discard(box.bytes);
    file_->read_hyperslab(info_, box.start, box.count, scratch.raw.span().first(box.bytes),
                          chunk_cache_bytes());
    copy_box({box.count, box.count, chunk_shape_, size_of(info_.dtype)}, scratch.raw.data(), out.data());
  }

  const std::shared_ptr<H5File> file_;
  const std::string reason_;
  std::optional<FilterPipeline> pipeline_;
};

}  // namespace

std::shared_ptr<const ChunkReader> make_fallback_reader(DatasetInfo info, std::shared_ptr<H5File> file,
                                                        std::string reason) {
  return std::make_shared<FallbackChunkReader>(std::move(info), std::move(file), std::move(reason));
}

}  // namespace h5feed
