// SPDX-License-Identifier: Apache-2.0
// The other files that a file has values in.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "store/format/byte_source.hpp"
#include "store/hdf5/h5_file.hpp"

namespace h5feed::cli {

/// The files that hold values of a file's datasets: external storage, the sources of virtual datasets, and
/// theirs in turn. What its links lead to is read by nobody, as links stay links, but must not be replaced
/// either.
class ValueFiles {
 public:
  /// Finds them. Asks for each dataset of `file`, and blocks. Files that are missing are left out; what reads
  /// values from them says so.
  explicit ValueFiles(const std::shared_ptr<H5File>& file);

  /// Throws OptionError if `out` is one of them, or a file that a link of the input leads to: writing it
  /// would destroy values that the input shows.
  void check_output(const std::filesystem::path& out) const;

  /// Throws FileError that names one that was written to, replaced or removed since it was found.
  void check_unchanged() const;

  /// Returns a text that differs if one of them has another name or has changed. It is the same on all
  /// machines that mount the files, wherever they do.
  std::string state() const;

 private:
  void add_files_of(H5File& file);
  void add_sources(const H5File& file, const std::string& path);
  // Returns whether the file is there and was not known.
  bool add(const std::filesystem::path& path);

  std::string input_;
  std::map<std::filesystem::path, FileIdentity> files_;
  std::set<std::filesystem::path> linked_;
};

}  // namespace h5feed::cli
