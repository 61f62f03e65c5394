// SPDX-License-Identifier: Apache-2.0
#include "store/read/read_all.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

#include "base/interrupt.hpp"
#include "base/mutex.hpp"
#include "store/format/chunk_geometry.hpp"

namespace h5feed {
namespace {

// Reads all chunks into one array; shared by the threads of read_all.
class WholeRead {
 public:
  WholeRead(const ChunkReader& reader, std::span<std::byte> out) : reader_(reader), out_(out) {}

  void run() noexcept {
    try {
      ReadScratch scratch;
      ByteBuffer decoded;
      while (!failed_.load(std::memory_order_relaxed)) {
        const std::uint64_t chunk = next_.fetch_add(1, std::memory_order_relaxed);
        if (chunk >= reader_.num_chunks()) return;
        check_interrupt();
        read_one(chunk, scratch, decoded);
      }
    } catch (...) {
      const MutexLock lock(mutex_);
      if (!error_) error_ = std::current_exception();
      failed_ = true;
    }
  }

  void rethrow() {
    const MutexLock lock(mutex_);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void read_one(std::uint64_t chunk, ReadScratch& scratch, ByteBuffer& decoded) {
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
      reader_.read_chunk(chunk, {target, reader_.chunk_bytes()}, scratch);
      return;
    }
    decoded.resize_discard(reader_.chunk_bytes());
    reader_.read_chunk(chunk, decoded.span(), scratch);
    copy_box({extent, reader_.chunk_shape(), info.shape, element_bytes}, decoded.data() + skipped_bytes,
             target);
  }

  const ChunkReader& reader_;
  const std::span<std::byte> out_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<bool> failed_{false};
  Mutex mutex_;
  std::exception_ptr error_ H5FEED_GUARDED_BY(mutex_);
};

}  // namespace

ByteBuffer read_all(const ChunkReader& reader, unsigned threads) {
  ByteBuffer out(reader.info().total_bytes());
  WholeRead read(reader, out.span());
  {
    std::vector<std::jthread> helpers;
    const std::uint64_t wanted = std::min<std::uint64_t>(threads, reader.num_chunks());
    for (std::uint64_t i = 1; i < wanted; ++i) helpers.emplace_back([&read] { read.run(); });
    read.run();
  }
  read.rethrow();
  return out;
}

}  // namespace h5feed
