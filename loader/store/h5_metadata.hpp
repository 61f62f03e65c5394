// Datasets as libhdf5 describes them. Internal to this folder; callers hold an Hdf5Session.
#pragma once

#include <H5Cpp.h>

#include <optional>
#include <string>
#include <vector>

#include "store/dataset_info.hpp"
#include "store/h5_file.hpp"

namespace h5feed {

/// Every dataset reachable by hard links, in name order, each once. `complete` becomes false where
/// libhdf5 could not visit all of the file.
std::vector<DatasetEntry> read_entries(const H5::H5File& file, bool& complete);

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
