// SPDX-License-Identifier: Apache-2.0
// Merges the results of GPU runs and prints them. Needs no GPU.
//   gpu_results merge RESULT.json COMMIT DEVICE DRIVER CUDA COMMAND REASON [TESTS.json|-] [ROWS.json ...]
//   gpu_results missing RESULT.json     names of docs/results.md without a value
//   gpu_results table RESULT.json       all rows as text
//   gpu_results markdown [RESULT.json]  the table of docs/results.md
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpu/results.hpp"

namespace {

using h5feed::bench::OrderedJson;

// Returns null if there is no such file.
OrderedJson read(const std::string& path) {
  std::ifstream in(path);
  return in ? OrderedJson::parse(in) : OrderedJson();
}

void merge(const std::vector<std::string>& words) {
  const std::string& path = words.at(1);
  const OrderedJson facts = {{"commit", words.at(2)},
                             {"device", words.at(3)},
                             {"driver", words.at(4)},
                             {"cuda", words.at(5)},
                             {"command", words.at(6)}};
  OrderedJson rows = OrderedJson::array();
  for (std::size_t i = 9; i < words.size(); ++i) {
    const OrderedJson more = read(words[i]);
    if (!more.is_object()) continue;  // the program ended before its first row
    for (const OrderedJson& row : more["rows"]) rows.push_back(row);
  }
  const OrderedJson tests = words.size() > 8 && words[8] != "-" ? read(words[8]) : OrderedJson();
  const OrderedJson result = h5feed::bench::merged(read(path), facts, tests, rows, words.at(7));
  const std::string beside = path + ".tmp";
  {
    std::ofstream out(beside, std::ios::trunc);
    out << result.dump(1) << '\n';
    if (!out.flush()) throw std::runtime_error(beside + ": cannot be written; choose another place");
  }
  std::filesystem::rename(beside, path);
}

int run(const std::vector<std::string>& words) {
  const std::string what = words.empty() ? "" : words[0];
  if (what == "merge" && words.size() >= 8) {
    merge(words);
  } else if (what == "missing" && words.size() == 2) {
    fmt::print("{}\n", h5feed::bench::missing_names(read(words[1])));
  } else if (what == "table" && words.size() == 2) {
    fmt::print("{}", h5feed::bench::table_text(read(words[1])));
  } else if (what == "markdown" && words.size() <= 2) {
    fmt::print("{}", h5feed::bench::markdown(words.size() == 2 ? read(words[1]) : OrderedJson()));
  } else {
    fmt::print(stderr,
               "gpu_results: merge, missing, table or markdown; see the first lines of results_main.cpp\n");
    return 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpu_results: {}\n", error.what());
    return 1;
  }
}
