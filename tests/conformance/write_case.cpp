// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

#include "conformance/storage_matrix.hpp"
#include "store/filters/filters.hpp"
#include "store/format/byte_order.hpp"
#include "store/format/chunk_geometry.hpp"
#include "support/files/bytes.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/shape.hpp"

namespace h5feed::test {
namespace {

// Shapes of a case: as created, and as resized in the end.
struct Extents {
  Shape shape = {13, 7, 11};
  Shape chunk = {4, 3, 5};
  Shape resized = {};  // empty: never resized
};

Extents extents_of(const StorageCase& stored) {
  Extents extents;
  switch (stored.storing) {
    case Storing::aligned:
      extents.shape = {12, 6, 10};
      break;
    case Storing::whole_rows:
      extents = {{13, 7}, {4, 7}};
      break;
    case Storing::many_chunks:
      extents = {{1100, 10}, {1, 10}};  // more than one page of a fixed array
      break;
    case Storing::shrunk:
    case Storing::shrunk_unfiltered_edges:
      extents.resized = {9, 5, 11};
      break;
    case Storing::extended:
      extents.resized = extents.shape;
      extents.shape = {7, 4, 11};
      break;
    case Storing::chunk_beyond_extent:
      extents.shape = {3, 2, 4};
      break;
    default:
      break;
  }
  if (stored.kind.type == H5D_CHUNK_IDX_SINGLE) extents.chunk = extents.shape;
  return extents;
}

// The dataset's maximal shape decides which index libhdf5 chooses.
Shape max_shape_of(const StorageCase& stored, const Extents& extents) {
  Shape shape = extents.shape;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    shape[d] = std::max(shape[d], extents.chunk[d]);
    if (!extents.resized.empty()) shape[d] = std::max(shape[d], extents.resized[d]);
  }
  if (stored.kind.type == H5D_CHUNK_IDX_EARRAY) shape[stored.kind.unlimited] = kUnlimited;
  if (stored.kind.type == H5D_CHUNK_IDX_BT2) shape[0] = shape[1] = kUnlimited;
  return shape;
}

// A dataset's values in memory, in host byte order.
class Model {
 public:
  Model(Shape shape, Bytes fill) : shape_(std::move(shape)), fill_(std::move(fill)) { reset(); }

  void put(const Shape& offset, const Shape& extent, const Bytes& box) {
    std::uint64_t first = 0;
    for (std::size_t d = 0; d < extent.size(); ++d) first = first * shape_[d] + offset[d];
    copy_box({extent, extent, shape_, fill_.size()}, box.data(), values_.data() + first * fill_.size());
  }

  void resize(const Shape& shape) {
    const Bytes before = values_;
    const Shape old = std::exchange(shape_, shape);
    reset();
    Shape common(shape.size());
    for (std::size_t d = 0; d < shape.size(); ++d) common[d] = std::min(old[d], shape[d]);
    copy_box({common, old, shape_, fill_.size()}, before.data(), values_.data());
  }

  const Bytes& values() const noexcept { return values_; }

 private:
  void reset() {
    values_.resize(product(shape_) * fill_.size());
    fill_with(fill_, values_);
  }

  Shape shape_;
  Bytes fill_;
  Bytes values_;
};

class CaseWriter {
 public:
  CaseWriter(const StorageCase& stored, const std::filesystem::path& path)
      : stored_(stored),
        extents_(extents_of(stored)),
        element_bytes_(size_of(stored.type.dtype)),
        big_endian_(stored.storing == Storing::big_endian),
        swapped_(element_bytes_ > 1 && big_endian_ == (std::endian::native == std::endian::little)),
        libhdf5_encodes_(libhdf5_encodes(stored.pipeline.filters(1, 1))),
        model_(extents_.shape, fill_value()),
        file_(path, {.latest = stored.kind.latest, .user_block = user_block()}) {}

  Bytes write() {
    file_.create(dataset());
    if (file_.index_type("x") != stored_.kind.type)
      throw std::runtime_error(std::string("libhdf5 chose another index than ") + stored_.kind.name);
    filters_ = file_.filters("x");
    const Shape grid = chunk_grid(extents_.shape, extents_.chunk);
    const std::uint64_t chunks = product(grid);
    for (std::uint64_t c = 0; c < chunks; ++c) {
      if (is_written(c)) write_chunk(c, chunk_coordinates(c, grid));
    }
    if (!extents_.resized.empty()) {
      file_.set_extent("x", extents_.resized);
      model_.resize(extents_.resized);
    }
    return model_.values();
  }

 private:
  std::uint64_t user_block() const {
    if (stored_.storing == Storing::user_block_512) return 512;
    return stored_.storing == Storing::user_block_4096 ? 4096 : 0;
  }

