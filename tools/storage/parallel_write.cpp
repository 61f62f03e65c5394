// SPDX-License-Identifier: Apache-2.0
#include "tools/storage/parallel_write.hpp"

#include <fmt/format.h>
#include <tbb/parallel_pipeline.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/byte_buffer.hpp"
#include "base/byte_units.hpp"
#include "base/system_limits.hpp"
#include "h5feed/error.hpp"
#include "store/filters/filters.hpp"
#include "tools/program/interrupt.hpp"

namespace h5feed::cli {
namespace {

struct RowBlock {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  ByteBuffer rows;  // a whole chunk: rows after the last one are zero
  std::vector<std::byte> encoded;
};
using RowBlockPtr = std::shared_ptr<RowBlock>;

std::uint64_t rows_per_block(const NewDataset& dataset) {
  if (!dataset.chunk_shape.empty()) return dataset.chunk_shape.front();
  return std::max<std::uint64_t>(1, kMiB / std::max<std::uint64_t>(1, row_bytes(dataset)));
}

// A block in flight exists decoded, filtered and encoded at the same time.
std::size_t blocks_in_flight(const SystemLimits& limits, std::uint64_t block_bytes) {
  const std::uint64_t fit = limits.available_bytes / 4 / std::max<std::uint64_t>(1, 3 * block_bytes);
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(fit, 1, 2 * std::uint64_t{limits.cpus}));
}

}  // namespace

std::uint64_t row_bytes(const NewDataset& dataset) {
  std::uint64_t bytes = size_of(dataset.dtype);
  for (std::size_t i = 1; i < dataset.shape.size(); ++i) bytes *= dataset.shape[i];
  return bytes;
}

void check_chunk_size(const NewDataset& dataset) {
  if (dataset.chunk_shape.empty()) return;
  // Divides, so that a product beyond 64 bits is refused.
  if (dataset.chunk_shape.front() <= (4 * kGiB - 1) / std::max<std::uint64_t>(1, row_bytes(dataset))) return;
  throw OptionError(
      fmt::format("{}: {} samples of {} do not fit one chunk; HDF5 chunks stay below 4 GiB, choose a "
                  "smaller --chunk",
                  dataset.path, format_count(dataset.chunk_shape.front()), format_bytes(row_bytes(dataset))));
}

std::uint64_t write_rows_in_parallel(H5Writer& writer, const NewDataset& dataset, Production production,
                                     const RowProducer& produce, Progress& progress) {
  const bool chunked = !dataset.chunk_shape.empty();
  const std::uint64_t bytes_per_row = row_bytes(dataset);
  const std::uint64_t rows = dataset.shape.front();
  const std::uint64_t block_rows = rows_per_block(dataset);
  const auto block_bytes = static_cast<std::size_t>(block_rows * bytes_per_row);
  const FilterPipeline filters(dataset.filters, block_bytes, size_of(dataset.dtype));
  writer.create_dataset(dataset);

  const auto fill = [&](RowBlock& block) {
    const auto used = static_cast<std::size_t>(block.count * bytes_per_row);
    produce(block.first, block.count, block.rows.span().first(used));
    std::memset(block.rows.data() + used, 0, block.rows.size() - used);
  };

  std::uint64_t next_row = 0;
  std::uint64_t stored_bytes = 0;
  const auto take = [&](tbb::flow_control& control) -> RowBlockPtr {
    if (next_row == rows) {
      control.stop();
      return nullptr;
    }
    check_interrupted();
    auto block = std::make_shared<RowBlock>();
    block->first = next_row;
    block->count = std::min(block_rows, rows - next_row);
    block->rows = ByteBuffer(block_bytes);
    next_row += block->count;
    if (production == Production::in_order) fill(*block);
    return block;
  };
  const auto encode = [&](RowBlockPtr block) {
    if (production == Production::parallel) fill(*block);
    if (!filters.empty()) {
      block->encoded = filters.encode(block->rows.span());
      block->rows = ByteBuffer();
    }
    return block;
  };
  const auto write = [&](const RowBlockPtr& block) {
    const auto decoded_bytes = static_cast<std::size_t>(block->count * bytes_per_row);
    if (chunked) {
      std::vector<std::uint64_t> offset(dataset.shape.size(), 0);
      offset.front() = block->first;
      const std::span<const std::byte> bytes =
          filters.empty() ? block->rows.span() : std::span(block->encoded);
      writer.write_chunk(dataset.path, offset, bytes);
      stored_bytes += bytes.size();
    } else {
      writer.write_rows(dataset.path, block->first, block->count, block->rows.span().first(decoded_bytes));
      stored_bytes += decoded_bytes;
    }
    progress.advance(static_cast<double>(decoded_bytes));
  };

  const SystemLimits limits = system_limits();
  tbb::task_arena arena(static_cast<int>(limits.cpus));
  arena.execute([&] {
    tbb::parallel_pipeline(
        blocks_in_flight(limits, block_bytes),
        tbb::make_filter<void, RowBlockPtr>(tbb::filter_mode::serial_in_order, take) &
            tbb::make_filter<RowBlockPtr, RowBlockPtr>(tbb::filter_mode::parallel, encode) &
            tbb::make_filter<RowBlockPtr, void>(tbb::filter_mode::serial_in_order, write));
  });
  return stored_bytes;
}

}  // namespace h5feed::cli
