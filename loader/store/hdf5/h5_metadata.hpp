// SPDX-License-Identifier: Apache-2.0
// Metadata of datasets, read through libhdf5. Internal to store/; callers hold an Hdf5Session.
#pragma once

#include <H5Cpp.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "store/format/dataset_info.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/hdf5/hdf5_session.hpp"

namespace h5feed {

/// Extent of a dataset.
struct Extent {
  std::vector<std::uint64_t> shape;      ///< Current extent; empty for a scalar
  std::vector<std::uint64_t> max_shape;  ///< ~0 if unlimited
  bool null = false;                     ///< Null dataspace: no elements
};

/// Returns the extent of a dataset. Throws H5::Exception.
Extent read_extent(const H5::DataSet& dataset);

/// Throws FileError unless chunks have at least one dimension and as many as the data: libhdf5 would
/// otherwise read beyond its buffers.
void check_chunk_rank(const std::string& file_name, const std::string& path, std::size_t chunk_rank,
                      std::size_t rank);

/// Returns where the link `path`, relative to `location`, leads, without its own path; empty if it is not an
/// external link, or cannot be read.
std::optional<ExternalLink> external_link(hid_t location, const std::string& path);

/// Returns the target of a soft or external link: "/images", "parts.h5:/images". Empty for other links, and
/// if libhdf5 cannot read it.
std::string link_target(hid_t file, const std::string& path);

/// Returns the path that the soft link at `path` stands for; `target` is relative to the link's own group.
std::string behind_soft_link(const std::string& path, const std::string& target);

/// Returns all metadata of a numeric dataset. Throws DatasetError if it is not numeric or its size overflows,
/// H5::Exception if libhdf5 fails.
DatasetInfo read_info(const std::string& file_name, const std::string& path, const H5::DataSet& dataset);

/// Returns all metadata of a dataset (N) of numbers of variable length, whose references have
/// `reference_bytes` bytes; empty for any other dataset. Throws DatasetError if its size overflows,
/// H5::Exception if libhdf5 fails.
std::optional<VlenInfo> read_vlen_info(const std::string& file_name, const std::string& path,
                                       const H5::DataSet& dataset, std::size_t reference_bytes);

/// Returns the filters of a chunked dataset in the order in which they are applied on writing; empty for
/// other layouts. Throws H5::Exception.
std::vector<FilterSpec> read_filters(const H5::DSetCreatPropList& plist);

/// Returns a copy of the creation properties of `file`. H5::H5File::getCreatePlist of HDF5 1.10 leaks 2 KiB
/// with each call: it copies a list and never closes the original. Throws H5::Exception.
H5::FileCreatPropList file_creation_properties(const H5::H5File& file) H5FEED_REQUIRES(hdf5_mutex);

/// Reads the stored bytes of the chunk whose first element is at `offset` into `raw`, and which of its
/// filters were left out. Returns whether libhdf5 could.
bool read_raw_chunk(const H5::DataSet& dataset, const std::vector<hsize_t>& offset, std::span<std::byte> raw,
                    std::uint32_t& filter_mask);

}  // namespace h5feed
