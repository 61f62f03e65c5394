// SPDX-License-Identifier: Apache-2.0
// Datasets as libhdf5 describes them. Internal to this folder; callers hold an Hdf5Session.
#pragma once

#include <H5Cpp.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/format/dataset_info.hpp"
#include "store/hdf5/h5_file.hpp"

namespace h5feed {

struct Extent {
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> max_shape;  ///< ~0 where unlimited
  bool null = false;                     ///< a dataspace without any element, not even one
};

/// Throws H5::Exception.
Extent read_extent(const H5::DataSet& dataset);

/// Throws FileError unless chunks have as many dimensions as the data they are of, and at least one: libhdf5
/// reads beyond its buffers otherwise.
void check_chunk_rank(const std::string& file_name, const std::string& path, std::size_t chunk_rank,
                      std::size_t rank);

/// Where a soft or external link leads: "/images", "parts.h5:/images". Empty for other links, and where
/// libhdf5 cannot tell.
std::string link_target(hid_t file, const std::string& path);

/// All metadata of a numeric dataset. Throws DatasetError where it is not numeric or its size
/// overflows, H5::Exception where libhdf5 fails.
DatasetInfo read_info(const std::string& file_name, const std::string& path, const H5::DataSet& dataset);

/// The same of a dataset (N) of numbers of variable length, with references of `reference_bytes` bytes. Empty
/// where it is anything else. Throws as `read_info`.
std::optional<VlenInfo> read_vlen_info(const std::string& file_name, const std::string& path,
                                       const H5::DataSet& dataset, std::size_t reference_bytes);

/// The filters of a chunked dataset, in the order in which they are applied on writing; none for other
/// layouts. Throws H5::Exception.
std::vector<FilterSpec> read_filters(const H5::DSetCreatPropList& plist);

}  // namespace h5feed
