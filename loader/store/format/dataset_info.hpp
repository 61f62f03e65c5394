// SPDX-License-Identifier: Apache-2.0
// Metadata of one dataset as plain data, without HDF5 types.
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

/// Returns "compact", "contiguous", "chunked", "external" or "virtual".
std::string_view name_of(StorageLayout layout) noexcept;

/// One stage of a filter pipeline, in the order in which it was applied on writing.
struct FilterSpec {
  /// Registered filter number, such as 1 for deflate.
  unsigned id = 0;
  /// Whether a chunk may be stored without the filter (H5Z_FLAG_OPTIONAL).
  bool optional = false;
  /// Parameters of the filter, called client data by HDF5.
  std::vector<unsigned> params;
  /// Name for display: "gzip", "shuffle", "fletcher32"; for other filters the name stored in the file.
  std::string name;
};

/// Adds those of `more` to `filters` whose number is not there yet. Throws std::bad_alloc.
void add_filters(std::vector<FilterSpec>& filters, const std::vector<FilterSpec>& more);

/// Which bits of a stored integer hold its value: `count` of them from bit `first` on, 0 being the lowest.
struct ValueBits {
  unsigned first = 0;
  unsigned count = 0;  ///< 0: the value fills its bytes

  bool operator==(const ValueBits&) const = default;
};

/// `DatasetInfo::index_kind` of version 1, the only chunk index without checksums.
inline constexpr std::string_view kVersion1Index = "B-tree v1";

/// Metadata of a numeric dataset. Shapes are in elements, slowest dimension first, as in the file.
struct DatasetInfo {
  std::string file;           ///< Path as the user gave it, for messages
  std::string path;           ///< Absolute path within the file, such as "/train/images"
  DType dtype = DType::u8;    ///< Type of one value
  bool byte_swapped = false;  ///< Whether the stored byte order differs from the host's
  ValueBits bits = {};        ///< Where the values of integers that do not fill their bytes are
  /// Values of one element. Above 1, the shapes below end with a dimension of this size that the file does
  /// not have: 2 for complex numbers, which are read as (real, imaginary).
  unsigned values_per_element = 1;
  bool plain_type =
      true;  ///< False for enumerations, bitfields, complex numbers and integers that do not fill their bytes
  std::vector<std::uint64_t> shape;                  ///< Current extent
  std::vector<std::uint64_t> max_shape;              ///< Maximum extent; ~0 in an unlimited dimension
  StorageLayout layout = StorageLayout::contiguous;  ///< How the values are stored
  std::vector<std::uint64_t> chunk_shape;            ///< Empty unless `layout` is chunked
  std::vector<FilterSpec> filters;                   ///< Empty unless `layout` is chunked
  std::string index_kind;  ///< Kind of the chunk index: "B-tree v1", "fixed array", ...; empty unless chunked
  /// Whether chunks that extend beyond the dataset are stored unfiltered
  /// (H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS).
  bool unfiltered_edge_chunks = false;
  /// Whether rows are decoded from encoded images, each of which states its size itself.
  bool encoded_images = false;
  /// Fill value of one element, `values_per_element` values in host byte order; zeros if the file does not
  /// define it.
  std::vector<std::byte> fill_value;
  std::uint64_t stored_bytes = 0;  ///< Bytes of the values in the file, after the filters

  /// Returns the elements along dimension 0, which are the samples; 1 for a scalar.
  std::uint64_t rows() const noexcept { return shape.empty() ? 1 : shape.front(); }
  /// Returns the number of dimensions in the file.
  std::size_t file_rank() const noexcept { return shape.size() - (values_per_element > 1 ? 1 : 0); }
  /// Returns the values of one row.
  std::uint64_t row_elements() const noexcept;
  /// Returns the decoded bytes of one row.
  std::uint64_t row_bytes() const noexcept { return row_elements() * size_of(dtype); }
  /// Returns the decoded bytes of the whole dataset.
  std::uint64_t total_bytes() const noexcept { return rows() * row_bytes(); }
  /// Returns whether stored values, once decoded, are the host's; `to_host_values` converts others.
  bool stores_host_values() const noexcept { return !byte_swapped && bits.count == 0; }
  /// Returns shape and type for messages: "20000×3×218×178 u8".
  std::string shape_text() const;
  /// Returns file and path, with which messages begin: "train.h5:/images".
  std::string place() const;
};

/// Returns a path or another name for messages, without its middle if it is longer than 120 bytes:
/// "/a/b…/y/z".
std::string short_path(std::string_view path);

/// Returns "3×218×178", or "scalar" for an empty shape. Leaves out the middle if the text is longer than 120
/// bytes: "2×3×4×…×5 (32 dimensions)".
std::string format_shape(const std::vector<std::uint64_t>& shape);

}  // namespace h5feed
