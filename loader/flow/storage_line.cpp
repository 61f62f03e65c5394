// SPDX-License-Identifier: Apache-2.0
#include "flow/storage_line.hpp"

#include <fmt/format.h>

#include "flow/measure/ratio.hpp"

namespace h5feed {

std::string storage_line(const RemoteFile& remote, const LoaderStats& stats) {
  std::string rate;
  if (stats.bytes_read > 0 && stats.read_ns > 0) {
    const double mb_per_s = ratio(stats.bytes_read, stats.read_ns) * 1000;
    rate = fmt::format("; reads gave {:.{}f} MB/s per thread", mb_per_s, mb_per_s < 10 ? 1 : 0);
  }
  return fmt::format("{} is on {}, a network file system{}; stage_dir copies the files to a local disk",
                     remote.file, remote.storage, rate);
}

}  // namespace h5feed
