// SPDX-License-Identifier: Apache-2.0
// Copies everything in an HDF5 file except the values of its large datasets: groups, links, committed types,
// attributes and references.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "store/format/dataset_info.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/write/h5_writer.hpp"

namespace h5feed {

/// Consecutive rows of a virtual dataset that are stored in one source file.
struct VirtualPart {
  std::string file;        ///< A relative name is looked up next to the virtual dataset's file
  std::string dataset;     ///< Path of the dataset in `file`
  std::uint64_t rows = 0;  ///< Number of rows
};

/// How a dataset is stored in the copy. If chunks or extents differ from the source's, the dataset is
/// recreated; type, fill value, attributes and dimension scales are kept.
struct CopiedStorage {
  std::vector<std::uint64_t> chunk_shape;  ///< Empty: contiguous
  std::vector<FilterSpec> filters;
  bool unfiltered_edge_chunks = false;  ///< Chunks at the edge are stored without filters
  bool fixed_max_shape = false;         ///< The copy cannot grow
  std::vector<VirtualPart> parts = {};  ///< If not empty: a virtual dataset of these parts, not filled
  bool rows_move = false;               ///< Row numbers change, so region references to it would be wrong
};

/// How to copy the datasets of a file, keyed by any path that leads to them.
struct CopyPlan {
  /// Datasets that `copy_objects` creates and the caller fills through H5Writer::write_chunk and write_rows.
  std::map<std::string, CopiedStorage> filled_by_caller;
  bool latest = false;     ///< The writer's `latest`: newer formats may be used
  bool elsewhere = false;  ///< The copy is in another directory
};

/// Returns a number for each path, equal for paths to the same object. Blocks on the HDF5 mutex. Throws
/// FileError if a path leads nowhere.
std::vector<std::uint64_t> object_numbers(const H5File& file, const std::vector<std::string>& paths);

/// Throws DatasetError, naming the object, if something in `source` cannot be copied faithfully: links and
/// references of unknown kinds, references to objects outside the file's tree, region references into
/// datasets whose rows move, virtual datasets in a file that HDF5 1.8 must be able to read, values that need
/// a filter which libhdf5 lacks. Returns the links into
/// other files that lead elsewhere from the copy, as it is in another directory. Writes nothing. Holds the
/// HDF5 mutex. Throws FileError if libhdf5 fails, or if a dataset stores fewer bytes than its shape needs.
std::vector<std::string> check_copyable(const H5File& source, const CopyPlan& plan);

/// Does what `check_copyable` does, and reads the values of variable length and references that a copy reads,
/// all for up to 20 s; what is left then is not examined. With isolation, the process that reads metadata
/// does so: a file over which libhdf5 crashes or runs out of memory is refused before this process copies it.
/// Writes nothing. Throws what `check_copyable` throws, and IsolationError.
void rehearse_copy(const H5File& source, const CopyPlan& plan);

/// Creates all objects of `source` in the empty file of `writer`: groups in their creation order, links of
/// all kinds (several names of one object stay one object), committed types, datasets with their values
/// unless the caller fills them, attributes, and references, which then point to the copies. Calls `proceed`
/// between objects, and between parts of those that are copied by values; it may throw to abort the copy.
/// Holds the HDF5 mutex for the whole copy. Throws FileError, and DatasetError for what `check_copyable`
/// rejects.
void copy_objects(const H5File& source, H5Writer& writer, const CopyPlan& plan,
                  const std::function<void()>& proceed);

/// Calls `update`, object by object, with bytes that are equal for a faithful copy: names and targets of
/// links, attributes, and fill values and stored values of datasets that the caller does not fill. A
/// reference is represented by the path of its object. Values that libhdf5 has no filter for are left out.
/// Holds the HDF5 mutex. Throws FileError.
void visit_values(const H5File& file, const CopyPlan& plan,
                  const std::function<void(const std::string& object, std::span<const std::byte>)>& update);

}  // namespace h5feed
