// SPDX-License-Identifier: Apache-2.0
#include "store/vlen/ragged_part.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/byte_units.hpp"
#include "base/clock.hpp"
#include "h5feed/error.hpp"
#include "store/filters/filters.hpp"
#include "store/format/byte_order.hpp"
#include "store/hdf5/global_heap.hpp"
#include "store/read/chunk_errors.hpp"
#include "store/read/read_all.hpp"
#include "store/read/reader_factories.hpp"
#include "store/vlen/heap_references.hpp"

namespace h5feed {
namespace {

class VlenPart final : public RaggedPart {
 public:
  VlenPart(const VlenInfo& info, std::shared_ptr<const ByteSource> source, const HeapFormat& format,
           std::vector<HeapReference> references)
      : RaggedPart(info.references.place(), info.dtype, {}),
        byte_swapped_(info.byte_swapped),
        source_(std::move(source)),
        format_(format),
        references_(std::move(references)) {
    for (std::uint64_t row = 0; row < references_.size(); ++row) {
      if (length(row) <= source_->size() / element_bytes()) continue;
      throw ChunkError(fmt::format(
          "{}: sample {} is corrupt: it claims {} values, more than the file has; restore the file "
          "from a good copy",
          place(), row, format_count(length(row))));
    }
  }

  std::uint64_t rows() const noexcept override { return references_.size(); }
  std::uint64_t length(std::uint64_t row) const noexcept override { return references_[row].bytes; }

  ReadCost read(std::uint64_t row, std::span<std::byte> out) const override {
    ReadCost cost;
    const std::uint64_t begin = now_ns();
    try {
      cost.bytes_read = read_heap_object(*source_, format_, references_[row], out);
    } catch (const FilterError& error) {
      throw ChunkError(fmt::format("{}: sample {} is corrupt: {}; restore the file from a good copy", place(),
                                   row, error.what()));
    } catch (const FileError& error) {
      throw FileError(fmt::format("{}: sample {} cannot be read: {}", place(), row, error.what()));
    }
    if (byte_swapped_) swap_byte_order(out, size_of(dtype()));
    cost.read_ns = now_ns() - begin;
    return cost;
  }

 private:
  const bool byte_swapped_;
  const std::shared_ptr<const ByteSource> source_;
  const HeapFormat format_;
  const std::vector<HeapReference> references_;
};

std::vector<std::uint64_t> behind_the_first(const std::vector<std::uint64_t>& shape) {
  return {shape.begin() + (shape.empty() ? 0 : 1), shape.end()};
}

class DatasetRow final : public RaggedPart {
 public:
  explicit DatasetRow(std::shared_ptr<const ChunkReader> reader)
      : RaggedPart(reader->info().place(), reader->info().dtype, behind_the_first(reader->info().shape)),
        reader_(std::move(reader)) {}

  std::uint64_t rows() const noexcept override { return 1; }
  std::uint64_t length(std::uint64_t) const noexcept override { return reader_->info().rows(); }

  ReadCost read(std::uint64_t, std::span<std::byte> out) const override {
    ReadCost cost;
    const std::uint64_t begin = now_ns();
    const ByteBuffer values = read_all(*reader_, 1);
    std::ranges::copy(values.span(), out.begin());
    cost.bytes_read = reader_->info().stored_bytes;
    cost.read_ns = now_ns() - begin;
    return cost;
  }

 private:
  const std::shared_ptr<const ChunkReader> reader_;
};

}  // namespace

RaggedPart::RaggedPart(std::string place, DType dtype, std::vector<std::uint64_t> element_shape)
    : place_(std::move(place)),
      dtype_(dtype),
      element_shape_(std::move(element_shape)),
      element_bytes_(size_of(dtype)) {
  for (const std::uint64_t extent : element_shape_) element_bytes_ *= extent;
}

std::shared_ptr<const RaggedPart> open_vlen(const std::shared_ptr<H5File>& file, const VlenInfo& info,
                                            std::shared_ptr<const ByteSource> source,
                                            const ReaderSettings& settings) {
  if (!source) source = file->bytes();
  const HeapFormat format = file->heap_format();
  std::vector<HeapReference> references = read_references(file, info.references, format, source, settings);
  file->check_unchanged();
  return std::make_shared<const VlenPart>(info, std::move(source), format, std::move(references));
}

std::shared_ptr<const RaggedPart> as_ragged_row(std::shared_ptr<const ChunkReader> reader) {
  return std::make_shared<const DatasetRow>(std::move(reader));
}

}  // namespace h5feed
