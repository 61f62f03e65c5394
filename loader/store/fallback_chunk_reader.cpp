#include <algorithm>
#include <stdexcept>
#include <utility>

#include "store/chunk_geometry.hpp"
#include "store/chunk_readers.hpp"

namespace h5feed {
namespace {

class FallbackChunkReader final : public ChunkReader {
 public:
  FallbackChunkReader(DatasetInfo info, std::shared_ptr<H5File> file, std::string reason)
      : ChunkReader(info, info.chunk_shape.empty() ? rows_as_chunks(info) : info.chunk_shape),
        file_(std::move(file)),
        reason_(std::move(reason)) {}

  // The clipped copy of an edge chunk, and libhdf5's own buffer for a chunk.
  std::uint64_t scratch_bytes() const noexcept override { return 2 * chunk_bytes_; }
  bool direct() const noexcept override { return false; }
  std::string fallback_reason() const override { return reason_; }

  ReadCost read_chunk(std::uint64_t chunk, std::span<std::byte> out, ReadScratch& scratch) const override {
    out = chunk_target(*this, chunk, out);
    const std::size_t element_bytes = size_of(info_.dtype);
    std::vector<std::uint64_t> start = chunk_coordinates(chunk, grid_);
    std::vector<std::uint64_t> count(start.size());
    std::uint64_t bytes = element_bytes;
    for (std::size_t d = 0; d < start.size(); ++d) {
      start[d] *= chunk_shape_[d];
      count[d] = std::min(chunk_shape_[d], info_.shape[d] - start[d]);
      bytes *= count[d];
    }
    ReadCost cost;
    cost.fallback = true;
    cost.bytes_read = bytes;
    const std::uint64_t begin = now_ns();
    try {
      if (count == chunk_shape_) {
        file_->read_hyperslab(info_, start, count, out.first(bytes));
      } else {
        scratch.raw.resize_discard(bytes);
        file_->read_hyperslab(info_, start, count, scratch.raw.span().first(bytes));
        copy_box({count, count, chunk_shape_, element_bytes}, scratch.raw.data(), out.data());
      }
    } catch (...) {
      rethrow_for_chunk(*this, chunk);
    }
    // libhdf5 reads and decodes in one call.
    cost.decode_ns = now_ns() - begin;
    return cost;
  }

  bool rows_readable() const noexcept override { return false; }

  ReadCost read_rows(std::uint64_t, std::uint64_t, std::span<std::byte>) const override {
    throw std::logic_error("ChunkReader::read_rows: rows_readable() is false");
  }

 private:
  const std::shared_ptr<H5File> file_;
  const std::string reason_;
};

}  // namespace

std::shared_ptr<const ChunkReader> make_fallback_reader(DatasetInfo info, std::shared_ptr<H5File> file,
                                                        std::string reason) {
  return std::make_shared<FallbackChunkReader>(std::move(info), std::move(file), std::move(reason));
}

}  // namespace h5feed
