// SPDX-License-Identifier: Apache-2.0
// Merges the results of GPU runs and prints them. Needs no GPU.
//   gpu_results merge RESULT.json REASON WHAT ...  REASON: why rows that nobody has tried have no value;
//   WHAT:
//                   "fact KEY VALUE", "test NAME OUTCOME", "lacks ROW WHY" or "rows ROWS.json"
//   gpu_results missing RESULT.json NAMES ...  those of NAMES without a value; the never tried ones first
//   gpu_results rows plain|torch        rows that gpu_benchmark or gpu_benchmark_torch measures
//   gpu_results test RESULT.json NAME   the outcome of a test; nothing if there is none
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
  OrderedJson facts = OrderedJson::object(), tests = OrderedJson::object(), rows = OrderedJson::array();
  for (std::size_t i = 3; i < words.size(); i += 3) {
    const std::string& kind = words[i];
    const std::string& name = words.at(i + 1);
    if (kind == "rows") {
      const OrderedJson more = read(name);
      // No object: the program ended before its first row.
      if (more.is_object()) rows.insert(rows.end(), more["rows"].begin(), more["rows"].end());
      --i;
    } else if (kind == "fact") {
      facts[name] = words.at(i + 2);
    } else if (kind == "test") {
      tests[name] = words.at(i + 2);
    } else if (kind == "lacks") {
      rows.push_back(h5feed::bench::row_without_value(name, words.at(i + 2)));
    } else {
      throw std::runtime_error("\"" + kind + "\" is none of fact, test, lacks and rows");
    }
  }
  const OrderedJson result = h5feed::bench::merged(read(path), facts, tests, rows, words.at(2));
  const std::string temporary = path + ".tmp";
  {
    std::ofstream out(temporary, std::ios::trunc);
    out << result.dump(1) << '\n';
    if (!out.flush()) throw std::runtime_error(temporary + ": cannot be written; choose another place");
  }
  std::filesystem::rename(temporary, path);
}

int run(const std::vector<std::string>& words) {
  const std::string what = words.empty() ? "" : words[0];
  if (what == "merge" && words.size() >= 3) {
    merge(words);
  } else if (what == "missing" && words.size() >= 2) {
    for (const std::string& name : h5feed::bench::missing(read(words[1]), {words.begin() + 2, words.end()})) {
      fmt::print("{}\n", name);
    }
  } else if (what == "rows" && words.size() == 2) {
    for (const std::string& name : h5feed::bench::rows_of(words[1] == "torch")) fmt::print("{}\n", name);
  } else if (what == "test" && words.size() == 3) {
    const OrderedJson result = read(words[1]);
    if (result.is_object() && result["tests"].contains(words[2])) {
      fmt::print("{}\n", result["tests"][words[2]].get<std::string>());
    }
  } else if (what == "table" && words.size() == 2) {
    fmt::print("{}", h5feed::bench::table_text(read(words[1])));
  } else if (what == "markdown" && words.size() <= 2) {
    fmt::print("{}", h5feed::bench::markdown(words.size() == 2 ? read(words[1]) : OrderedJson()));
  } else {
    fmt::print(stderr,
               "gpu_results: merge, missing, rows, test, table or markdown; see the first lines of "
               "results_main.cpp\n");
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
