// SPDX-License-Identifier: Apache-2.0
// Files that `monitor` writes while it watches.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "tools/program/output.hpp"

namespace h5feed::cli {

/// File for lines of JSON. A full disk must not end the watched command: the first failure is reported and
/// remembered. For one thread.
class LineFile {
 public:
  /// Creates the file, or empties it; an empty path writes nothing. Throws FileError.
  explicit LineFile(const std::string& path);
  /// Writes one line and flushes it.
  void write(const Json& json);
  /// Returns whether a line could not be written.
  bool failed() const noexcept { return failed_; }

 private:
  std::string path_;
  std::ofstream out_;
  bool failed_ = false;
};

/// Checks, before anything is started, that a file can be written which appears whole in the end. It may not
/// be a device or a pipe. Throws FileError, and OptionError if it is an HDF5 file.
void check_file_place(const std::filesystem::path& path);
/// Checks, before anything is started, that an output file can be written while the command runs. It may be a
/// device, or a named pipe that has a reader. Throws FileError, and OptionError if it is an HDF5 file.
void check_place(const std::filesystem::path& path);

}  // namespace h5feed::cli
