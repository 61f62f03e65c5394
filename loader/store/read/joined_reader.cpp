// SPDX-License-Identifier: Apache-2.0
#include "store/read/joined_reader.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "store/format/chunk_geometry.hpp"
#include "store/read/chunk_errors.hpp"
#include "store/read/forwarding_reader.hpp"
#include "store/read/stored_chunks.hpp"
#include "store/read/unfetched_chunk_reader.hpp"

namespace h5feed {
namespace {

bool same_inner(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
  return a.size() == b.size() && std::equal(a.begin() + 1, a.end(), b.begin() + 1);
}

// Presents chunks that hold the same rows as one chunk.
class WholeRowsReader final : public UnfetchedChunkReader {
 public:
  explicit WholeRowsReader(std::shared_ptr<const ChunkReader> inner)
      : UnfetchedChunkReader(inner->info(), whole_rows(*inner)), inner_(std::move(inner)) {
    max_stored_bytes_ = 0;
    pieces_ = inner_->num_chunks() / std::max<std::uint64_t>(1, inner_->rows().num_chunks());
  }

  std::uint64_t scratch_bytes() const noexcept override {
    return inner_->scratch_bytes() + inner_->chunk_bytes();
  }
  bool direct() const noexcept override { return inner_->direct(); }
  std::string fallback_reason() const override { return inner_->fallback_reason(); }
  std::vector<FilterSpec> decoded_filters() const override { return inner_->decoded_filters(); }

  ReadCost read_chunk(std::uint64_t chunk, std::span<std::byte> out, ReadScratch& scratch) const override {
    out = chunk_target(*this, chunk, out);
    ByteBuffer decoded(static_cast<std::size_t>(inner_->chunk_bytes()));
    ReadCost cost;
    for (std::uint64_t piece = chunk * pieces_; piece < (chunk + 1) * pieces_; ++piece) {
      cost += inner_->read_chunk(piece, decoded.span(), scratch);
      place(piece, decoded.data(), out.data());
    }
    return cost;
  }

  bool rows_readable() const noexcept override { return inner_->rows_readable(); }
  ReadCost read_rows(std::uint64_t first, std::uint64_t count,
                     std::span<const std::span<std::byte>> outs) const override {
    return inner_->read_rows(first, count, outs);
  }
  void hint_rows(std::uint64_t first, std::uint64_t count) const noexcept override {
    inner_->hint_rows(first, count);
  }
  bool row_resident(std::uint64_t row) const noexcept override { return inner_->row_resident(row); }

 private:
  static std::vector<std::uint64_t> whole_rows(const ChunkReader& inner) {
    std::vector<std::uint64_t> shape = inner.info().shape;
    shape.front() = inner.chunk_shape().front();
    return shape;
  }

  void place(std::uint64_t piece, const std::byte* from, std::byte* to) const {
    const std::vector<std::uint64_t> cell = chunk_coordinates(piece, inner_->grid());
    std::vector<std::uint64_t> extent = inner_->chunk_shape();
    std::size_t first_element = 0;
    for (std::size_t d = 1; d < extent.size(); ++d) {
      const std::uint64_t begin = cell[d] * extent[d];
      extent[d] = std::min(extent[d], info_.shape[d] - begin);
      first_element = first_element * info_.shape[d] + begin;
    }
    const std::size_t element_bytes = size_of(info_.dtype);
    copy_box({extent, inner_->chunk_shape(), chunk_shape_, element_bytes}, from,
             to + first_element * element_bytes);
  }

  const std::shared_ptr<const ChunkReader> inner_;
  std::uint64_t pieces_ = 1;
};

// Forwards the same chunks with one more dimension.
class OneRowReader final : public ForwardingReader {
 public:
  explicit OneRowReader(const std::shared_ptr<const ChunkReader>& whole)
      : ForwardingReader(whole, with_row(whole->info()), with_one(whole->chunk_shape()), RowLayout(1, 1)) {}

  // The only row contains all of the inner reader's rows, which are contiguous if they are in one chunk.
  bool rows_readable() const noexcept override {
    return inner().rows_readable() && inner().num_chunks() == 1;
  }
  ReadCost read_rows(std::uint64_t first, std::uint64_t count,
                     std::span<const std::span<std::byte>> outs) const override {
    check_rows(*this, first, count, outs);
    return inner().read_rows(0, count * inner().info().rows(), outs);
  }
  void hint_rows(std::uint64_t, std::uint64_t) const noexcept override {
    inner().hint_rows(0, inner().info().rows());
  }
  bool row_resident(std::uint64_t) const noexcept override { return inner().row_resident(0); }

