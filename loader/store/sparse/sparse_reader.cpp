// SPDX-License-Identifier: Apache-2.0
#include "store/sparse/sparse_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/byte_units.hpp"
#include "base/system_limits.hpp"
#include "base/with_type.hpp"
#include "h5feed/error.hpp"
#include "store/read/read_all.hpp"

namespace h5feed {
namespace {

// Rows at the border of two blocks need chunks of both, which are decoded twice if they have filters. Large
// blocks keep such chunks few, and get huge pages in the cache.
constexpr std::uint64_t kFilteredBlockBytes = 4 * kMiB;
constexpr std::uint64_t kBlockBytes = kMiB;

// Returns whether rows can be read without the rest of their chunks.
bool rows_apart(const SparsePart& part) noexcept {
  return part.values->rows_readable() && part.indices->rows_readable();
}

// Returns the number of values in one run of whole chunks.
std::uint64_t values_per_block(const SparsePart& part) {
  const std::uint64_t least = rows_apart(part) ? kBlockBytes : kFilteredBlockBytes;
  const std::uint64_t value_bytes = size_of(part.values->info().dtype) + sizeof(std::int32_t);
  const std::uint64_t chunk = std::max<std::uint64_t>(1, part.values->rows().rows_per_chunk());
  return chunk * std::max<std::uint64_t>(1, (least - 1) / (chunk * value_bytes) + 1);
}

// The largest of `count` stored columns; a negative one counts as one that no matrix has.
template <typename T>
std::uint64_t largest(const std::byte* stored, std::size_t count) {
  std::make_unsigned_t<T> most = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::make_unsigned_t<T> column;
    std::memcpy(&column, stored + i * sizeof(T), sizeof(T));
    most = std::max(most, column);
  }
  constexpr auto kMost = static_cast<std::make_unsigned_t<T>>(std::numeric_limits<T>::max());
  return most > kMost ? std::numeric_limits<std::uint64_t>::max() : most;
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
    : ChunkReader(info, {shape.highest, info.shape[1]}, shape.layout),
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
  if (!direct()) return;
  for (std::uint64_t chunk = 0; chunk < blocks_.size(); ++chunk)
    max_stored_bytes_ = std::max(max_stored_bytes_, stored_bytes(chunk));
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

// `first_value` counts the values of all parts. `out` may be where `stored` is.
void SparseReader::copy_columns(std::uint64_t first_value, std::span<const std::byte> stored, DType type,
                                std::int32_t* out) const {
  with_type_of(type, [&](auto typed) {
    using T = decltype(typed);
    if constexpr (std::is_integral_v<T>) {
      const std::size_t count = stored.size() / sizeof(T);
      if (largest<T>(stored.data(), count) >= columns_) check_values(first_value, stored, type);
      if (stored.data() == reinterpret_cast<const std::byte*>(out)) return;
      for (std::size_t i = 0; i < count; ++i) {
        T column;
        std::memcpy(&column, stored.data() + i * sizeof(T), sizeof(T));
        out[i] = static_cast<std::int32_t>(column);
      }
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

SparseReader::Values SparseReader::values_of(std::uint64_t chunk) const {
  const Block& block = blocks_.at(static_cast<std::size_t>(chunk));
  return {.part = block.part, .begin = starts_[block.first_row], .end = starts_[end_row(chunk)]};
}

std::vector<StoredRun> SparseReader::runs_of(const Values& values) const {
  const SparsePart& part = parts_[values.part];
  const std::uint64_t base = starts_[first_rows_[values.part]];
  std::vector<StoredRun> runs;
  for (const ChunkReader* const reader : {part.values.get(), part.indices.get()}) {
    each_run(*reader, values.begin - base, values.end - base,
             [&](const StoredRun& run) { runs.push_back(run); });
  }
  return runs;
}

std::uint64_t SparseReader::stored_bytes(std::uint64_t chunk) const {
  // Reading ahead is for values that have to be decoded; the system reads ahead of others.
  if (h5feed::rows_apart(parts_[values_of(chunk).part])) return 0;
  std::uint64_t bytes = 0;
  for (const StoredRun& run : runs_of(values_of(chunk))) {
    const std::uint64_t own = run.stored_bytes();
    if (own == 0) return 0;
    bytes += own;
  }
  return bytes;
}

bool SparseReader::stored_decoded(std::uint64_t) const { return false; }

ReadCost SparseReader::fetch_chunk(std::uint64_t chunk, std::span<std::byte> raw) const {
  ReadCost cost;
  for (const StoredRun& run : runs_of(values_of(chunk))) {
    const auto bytes = static_cast<std::size_t>(run.stored_bytes());
    cost += run.fetch(raw.first(bytes));
    raw = raw.subspan(bytes);
  }
  return cost;
}

ReadCost SparseReader::read_chunk(std::uint64_t chunk, std::span<std::byte> out, ReadScratch& scratch) const {
  return decode_chunk(chunk, {}, out, scratch);
}

// Without `raw`, reads the block from the file.
ReadCost SparseReader::decode_chunk(std::uint64_t chunk, std::span<const std::byte> raw,
                                    std::span<std::byte> out, ReadScratch& scratch) const {
  try {
    return read(values_of(chunk), raw, out, scratch);
  } catch (const ChunkError& error) {
    throw ChunkError(fmt::format("{}: {}", describe_chunk(chunk), error.what()));
  }
}

SparseReader::Row SparseReader::read_row(std::uint64_t row, ByteBuffer& buffer, ReadScratch& scratch,
                                         ReadCost& cost) const {
  const auto part = static_cast<std::uint32_t>(part_of(row));
  const std::uint64_t count = length(row);
  const std::size_t at = columns_at(count);
  buffer.resize_discard(std::max<std::size_t>(at + count * sizeof(std::int32_t), 1));
  cost += read({.part = part, .begin = starts_[row], .end = starts_[row + 1]}, {}, buffer.span(), scratch);
  return {buffer.data(),
          {reinterpret_cast<const std::int32_t*>(buffer.data() + at), static_cast<std::size_t>(count)}};
}

// Reads values, and their columns behind them, from `raw`, the fetched bytes; if it is empty, from the file.
ReadCost SparseReader::read(const Values& range, std::span<const std::byte> raw, std::span<std::byte> out,
                            ReadScratch& scratch) const {
  const std::uint64_t count = range.end - range.begin;
  if (out.size() < columns_at(count) + count * sizeof(std::int32_t))
    throw std::invalid_argument("SparseReader: too little room for the rows");
  const std::span<std::byte> columns = out.subspan(columns_at(count));
  const std::uint64_t base = starts_[first_rows_[range.part]];
  ReadCost cost;
  for (const StoredRun& run : runs_of(range)) {
    const std::span<const std::byte> fetched =
        raw.empty() ? raw : raw.first(static_cast<std::size_t>(run.stored_bytes()));
    raw = raw.subspan(fetched.size());
    const bool of_values = run.reader == parts_[range.part].values.get();
    const std::size_t width = of_values ? size_of(info_.dtype) : sizeof(std::int32_t);
    const std::span<std::byte> place =
        (of_values ? out : columns)
            .subspan(static_cast<std::size_t>(base + run.begin - range.begin) * width,
                     static_cast<std::size_t>(run.count) * width);
    const DType type = run.reader->info().dtype;
    const std::span<const std::byte> stored =
        run.read(fetched, size_of(type) == width ? place : std::span<std::byte>(), scratch, cost);
    if (!of_values) {
      copy_columns(base + run.begin, stored, type, reinterpret_cast<std::int32_t*>(place.data()));
    } else if (stored.data() != place.data()) {
      std::memcpy(place.data(), stored.data(), stored.size());
    }
  }
  return cost;
}

bool SparseReader::rows_apart() const noexcept {
  return std::ranges::all_of(parts_, [](const SparsePart& part) { return h5feed::rows_apart(part); });
}

bool SparseReader::row_resident(std::uint64_t row) const noexcept {
  const std::size_t part = part_of(row);
  const ChunkReader& values = *parts_[part].values;
  const std::uint64_t begin = starts_[row] - starts_[first_rows_[part]];
  return begin >= values.info().rows() || values.row_resident(begin);
}

void SparseReader::hint_rows(std::uint64_t first, std::uint64_t count) const noexcept {
  for (std::uint64_t row = first; row < first + count; ++row) {
    const std::size_t part = part_of(row);
    const std::uint64_t base = starts_[first_rows_[part]];
    for (const ChunkReader* const reader : {parts_[part].values.get(), parts_[part].indices.get()}) {
      each_run(*reader, starts_[row] - base, starts_[row + 1] - base,
               [](const StoredRun& run) { run.reader->hint_rows(run.begin, run.count); });
    }
  }
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
