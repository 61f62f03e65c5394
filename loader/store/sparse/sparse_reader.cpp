// SPDX-License-Identifier: Apache-2.0
#include "store/sparse/sparse_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <type_traits>
#include <utility>

#include "base/byte_units.hpp"
#include "base/system_limits.hpp"
#include "base/with_type.hpp"
#include "h5feed/error.hpp"
#include "store/read/read_all.hpp"

namespace h5feed {
namespace {

// Rows at the border of two blocks need chunks of both. Blocks of several small chunks keep such chunks few.
constexpr std::uint64_t kBlockBytes = kMiB;

// Returns the number of values in one run of whole chunks.
std::uint64_t values_per_block(const SparsePart& part) {
  const std::uint64_t value_bytes = size_of(part.values->info().dtype) + sizeof(std::int32_t);
  const std::uint64_t chunk = std::max<std::uint64_t>(1, part.values->rows().rows_per_chunk());
  return chunk * std::max<std::uint64_t>(1, (kBlockBytes - 1) / (chunk * value_bytes) + 1);
}

// Calls `take(stored values, number of the first)` for values [begin, end) of a dataset of one dimension.
template <typename Take>
void read_values(const ChunkReader& reader, std::uint64_t begin, std::uint64_t end, ReadScratch& scratch,
                 ReadCost& cost, const Take& take) {
  const std::size_t bytes = size_of(reader.info().dtype);
  while (begin < end) {
    const std::uint64_t chunk = reader.rows().chunk_of(begin);
    const RowLayout::Rows rows = reader.rows().rows_of(chunk);
    const std::uint64_t count = std::min(end, rows.end) - begin;
    ReadCost own;
    std::size_t skipped = 0;
    if (reader.rows_readable()) {
      scratch.part.resize_discard(count * bytes);
      own = reader.read_rows(begin, count, scratch.part.span().first(count * bytes));
    } else {
      scratch.part.resize_discard(reader.chunk_bytes());
      // The readers of datasets use all of `scratch` but `part`.
      own = reader.read_chunk(chunk, scratch.part.span().first(reader.chunk_bytes()), scratch);
      skipped = reader.rows().place_in_chunk(begin) * bytes;
    }
    cost.read_ns += own.read_ns;
    cost.decode_ns += own.decode_ns;
    cost.bytes_read += own.bytes_read;
    cost.fallback = cost.fallback || own.fallback;
    take(std::span<const std::byte>(scratch.part.span()).subspan(skipped, count * bytes), begin);
    begin += count;
  }
}

}  // namespace

// Blocks and the mapping of rows to them.
struct SparseReader::Shape {
  std::vector<std::uint64_t> first_rows;
  std::vector<std::uint64_t> starts = {0};
  std::vector<Block> blocks;
  std::uint64_t highest = 1;  // rows of the block with the most
  RowLayout layout = RowLayout(0, 1);