 private:
  static std::vector<std::uint64_t> with_one(std::vector<std::uint64_t> shape) {
    shape.insert(shape.begin(), 1);
    return shape;
  }
  static DatasetInfo with_row(DatasetInfo info) {
    info.shape = with_one(std::move(info.shape));
    info.max_shape = with_one(std::move(info.max_shape));
    if (!info.chunk_shape.empty()) info.chunk_shape = with_one(std::move(info.chunk_shape));
    return info;
  }
};

class JoinedReader final : public ChunkReader, public StoredChunks {
 public:
  // `whole` is the metadata of all rows together.
  JoinedReader(std::vector<JoinedPart> parts, DatasetInfo whole, std::vector<std::uint64_t> chunk_shape,
               const std::vector<RowLayout::Run>& runs)
      : ChunkReader(std::move(whole), std::move(chunk_shape), RowLayout(runs)) {
    pieces_ = num_chunks_ / std::max<std::uint64_t>(1, rows_.num_chunks());
    max_stored_bytes_ = 0;
    std::uint64_t row = 0;
    parts_.reserve(parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      JoinedPart& part = parts[i];
      if (part.rows == 0) continue;
      max_stored_bytes_ = std::max(max_stored_bytes_, part.reader->max_stored_bytes());
      scratch_bytes_ = std::max(scratch_bytes_, part.reader->scratch_bytes());
      if (!part.reader->direct() && fallback_reason_.empty())
        fallback_reason_ = part.reader->fallback_reason();
      direct_ = direct_ && part.reader->direct();
      rows_readable_ = rows_readable_ && part.reader->rows_readable();
      const std::uint64_t first_chunk = rows_.chunk_of(row) * pieces_;
      const std::uint64_t skipped_chunks = part.first_row / runs[i].rows_per_chunk * pieces_;
      parts_.push_back({std::move(part.reader), row, part.first_row, first_chunk, skipped_chunks});
      row += part.rows;
    }
  }

  std::uint64_t scratch_bytes() const noexcept override { return scratch_bytes_; }
  bool direct() const noexcept override { return direct_; }
  std::string fallback_reason() const override { return fallback_reason_; }
  std::vector<FilterSpec> decoded_filters() const override {
    std::vector<FilterSpec> filters;
    for (const Part& part : parts_) add_filters(filters, part.reader->decoded_filters());
    return filters;
  }

  ReadCost read_chunk(std::uint64_t chunk, std::span<std::byte> out, ReadScratch& scratch) const override {
    out = chunk_target(*this, chunk, out);
    const Part& part = part_of_chunk(chunk);
    return part.reader->read_chunk(part.own_chunk(chunk), out, scratch);
  }
  std::uint64_t stored_bytes(std::uint64_t chunk) const override {
    const Part& part = part_of_chunk(chunk);
    return part.reader->stored_bytes(part.own_chunk(chunk));
  }
  bool stored_decoded(std::uint64_t chunk) const override {
    const Part& part = part_of_chunk(chunk);
    return part.reader->stored_decoded(part.own_chunk(chunk));
  }
  bool written(std::uint64_t chunk) const noexcept override {
    const Part& part = part_of_chunk(chunk);
    return StoredChunks::of(*part.reader).written(part.own_chunk(chunk));
  }
  std::uint32_t filter_mask(std::uint64_t chunk) const noexcept override {
    const Part& part = part_of_chunk(chunk);
    return StoredChunks::of(*part.reader).filter_mask(part.own_chunk(chunk));
  }
  std::optional<ChunkPlace> place(std::uint64_t chunk) const override {
    const Part& part = part_of_chunk(chunk);
    return place_of(*part.reader, part.own_chunk(chunk));
  }
  ReadCost fetch_chunk(std::uint64_t chunk, std::span<std::byte> raw) const override {
    const Part& part = part_of_chunk(chunk);
    return part.reader->fetch_chunk(part.own_chunk(chunk), raw);
  }
  ReadCost decode_chunk(std::uint64_t chunk, std::span<const std::byte> raw, std::span<std::byte> out,
                        ReadScratch& scratch) const override {
    const Part& part = part_of_chunk(chunk);
    return part.reader->decode_chunk(part.own_chunk(chunk), raw, out, scratch);
  }
  bool rows_readable() const noexcept override { return rows_readable_; }
  ReadCost read_rows(std::uint64_t first, std::uint64_t count,
                     std::span<const std::span<std::byte>> outs) const override {
    if (first >= info_.rows()) throw std::invalid_argument("ChunkReader::read_rows: no such rows");
    const Part& part = part_of_row(first);
    return part.reader->read_rows(part.own_row(first), count, outs);
  }
  void hint_rows(std::uint64_t first, std::uint64_t count) const noexcept override {
    const Part& part = part_of_row(first);
    part.reader->hint_rows(part.own_row(first), count);
  }
  bool row_resident(std::uint64_t row) const noexcept override {
    const Part& part = part_of_row(row);
    return part.reader->row_resident(part.own_row(row));
  }
  std::string describe_chunk(std::uint64_t chunk) const override {
    const Part& part = part_of_chunk(chunk);
    return part.reader->describe_chunk(part.own_chunk(chunk));
  }
  std::vector<JoinedPart> parts() const override {
    std::vector<JoinedPart> all;
    all.reserve(parts_.size());
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const std::uint64_t end = i + 1 < parts_.size() ? parts_[i + 1].first_row : info_.rows();
      all.push_back({parts_[i].reader, parts_[i].skipped_rows, end - parts_[i].first_row});
    }
    return all;
  }
  RowOrigin origin(std::uint64_t row) const override {
    const Part& part = part_of_row(row);
    return part.reader->origin(part.own_row(row));
  }

