// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/cold.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "base/byte_buffer.hpp"
#include "base/byte_units.hpp"
#include "base/clock.hpp"
#include "base/threads/first_error.hpp"
#include "plan/permutation.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/index/chunk_index.hpp"
#include "tools/measure/page_cache.hpp"
#include "tools/storage/isolated.hpp"

namespace h5feed::cli {
namespace {

constexpr std::uint64_t kLargeRead = 4 * kMiB;

// Reads ranges 0 … count-1 of `range_at` on several threads, until the time is over.
class Pass {
 public:
  Pass(const ByteSource& source, std::uint64_t count, std::function<FileRange(std::uint64_t)> range_at,
       Clock::time_point end)
      : source_(source), count_(count), range_at_(std::move(range_at)), end_(end) {}

  std::uint64_t run(unsigned threads) {
    {
      std::vector<std::jthread> helpers;
      for (unsigned i = 1; i < threads; ++i) helpers.emplace_back([this] { read(); });
      read();
    }
    error_.rethrow();
    return bytes_;
  }

 private:
  void read() noexcept {
    try {
      ByteBuffer buffer;
      do {
        const std::uint64_t position = next_.fetch_add(1, std::memory_order_relaxed);
        if (position >= count_) return;
        const FileRange range = range_at_(position);
        buffer.resize_discard(static_cast<std::size_t>(range.bytes));
        source_.read(range.offset, buffer.span().first(static_cast<std::size_t>(range.bytes)));
        bytes_ += range.bytes;
      } while (Clock::now() < end_);
    } catch (...) {
      error_.store(std::current_exception());
    }
  }

  const ByteSource& source_;
  const std::uint64_t count_;
  const std::function<FileRange(std::uint64_t)> range_at_;
  const Clock::time_point end_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<std::uint64_t> bytes_{0};
  FirstError error_;
};

}  // namespace

StoredData::StoredData(const Field& data)
    : rows_per_chunk_(data.map.rows().rows_per_chunk()), row_bytes_(data.map.row_bytes()) {
  const ChunkReader& reader = *data.reader;
  const DatasetInfo& info = data.info();
  if (!reader.direct()) return;
  const auto file = open_isolated(info.file);
  if (info.layout == StorageLayout::chunked) {
    for (const ChunkLocation& location : build_chunk_index(*file, info).locations) {
      if (location.allocated()) chunks_.push_back({location.address, location.stored_bytes});
    }
  } else if (const auto begin = info.layout == StorageLayout::contiguous ? file->contiguous_offset(info)
                                                                         : std::optional<std::uint64_t>()) {
    const std::uint64_t run = rows_per_chunk_ * row_bytes_;
    for (std::uint64_t done = 0; done < info.total_bytes(); done += run) {
      chunks_.push_back({*begin + done, std::min(run, info.total_bytes() - done)});
    }
  }
}

std::vector<FileRange> StoredData::in_file_order() const {
  std::vector<FileRange> sorted = chunks_;
  std::sort(sorted.begin(), sorted.end(),
            [](const FileRange& a, const FileRange& b) { return a.offset < b.offset; });
  std::vector<FileRange> reads;
  for (FileRange range : sorted) {
    while (range.bytes > 0) {
      const bool adjacent = !reads.empty() && reads.back().offset + reads.back().bytes == range.offset &&
                            reads.back().bytes < kLargeRead;
      if (!adjacent) reads.push_back({range.offset, 0});
      const std::uint64_t part = std::min(range.bytes, kLargeRead - reads.back().bytes);
      reads.back().bytes += part;
      range.offset += part;
      range.bytes -= part;
    }
  }
  return reads;
}

FileRange StoredData::row(std::uint64_t number) const noexcept {
  const FileRange& chunk = chunks_[number / rows_per_chunk_];
  // The last run of rows may be short.
  const std::uint64_t rows = std::max<std::uint64_t>(1, chunk.bytes / row_bytes_);
  return {chunk.offset + number % rows_per_chunk_ % rows * row_bytes_, row_bytes_};
}

ColdRate measure_cold_limit(const StoredData& data, const ColdSetup& setup) {
  const auto source = open_file_source(setup.file);
  const std::vector<FileRange> sequential =
      setup.order == ColdOrder::sequential ? data.in_file_order() : std::vector<FileRange>();
  const std::uint64_t count = setup.order == ColdOrder::sequential      ? sequential.size()
                              : setup.order == ColdOrder::random_chunks ? data.num_chunks()
                                                                        : data.num_rows();
  ColdRate rate;
  std::uint64_t bytes = 0;
  std::chrono::duration<double> reading{};
  const Clock::time_point begin = Clock::now();
  std::uint64_t number = 0;
  do {
    const Permutation order(count, mix_key(setup.seed, number++, 0));
    const auto range_at = [&](std::uint64_t position) {
      switch (setup.order) {
        case ColdOrder::sequential:
          return sequential[position];
        case ColdOrder::random_chunks:
          return data.chunk(order.at(position));
        case ColdOrder::random_rows:
          break;
      }
      return data.row(order.at(position));
    };
    rate.resident_share = std::max(rate.resident_share, drop_pages(setup.file));
    const Clock::time_point start = Clock::now();
    Pass pass(*source, count, range_at, start + setup.duration);
    bytes += pass.run(setup.order == ColdOrder::sequential ? 1 : setup.depth);
    reading += Clock::now() - start;
  } while (Clock::now() - begin < setup.duration);
  rate.bytes_per_s = static_cast<double>(bytes) / reading.count();
  return rate;
}

}  // namespace h5feed::cli
