// SPDX-License-Identifier: Apache-2.0
// Message of a loader about slow storage.
#pragma once

#include <string>

#include "base/files/storage_kind.hpp"
#include "h5feed/stats.hpp"

namespace h5feed {

/// Returns e.g. "train.h5 is on nfs, a network file system; reads gave 38 MB/s per thread; stage_dir copies
/// the files to a local disk". Leaves out the rate if nothing was read. Throws std::bad_alloc.
std::string storage_line(const RemoteFile& remote, const LoaderStats& stats);

}  // namespace h5feed