  explicit Shape(std::vector<SparsePart>& parts) {
    std::vector<RowLayout::Run> runs;
    std::uint64_t row = 0;
    for (std::uint32_t number = 0; number < parts.size(); ++number) {
      SparsePart& part = parts[number];
      first_rows.push_back(row);
      const std::uint64_t base = starts.back();
      const std::uint64_t values = part.starts.back();
      const std::uint64_t per_block = values_per_block(part);
      std::uint64_t previous = ~std::uint64_t{0};
      for (std::uint64_t i = 0; i < part.rows(); ++i, ++row) {
        // Empty rows at the end belong to the last chunk.
        const std::uint64_t run = std::min(part.starts[i], values == 0 ? 0 : values - 1) / per_block;
        if (run != previous) {
          blocks.push_back({number, row});
          runs.push_back({.rows = 0});
        }
        previous = run;
        highest = std::max(highest, ++runs.back().rows);
        starts.push_back(base + part.starts[i + 1]);
      }
      part.starts = {};
    }
    for (RowLayout::Run& run : runs) run.rows_per_chunk = run.rows;
    layout = RowLayout(runs);
  }
};

std::shared_ptr<const SparseReader> SparseReader::make(std::vector<SparsePart> parts, DatasetInfo info,
                                                       std::uint64_t columns) {
  Shape shape(parts);
  return std::shared_ptr<const SparseReader>(
      new SparseReader(std::move(parts), std::move(info), columns, std::move(shape)));
}

SparseReader::SparseReader(std::vector<SparsePart> parts, DatasetInfo info, std::uint64_t columns,
                           Shape shape)
    : UnfetchedChunkReader(info, {shape.highest, info.shape[1]}, shape.layout),
      parts_(std::move(parts)),
      first_rows_(std::move(shape.first_rows)),
      starts_(std::move(shape.starts)),
      blocks_(std::move(shape.blocks)),
      columns_(columns) {
  std::uint64_t most = 0;
  for (std::uint64_t chunk = 0; chunk < blocks_.size(); ++chunk)
    most = std::max(most, starts_[end_row(chunk)] - starts_[blocks_[chunk].first_row]);
  for (std::uint64_t row = 0; row < info_.rows(); ++row) longest_ = std::max(longest_, length(row));
  // A block of empty rows still has an address.
  chunk_bytes_ = std::max<std::uint64_t>(columns_at(most) + most * sizeof(std::int32_t), 1);
  max_stored_bytes_ = 0;
}

std::uint64_t SparseReader::end_row(std::uint64_t chunk) const noexcept {
  return chunk + 1 < blocks_.size() ? blocks_[chunk + 1].first_row : info_.rows();
}

// Returns where the columns begin in a block of so many values.
std::size_t SparseReader::columns_at(std::uint64_t values) const noexcept {
  const std::size_t bytes = static_cast<std::size_t>(values) * size_of(info_.dtype);
  return (bytes + sizeof(std::int32_t) - 1) / sizeof(std::int32_t) * sizeof(std::int32_t);
}

std::size_t SparseReader::part_of(std::uint64_t row) const noexcept {
  const auto next = std::ranges::upper_bound(first_rows_, row);
  return static_cast<std::size_t>(next - first_rows_.begin()) - 1;
}

std::uint64_t SparseReader::most_values(std::uint64_t count) const {
  std::vector<std::uint64_t> longest_first(static_cast<std::size_t>(info_.rows()));
  for (std::uint64_t row = 0; row < longest_first.size(); ++row) longest_first[row] = length(row);
  const auto end = longest_first.begin() +
                   static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(count, longest_first.size()));
  std::ranges::nth_element(longest_first, end, std::greater());
  std::uint64_t values = 0;
  for (auto own = longest_first.begin(); own != end; ++own) values += *own;
  return values;
}

SparseReader::Row SparseReader::row_of(const std::byte* chunk, std::uint64_t row) const noexcept {
  const std::uint64_t block = rows_.chunk_of(row);
  const std::uint64_t begin = starts_[blocks_[block].first_row];
  const std::uint64_t at = starts_[row] - begin;
  const auto* const columns =
      reinterpret_cast<const std::int32_t*>(chunk + columns_at(starts_[end_row(block)] - begin));
  return {chunk + at * size_of(info_.dtype), {columns + at, static_cast<std::size_t>(length(row))}};
}

std::uint64_t SparseReader::scratch_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const SparsePart& part : parts_) {
    for (const ChunkReader* const reader : {part.values.get(), part.indices.get()})
      bytes = std::max(bytes, reader->scratch_bytes() + reader->chunk_bytes());
  }
  return bytes;
}

bool SparseReader::direct() const noexcept {
  return std::ranges::all_of(
      parts_, [](const SparsePart& part) { return part.values->direct() && part.indices->direct(); });
}

std::string SparseReader::fallback_reason() const {
  for (const SparsePart& part : parts_) {
    for (const ChunkReader* const reader : {part.values.get(), part.indices.get()}) {
      if (!reader->direct()) return reader->fallback_reason();
    }
  }
  return {};
}

void SparseReader::refuse_column(std::uint64_t value, const std::string& column) const {
  const auto next = std::ranges::upper_bound(starts_, value);
  const RowOrigin place = origin(static_cast<std::uint64_t>(next - starts_.begin()) - 1);
  throw ChunkError(
      fmt::format("{}:{}/indices: row {} has a value in column {}, and the matrix has {} columns; "
                  "restore the file from a good copy",
                  place.file, short_path(place.path), place.row, column, format_count(columns_)));
}

