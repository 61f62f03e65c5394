// SPDX-License-Identifier: Apache-2.0
// The matrix of stored datasets that h5feed must read as libhdf5 does: chunk index × filter pipeline ×
// the ways chunks come to be stored, with the element types spread over them.
#pragma once

#include <hdf5.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "h5feed/dtype.hpp"
#include "store/format/dataset_info.hpp"

namespace h5feed::test {

/// A chunk index of the HDF5 format and the file format in which libhdf5 chooses it.
struct IndexKind {
  const char* name;
  H5D_chunk_index_t type;
  bool latest;
  std::size_t unlimited = 0;  ///< The unlimited dimension of an extensible array
};

/// All six, and the extensible array of a dataset that grows in another dimension than its first.
std::span<const IndexKind> index_kinds();

/// An element type in both byte orders.
struct ElementType {
  const char* name;
  DType dtype;
  hid_t (*file_type)(H5T_order_t order);
};

std::span<const ElementType> element_types();

/// A filter pipeline by name.
struct Pipeline {
  const char* name;
  std::vector<FilterSpec> (*filters)(unsigned element_bytes, unsigned chunk_bytes);
};

std::span<const Pipeline> pipelines();

/// How the chunks come to be stored.
enum class Storing {
  aligned,
  ragged,
  whole_rows,
  incompressible,
  many_chunks,
  unfiltered_edges,
  missing_chunks,
  never_written,
  masked_chunks,
  user_block_512,
  user_block_4096,
  big_endian,
  shrunk,
  shrunk_unfiltered_edges,
  extended,
  chunk_beyond_extent,
};

/// "unfiltered_edges".
const char* name_of(Storing storing);

/// One file of the matrix, with one dataset "x".
struct StorageCase {
  IndexKind kind;
  Pipeline pipeline;
  Storing storing;
  ElementType type;
};

/// All files for one index and one pipeline; none where the format has no such combination.
std::vector<StorageCase> storage_cases(const IndexKind& kind, const Pipeline& pipeline);

/// Returns whether libhdf5 itself can undo the filters, and apply them.
bool libhdf5_decodes(const std::vector<FilterSpec>& filters);
bool libhdf5_encodes(const std::vector<FilterSpec>& filters);

/// Returns whether libhdf5 1.10 itself does not give back what was written: szip chunks that a shrinking
/// extent cuts are spoiled where it encodes them again.
bool libhdf5_loses_values(const StorageCase& stored);

/// Writes the file; returns what the dataset then holds, in host byte order. Chunks go through
/// libhdf5's filters where it has them, else, and where single filters are skipped, through h5feed's.
/// Throws std::runtime_error where libhdf5 refuses or chooses another index.
std::vector<std::byte> write_case(const StorageCase& stored, const std::filesystem::path& path);

}  // namespace h5feed::test
