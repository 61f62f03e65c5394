#include <algorithm>
#include <utility>

#include "store/byte_order.hpp"
#include "store/chunk_geometry.hpp"
#include "store/chunk_readers.hpp"

namespace h5feed {
namespace {

class FlatChunkReader final : public ChunkReader {
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
    return read_run(first, out.first(rows * info_.row_bytes()));
  }

  bool rows_readable() const noexcept override { return !info_.byte_swapped && !info_.shape.empty(); }

  ReadCost read_rows(std::uint64_t first, std::uint64_t count, std::span<std::byte> out) const override {
    check_rows(*this, first, count, out);
    return read_run(first, out);
  }

 private:
  std::uint64_t rows_per_chunk() const noexcept { return chunk_shape_.empty() ? 1 : chunk_shape_.front(); }

  ReadCost read_run(std::uint64_t first, std::span<std::byte> out) const {
    ReadCost cost;
    const std::uint64_t begin = now_ns();
    std::uint64_t read_end = begin;
    if (!begin_) {
      fill_with(info_.fill_value, out);
    } else {
      try {
        source_->read(*begin_ + first * info_.row_bytes(), out);
      } catch (...) {
        rethrow_for_chunk(*this, first / rows_per_chunk());
      }
      read_end = now_ns();
      cost.bytes_read = out.size();
      if (info_.byte_swapped) swap_byte_order(out, size_of(info_.dtype));
    }
    cost.read_ns = read_end - begin;
    cost.decode_ns = now_ns() - read_end;
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
