// SPDX-License-Identifier: Apache-2.0
#include "tools/storage/isolated.hpp"

#include <utility>

#include "store/isolation/reader_process.hpp"

namespace h5feed::cli {

std::shared_ptr<H5File> open_isolated(const std::filesystem::path& path) {
  static const auto process = std::make_shared<ReaderProcess>(IsolationLimits{});
  return H5File::open(path, path, process);
}

DatasetOptions isolated(DatasetOptions options) {
  options.isolation = Isolation::process;
  return options;
}

}  // namespace h5feed::cli