 private:
  struct Part {
    std::shared_ptr<const ChunkReader> reader;
    std::uint64_t first_row;       // of all
    std::uint64_t skipped_rows;    // of the reader
    std::uint64_t first_chunk;     // of all
    std::uint64_t skipped_chunks;  // of the reader

    std::uint64_t own_row(std::uint64_t row) const noexcept { return row - first_row + skipped_rows; }
    std::uint64_t own_chunk(std::uint64_t chunk) const noexcept {
      return chunk - first_chunk + skipped_chunks;
    }
  };
  const Part& part_of_row(std::uint64_t row) const noexcept {
    return *(std::ranges::upper_bound(parts_, row, {}, &Part::first_row) - 1);
  }
  const Part& part_of_chunk(std::uint64_t chunk) const noexcept {
    return *(std::ranges::upper_bound(parts_, chunk, {}, &Part::first_chunk) - 1);
  }

  std::vector<Part> parts_;
  std::uint64_t pieces_ = 1;
  std::uint64_t scratch_bytes_ = 0;
  std::string fallback_reason_;
  bool direct_ = true;
  bool rows_readable_ = true;
};

}  // namespace

std::vector<JoinedPart> flattened(std::vector<JoinedPart> parts) {
  std::vector<JoinedPart> flat;
  flat.reserve(parts.size());
  for (JoinedPart& part : parts) {
    std::vector<JoinedPart> own = part.reader->parts();
    if (own.empty()) {
      flat.push_back(std::move(part));
      continue;
    }
    std::uint64_t row = 0;
    const std::uint64_t end = part.first_row + part.rows;
    for (JoinedPart& inner : own) {
      const std::uint64_t begin = std::max(row, part.first_row);
      const std::uint64_t inner_end = std::min(row + inner.rows, end);
      if (begin < inner_end)
        flat.push_back({std::move(inner.reader), inner.first_row + begin - row, inner_end - begin});
      row += inner.rows;
    }
  }
  return flat;
}

DatasetInfo joined_info(const std::vector<JoinedPart>& parts, std::string file, std::string path) {
  if (parts.empty()) throw std::invalid_argument("joined_info: no parts");
  DatasetInfo whole = parts.front().reader->info();
  whole.file = std::move(file);
  whole.path = std::move(path);
  whole.layout = StorageLayout::virtual_dataset;
  whole.byte_swapped = false;
  whole.chunk_shape.clear();
  whole.filters.clear();
  whole.stored_bytes = 0;
  whole.shape.front() = 0;
  for (const JoinedPart& part : parts) {
    const DatasetInfo& info = part.reader->info();
    if (info.dtype != whole.dtype || info.shape.size() != whole.shape.size() ||
        !part.reader->rows().regular() || part.first_row > info.rows() ||
        part.rows > info.rows() - part.first_row) {
      throw std::invalid_argument("joined_info: a part of another shape or type");
    }
    whole.shape.front() += part.rows;
    if (part.rows == info.rows()) whole.stored_bytes += info.stored_bytes;
  }
  whole.max_shape = whole.shape;
  return whole;
}

std::shared_ptr<const ChunkReader> as_one_row(std::shared_ptr<const ChunkReader> reader) {
  return std::make_shared<const OneRowReader>(reader);
}

std::shared_ptr<const ChunkReader> join_readers(std::vector<JoinedPart> parts, std::string file,
                                                std::string path) {
  if (parts.empty()) throw std::invalid_argument("join_readers: no parts");
  parts = flattened(std::move(parts));
  const ChunkReader& first = *parts.front().reader;
  DatasetInfo whole = joined_info(parts, std::move(file), std::move(path));
  bool same_chunks = true;
  for (const JoinedPart& part : parts) {
    if (!same_inner(part.reader->info().shape, whole.shape))
      throw std::invalid_argument("join_readers: a part of another shape");
    same_chunks = same_chunks && same_inner(part.reader->chunk_shape(), first.chunk_shape());
  }
  std::vector<std::uint64_t> chunk_shape;
  std::vector<RowLayout::Run> runs;
  runs.reserve(parts.size());
  for (JoinedPart& part : parts) {
    if (!same_chunks && !same_inner(part.reader->chunk_shape(), whole.shape))
      part.reader = std::make_shared<const WholeRowsReader>(std::move(part.reader));
    const std::vector<std::uint64_t>& own = part.reader->chunk_shape();
    if (chunk_shape.empty()) chunk_shape = own;
    if (part.rows > 0) chunk_shape.front() = std::max(chunk_shape.front(), own.front());
    runs.push_back({part.rows, own.front(), part.first_row % own.front()});
  }
  return std::make_shared<const JoinedReader>(std::move(parts), std::move(whole), std::move(chunk_shape),
                                              runs);
}

}  // namespace h5feed