// `first_value` counts the values of all parts.
void SparseReader::copy_columns(std::uint64_t first_value, std::span<const std::byte> stored, DType type,
                                std::int32_t* out) const {
  with_type_of(type, [&](auto typed) {
    using T = decltype(typed);
    if constexpr (std::is_integral_v<T>) {
      const std::size_t count = stored.size() / sizeof(T);
      std::uint64_t beyond = 0;
      for (std::size_t i = 0; i < count; ++i) {
        T column;
        std::memcpy(&column, stored.data() + i * sizeof(T), sizeof(T));
        // A negative number becomes a large one.
        beyond |= static_cast<std::uint64_t>(static_cast<std::uint64_t>(column) >= columns_);
        out[i] = static_cast<std::int32_t>(column);
      }
      if (beyond > 0) check_values(first_value, stored, type);
    }
  });
}

// Throws for the first column that the matrix does not have. `first_value` as in `copy_columns`.
void SparseReader::check_values(std::uint64_t first_value, std::span<const std::byte> stored,
                                DType type) const {
  with_type_of(type, [&](auto typed) {
    using T = decltype(typed);
    if constexpr (std::is_integral_v<T>) {
      for (std::size_t i = 0; i < stored.size() / sizeof(T); ++i) {
        T column;
        std::memcpy(&column, stored.data() + i * sizeof(T), sizeof(T));
        if (static_cast<std::uint64_t>(column) >= columns_)
          refuse_column(first_value + i, fmt::format("{}", column));
      }
    }
  });
}

void SparseReader::check_columns(std::uint64_t most_bytes) const {
  std::uint64_t bytes = 0;
  for (const SparsePart& part : parts_) bytes += part.indices->info().total_bytes();
  if (bytes > most_bytes) return;
  for (std::size_t number = 0; number < parts_.size(); ++number) {
    const ChunkReader& indices = *parts_[number].indices;
    const std::uint64_t first = starts_[first_rows_[number]];
    const std::uint64_t end = number + 1 < parts_.size() ? starts_[first_rows_[number + 1]] : starts_.back();
    ByteBuffer stored;
    try {
      stored = read_all(indices, system_limits().cpus);
    } catch (const ChunkError&) {
      continue;
    } catch (const FileError&) {
      continue;
    }
    // Values behind the last row belong to none.
    const std::size_t used = static_cast<std::size_t>(end - first) * size_of(indices.info().dtype);
    check_values(first, std::span<const std::byte>(stored.span()).first(used), indices.info().dtype);
  }
}

ReadCost SparseReader::read_chunk(std::uint64_t chunk, std::span<std::byte> out, ReadScratch& scratch) const {
  const Block& block = blocks_.at(static_cast<std::size_t>(chunk));
  const std::uint64_t begin = starts_[block.first_row];
  const std::uint64_t end = starts_[end_row(chunk)];
  if (out.size() < columns_at(end - begin) + (end - begin) * sizeof(std::int32_t))
    throw std::invalid_argument("SparseReader::read_chunk: too little room for the block");
  const SparsePart& part = parts_[block.part];
  const std::uint64_t base = starts_[first_rows_[block.part]];
  const std::size_t bytes = size_of(info_.dtype);
  auto* const columns = reinterpret_cast<std::int32_t*>(out.data() + columns_at(end - begin));
  ReadCost cost;
  try {
    read_values(*part.values, begin - base, end - base, scratch, cost,
                [&](std::span<const std::byte> stored, std::uint64_t first) {
                  std::memcpy(out.data() + (first - (begin - base)) * bytes, stored.data(), stored.size());
                });
    const DType type = part.indices->info().dtype;
    read_values(*part.indices, begin - base, end - base, scratch, cost,
                [&](std::span<const std::byte> stored, std::uint64_t first) {
                  copy_columns(base + first, stored, type, columns + (first - (begin - base)));
                });
  } catch (const ChunkError& error) {
    throw ChunkError(fmt::format("{}: {}", describe_chunk(chunk), error.what()));
  }
  return cost;
}

RowOrigin SparseReader::origin(std::uint64_t row) const {
  const std::size_t number = part_of(row);
  return {.file = parts_[number].file, .path = parts_[number].path, .row = row - first_rows_[number]};
}

std::string SparseReader::describe_chunk(std::uint64_t chunk) const {
  const Block& block = blocks_.at(static_cast<std::size_t>(chunk));
  const SparsePart& part = parts_[block.part];
  return fmt::format("{}:{} (samples {}-{})", part.file, short_path(part.path), block.first_row,
                     end_row(chunk) - 1);
}

}  // namespace h5feed
