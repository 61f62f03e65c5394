// SPDX-License-Identifier: Apache-2.0
// What `isolation = process` costs: the start of the process and the hand-over of a description.
//   isolation_cost FILE DATASET [RUNS]     default 30 runs
// Prints JSON in milliseconds: "none" and "first" open FILE, describe DATASET and list its chunks, in this
// process and in one that is started for it; "next" does so in one that runs. All three in turn.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "store/hdf5/h5_file.hpp"
#include "store/index/chunk_index.hpp"
#include "store/isolation/reader_process.hpp"

namespace {

using Process = std::shared_ptr<h5feed::ReaderProcess>;

double milliseconds_of(const std::string& path, const std::string& dataset, const Process& process) {
  const auto begin = std::chrono::steady_clock::now();
  const auto file = h5feed::H5File::open(path, path, process);
  const h5feed::DatasetInfo info = file->describe(dataset);
  if (info.layout == h5feed::StorageLayout::chunked) h5feed::build_chunk_index(*file, info);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

std::string summary(std::vector<double> times) {
  std::ranges::sort(times);
  return fmt::format(R"({{"median": {:.2f}, "least": {:.2f}, "most": {:.2f}}})", times[times.size() / 2],
                     times.front(), times.back());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "isolation_cost FILE DATASET [RUNS]\n");
    return 2;
  }
  const int runs = argc > 3 ? std::max(1, std::atoi(argv[3])) : 30;
  try {
    std::vector<double> none, first, next;
    for (int run = 0; run < runs; ++run) {
      none.push_back(milliseconds_of(argv[1], argv[2], nullptr));
      const auto process = std::make_shared<h5feed::ReaderProcess>(h5feed::IsolationLimits{});
      first.push_back(milliseconds_of(argv[1], argv[2], process));
      next.push_back(milliseconds_of(argv[1], argv[2], process));
    }
    fmt::print("{{\"runs\": {}, \"none\": {}, \"first\": {}, \"next\": {}}}\n", runs, summary(none),
               summary(first), summary(next));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "isolation_cost: {}\n", error.what());
    return 1;
  }
}
