// SPDX-License-Identifier: Apache-2.0
// Code shared by the C++ peers: arguments, row order, and output.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace h5feed::peers {

/// Arguments of a peer, as run.py passes them: FILE DATA ORDER THREADS BATCH SECONDS SEED.
struct PeerRun {
  std::string file;
  std::string data;
  std::string order;  ///< sequential, full, chunk:K
  std::size_t threads = 1;
  std::size_t batch_size = 256;
  double seconds = 1;
  std::uint64_t seed = 0;
};

/// Parses the command line. Throws std::invalid_argument.
inline PeerRun parse_run(int argc, char** argv) {
  if (argc != 8) throw std::invalid_argument("usage: FILE DATA ORDER THREADS BATCH SECONDS SEED");
  return {.file = argv[1],
          .data = argv[2],
          .order = argv[3],
          .threads = std::stoul(argv[4]),
          .batch_size = std::stoul(argv[5]),
          .seconds = std::stod(argv[6]),
          .seed = std::stoull(argv[7])};
}

/// Returns every row once, in the order that `run` asks for. For chunk:K, chunks are permuted, and rows
/// within each window of K chunks.
inline std::vector<std::size_t> row_order(const PeerRun& run, std::size_t rows, std::size_t chunk_rows) {
  std::vector<std::size_t> order(rows);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(run.seed);
  if (run.order == "full") std::shuffle(order.begin(), order.end(), random);
  if (!run.order.starts_with("chunk:")) return order;

  const std::size_t window_chunks = std::stoul(run.order.substr(6));
  std::vector<std::size_t> starts;
  for (std::size_t start = 0; start < rows; start += chunk_rows) starts.push_back(start);
  std::shuffle(starts.begin(), starts.end(), random);
  order.clear();
  for (std::size_t first = 0; first < starts.size(); first += window_chunks) {
    const auto window = static_cast<std::ptrdiff_t>(order.size());
    for (std::size_t i = first; i < std::min(first + window_chunks, starts.size()); ++i) {
      for (std::size_t row = starts[i]; row < std::min(starts[i] + chunk_rows, rows); ++row)
        order.push_back(row);
    }
    std::shuffle(order.begin() + window, order.end(), random);
  }
  return order;
}

/// Stopwatch that starts at construction.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Prints the result as the line of JSON that run.py reads.
inline void print_result(std::size_t samples, double seconds) {
  std::printf("{\"samples\": %zu, \"seconds\": %.9f}\n", samples, seconds);
}

}  // namespace h5feed::peers
