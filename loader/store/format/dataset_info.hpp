// SPDX-License-Identifier: Apache-2.0
// What libhdf5's metadata says about one dataset: plain data, no HDF5 types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "h5feed/dtype.hpp"

namespace h5feed {

/// Storage layout of a dataset (HDF5 File Format Specification, "Data Layout" message).
enum class StorageLayout : std::uint8_t { compact, contiguous, chunked, external, virtual_dataset };

std::string_view name_of(StorageLayout layout) noexcept;

/// One stage of a filter pipeline, in the order in which it was applied on writing.
struct FilterSpec {
  /// Registered filter identification, e.g. 1 = deflate.
  unsigned id = 0;
  /// H5Z_FLAG_OPTIONAL set: a chunk may be stored without it.
  bool optional = false;
  /// The filter's client data.
  std::vector<unsigned> params;
  /// Name for people: "gzip", "shuffle", "fletcher32", or what the file says.
  std::string name;
};

/// `DatasetInfo::index_kind` of the one index without checksums.
inline constexpr std::string_view kVersion1Index = "B-tree v1";

/// A numeric dataset. Shapes are in elements, slowest dimension first, as in the file.
struct DatasetInfo {
  std::string file;  ///< path as the user gave it, for messages
  std::string path;  ///< absolute path within the file, "/train/images"
  DType dtype = DType::u8;
  bool byte_swapped = false;  ///< stored in the other byte order than the host's
  /// The last dimension of the shapes below is not one of the file, but the values of an element: 2 for
  /// complex numbers, which arrive as (real, imaginary). 1: the shapes are those of the file.
  unsigned values_per_element = 1;
  bool plain_type = true;  ///< false for enumerations, bitfields and complex numbers, which arrive as others
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> max_shape;  ///< ~0 where unlimited
  StorageLayout layout = StorageLayout::contiguous;
  std::vector<std::uint64_t> chunk_shape;  ///< empty unless `layout` is chunked
  std::vector<FilterSpec> filters;         ///< empty unless `layout` is chunked
  std::string index_kind;  ///< of chunks: "B-tree v1", "fixed array", ...; empty unless chunked
  /// H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS: chunks that the extent cuts are stored unfiltered.
  bool unfiltered_edge_chunks = false;
  /// One element, of `values_per_element` values, in host byte order; zeros where the file leaves it
  /// undefined.
  std::vector<std::byte> fill_value;
  std::uint64_t stored_bytes = 0;

  /// Elements along dimension 0, i.e. samples. 1 for a scalar.
  std::uint64_t rows() const noexcept { return shape.empty() ? 1 : shape.front(); }
  /// Dimensions that the file has.
  std::size_t file_rank() const noexcept { return shape.size() - (values_per_element > 1 ? 1 : 0); }
  /// Values of one row (one sample).
  std::uint64_t row_elements() const noexcept;
  /// Bytes of one row, decoded.
  std::uint64_t row_bytes() const noexcept { return row_elements() * size_of(dtype); }
  /// Bytes of the whole dataset, decoded.
  std::uint64_t total_bytes() const noexcept { return rows() * row_bytes(); }
  /// "20000×3×218×178 u8", as error messages print it.
  std::string shape_text() const;
  /// "train.h5:/images", as error messages begin with it.
  std::string place() const;
};

/// A path in a file, or another name, as messages print it: without the middle where it is longer than 120
/// bytes, "/a/b…/y/z".
std::string short_path(std::string_view path);

/// "3×218×178"; "scalar" for an empty shape. Without the middle where it is longer than 120 bytes:
/// "2×3×4×…×5 (32 dimensions)".
std::string format_shape(const std::vector<std::uint64_t>& shape);

}  // namespace h5feed
