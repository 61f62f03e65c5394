// SPDX-License-Identifier: Apache-2.0
// A process that appends to an HDF5 file in SWMR mode.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "store/format/dataset_info.hpp"

namespace h5feed::test {

/// How the writer stores its rows: /x of (N,6,5) bytes, and /y of (N) 64-bit integers in chunks of 50.
struct SwmrFile {
  std::uint64_t chunk_rows = 8;
  std::uint64_t chunk_width = 5;         ///< Of the last dimension
  std::vector<FilterSpec> filters = {};  ///< Of both
  bool unlimited_width = false;          ///< With two unlimited dimensions, the index is a B-tree
};

/// A child process with `path` open in SWMR mode. Start it before the process has other threads. The
/// destructor ends it.
class SwmrWriter {
 public:
  static constexpr std::size_t kRowBytes = 30;
  static constexpr std::uint64_t kMostRows = 3000;  ///< With which `run` pauses

  /// Creates the file and waits until it is in SWMR mode, without rows.
  explicit SwmrWriter(const std::filesystem::path& path, const SwmrFile& file = {});
  SwmrWriter(const SwmrWriter&) = delete;
  SwmrWriter& operator=(const SwmrWriter&) = delete;
  ~SwmrWriter();

  /// Appends rows to both datasets, flushes each, and waits for that.
  void append(std::uint64_t rows) { command('a', rows); }
  /// Appends rows to /x only, flushes it, and waits for that.
  void append_to_x(std::uint64_t rows) { command('x', rows); }
  /// Extends /x and flushes it, without writing values.
  void extend_x(std::uint64_t rows) { command('e', rows); }
  /// Appends three rows at a time from now on, until `stop`, `close` or `kill`.
  void run();
  void stop() { command('s', 0); }
  /// Closes the file and ends.
  void close();
  /// Ends the process wherever it is.
  void kill();

  /// Returns the values of row `row` of /x.
  static std::vector<std::byte> x(std::uint64_t row);
  /// Returns the value of row `row` of /y.
  static std::int64_t y(std::uint64_t row) { return static_cast<std::int64_t>(row) * 3 + 1; }

 private:
  void command(char what, std::uint64_t rows);
  void end(bool killed);

  pid_t pid_ = -1;
  int commands_ = -1;
  int answers_ = -1;
};

}  // namespace h5feed::test