  Bytes fill_value() const {
    Bytes fill(element_bytes_);
    for (std::size_t i = 0; i < fill.size(); ++i) fill[i] = static_cast<std::byte>(i + 1);
    return fill;
  }

  std::size_t chunk_bytes() const { return product(extents_.chunk) * element_bytes_; }

  TestDataset dataset() const {
    TestDataset result{.file_type = stored_.type.file_type(big_endian_ ? H5T_ORDER_BE : H5T_ORDER_LE),
                       .shape = extents_.shape,
                       .max_shape = max_shape_of(stored_, extents_),
                       .chunk = extents_.chunk,
                       .filters = stored_.pipeline.filters(static_cast<unsigned>(element_bytes_),
                                                           static_cast<unsigned>(chunk_bytes()))};
    result.early_allocation = stored_.kind.type == H5D_CHUNK_IDX_NONE;
    result.unfiltered_edges =
        stored_.storing == Storing::unfiltered_edges || stored_.storing == Storing::shrunk_unfiltered_edges;
    result.fill_value = fill_value();
    if (swapped_) swap_byte_order(result.fill_value, element_bytes_);
    return result;
  }

  bool is_written(std::uint64_t chunk) const {
    if (stored_.storing == Storing::never_written) return false;
    return stored_.storing != Storing::missing_chunks || chunk % 3 == 1;
  }

  Bytes chunk_values(std::uint64_t chunk) const {
    const auto seed = static_cast<unsigned>(chunk);
    Bytes bytes = stored_.storing == Storing::incompressible ? random_bytes(chunk_bytes(), seed)
                                                             : patterned_bytes(chunk_bytes(), seed);
    // No bit pattern of a NaN: H5Dread may quiet it while it swaps bytes.
    for (std::byte& byte : bytes) {
      if (big_endian_) byte &= std::byte{0x3f};
    }
    return bytes;
  }

  void write_chunk(std::uint64_t chunk, const Shape& coordinates) {
    Shape offset = coordinates;
    for (std::size_t d = 0; d < offset.size(); ++d) offset[d] *= extents_.chunk[d];
    Shape extent(offset.size());
    for (std::size_t d = 0; d < extent.size(); ++d)
      extent[d] = std::min(extents_.chunk[d], extents_.shape[d] - offset[d]);
    const Bytes box = clipped(chunk_values(chunk), extent);
    model_.put(offset, extent, box);
    const std::uint32_t mask = stored_.storing == Storing::masked_chunks
                                   ? static_cast<std::uint32_t>(chunk) & ((1U << filters_.size()) - 1U)
                                   : 0;
    if (mask == 0 && libhdf5_encodes_) {
      file_.write_box("x", offset, extent, box);
      return;
    }
    Bytes bytes = padded(box, extent);
    if (swapped_) swap_byte_order(bytes, element_bytes_);
    file_.write_chunk("x", offset, encode(bytes, mask, is_unfiltered_edge(offset)), mask);
  }

  // The part of a chunk that lies within the extent.
  Bytes clipped(const Bytes& chunk, const Shape& extent) const {
    Bytes box(product(extent) * element_bytes_);
    copy_box({extent, extents_.chunk, extent, element_bytes_}, chunk.data(), box.data());
    return box;
  }

  // As writers store it: what lies beyond the extent, and shows once that grows, is the fill value.
  Bytes padded(const Bytes& box, const Shape& extent) const {
    Bytes chunk(chunk_bytes());
    fill_with(fill_value(), chunk);
    copy_box({extent, extent, extents_.chunk, element_bytes_}, box.data(), chunk.data());
    return chunk;
  }

  bool is_unfiltered_edge(const Shape& offset) const {
    if (stored_.storing != Storing::unfiltered_edges) return false;
    for (std::size_t d = 0; d < offset.size(); ++d) {
      if (offset[d] + extents_.chunk[d] > extents_.shape[d]) return true;
    }
    return false;
  }

  Bytes encode(const Bytes& bytes, std::uint32_t mask, bool unfiltered) const {
    if (unfiltered) return bytes;
    std::vector<FilterSpec> applied;
    for (std::size_t i = 0; i < filters_.size(); ++i) {
      if ((mask >> i & 1U) == 0) applied.push_back(filters_[i]);
    }
    return FilterPipeline(applied, chunk_bytes(), element_bytes_).encode(bytes);
  }

  const StorageCase& stored_;
  const Extents extents_;
  const std::size_t element_bytes_;
  const bool big_endian_;
  const bool swapped_;
  const bool libhdf5_encodes_;
  Model model_;
  H5TestFile file_;
  std::vector<FilterSpec> filters_;
};

}  // namespace

std::vector<std::byte> write_case(const StorageCase& stored, const std::filesystem::path& path) {
  return CaseWriter(stored, path).write();
}

}  // namespace h5feed::test
