// SPDX-License-Identifier: Apache-2.0
// Everything of an HDF5 file but the values of its large datasets: groups, links, committed types,
// attributes and references, made anew in another file.
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

/// Rows of a virtual dataset that another file holds; the parts of one follow each other.
struct VirtualPart {
  std::string file;  ///< relative names are looked up beside the file with the virtual dataset
  std::string dataset;
  std::uint64_t rows = 0;
};

/// How a dataset of the copy is stored. Chunks or extents that differ from the source's make it a
/// dataset anew: type, fill value, attributes and dimension scales stay.
struct CopiedStorage {
  std::vector<std::uint64_t> chunk_shape;  ///< empty: contiguous
  std::vector<FilterSpec> filters;
  bool unfiltered_edge_chunks = false;
  bool fixed_max_shape = false;         ///< the dataset cannot grow any more
  std::vector<VirtualPart> parts = {};  ///< not empty: a virtual dataset over them, which nobody fills
  bool rows_move = false;               ///< regions that refer to it would name other rows
};

/// What to do with the datasets of a file, by any path that leads to them.
struct CopyPlan {
  /// Created by `copy_objects`, filled by the caller through H5Writer::write_chunk and write_rows.
  std::map<std::string, CopiedStorage> filled_by_caller;
  bool latest = false;     ///< the writer's: newer formats may be used
  bool elsewhere = false;  ///< the copy lies in another directory
};

/// A number for each path, equal where two lead to the same object. Throws FileError where one leads
/// nowhere. Holds the HDF5 mutex.
std::vector<std::uint64_t> object_numbers(const H5File& file, const std::vector<std::string>& paths);

/// Throws DatasetError, naming the object, where something of `source` cannot be carried over faithfully:
/// links and references of unknown kinds, references to objects outside the file's tree, region references
/// into datasets whose rows move, virtual datasets in a file that HDF5 1.8 is to read, values that need a
/// filter which libhdf5 lacks. Writes nothing. Holds the HDF5 mutex.
void check_copyable(const H5File& source, const CopyPlan& plan);

/// Makes all objects of `source` in the empty file of `writer`: groups in their creation order, links of
/// all kinds (several names of one object stay one object), committed types, datasets with their values
/// unless the caller fills them, attributes, and references, which then point to the copies. `proceed` is
/// called between objects and may throw to end the copy. Holds the HDF5 mutex meanwhile. Throws FileError,
/// and as check_copyable.
void copy_objects(const H5File& source, H5Writer& writer, const CopyPlan& plan,
                  const std::function<void()>& proceed);

/// Calls `update` with bytes that are the same for a faithful copy, object by object: names and targets of
/// links, attributes, and values of datasets that the caller does not fill. References count as the path
/// of what they refer to. What libhdf5 has no filter for is left out. Holds the HDF5 mutex. Throws FileError.
void visit_values(const H5File& file, const CopyPlan& plan,
                  const std::function<void(const std::string& object, std::span<const std::byte>)>& update);

}  // namespace h5feed
