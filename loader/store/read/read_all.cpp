// SPDX-License-Identifier: Apache-2.0
#include "store/read/read_all.hpp"

#include <algorithm>
#include <vector>

#include "base/interrupt.hpp"
#include "base/threads/share_out.hpp"
#include "store/format/chunk_geometry.hpp"

namespace h5feed {
namespace {

// Reads chunks into one array of all of them. Each thread of read_all has one.
class WholeRead {
 public:
  WholeRead(const ChunkReader& reader, std::span<std::byte> out) : reader_(reader), out_(out) {}

  void operator()(std::uint64_t chunk) {
    check_interrupt();
    const DatasetInfo& info = reader_.info();
    const std::size_t element_bytes = size_of(info.dtype);
    const std::vector<std::uint64_t> coordinates = chunk_coordinates(chunk, reader_.grid());
    std::vector<std::uint64_t> extent(coordinates.size());
    std::uint64_t first_element = 0;
    std::uint64_t skipped_bytes = 0;  // Bytes of the chunk that were skipped
    if (!coordinates.empty()) {
      const RowLayout::Rows rows = reader_.rows().rows_of(coordinates.front());
      extent.front() = rows.count();
      first_element = rows.first;
      skipped_bytes = reader_.rows().place_in_chunk(rows.first) * element_bytes;
    }
    for (std::size_t d = 1; d < extent.size(); ++d) {
      const std::uint64_t begin = coordinates[d] * reader_.chunk_shape()[d];
      extent[d] = std::min(reader_.chunk_shape()[d], info.shape[d] - begin);
      first_element = first_element * info.shape[d] + begin;
      skipped_bytes *= reader_.chunk_shape()[d];
    }
    std::byte* const target = out_.data() + first_element * element_bytes;
    const bool whole_rows = std::equal(extent.begin() + (extent.empty() ? 0 : 1), extent.end(),
                                       info.shape.begin() + (extent.empty() ? 0 : 1), info.shape.end());
    if (whole_rows && extent == reader_.chunk_shape() && skipped_bytes == 0) {
      reader_.read_chunk(chunk, {target, reader_.chunk_bytes()}, scratch_);
      return;
    }
    decoded_.resize_discard(reader_.chunk_bytes());
    reader_.read_chunk(chunk, decoded_.span(), scratch_);
    copy_box({extent, reader_.chunk_shape(), info.shape, element_bytes}, decoded_.data() + skipped_bytes,
             target);
  }

  const ChunkReader& reader_;
  const std::span<std::byte> out_;
  ReadScratch scratch_;
  ByteBuffer decoded_;
};

}  // namespace

ByteBuffer read_all(const ChunkReader& reader, unsigned threads) {
  ByteBuffer out(reader.info().total_bytes());
  share_out(reader.num_chunks(), threads, [&] { return WholeRead(reader, out.span()); });
  return out;
}

}  // namespace h5feed
