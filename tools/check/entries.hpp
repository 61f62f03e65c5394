// SPDX-License-Identifier: Apache-2.0
// What a check reads: the datasets of a file, and those that its links into other files lead to.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "store/hdf5/h5_file.hpp"
#include "store/read/file_pool.hpp"
#include "tools/check/report.hpp"

namespace h5feed::cli {

/// The file that is checked, and those that its links lead into. Keeps one of the latter open. For one
/// thread.
class CheckedFiles {
 public:
  explicit CheckedFiles(std::shared_ptr<H5File> first);

  /// Returns the file that was named.
  const std::shared_ptr<H5File>& first() const noexcept { return first_; }
  /// Returns the name of a file in `CheckEntry::file`: the same however links spell it. Throws
  /// std::filesystem::filesystem_error.
  const std::filesystem::path& name_of(const H5File& file);
  /// Opens a file by the path that `CheckEntry::file` has. Throws as `H5File::open`.
  std::shared_ptr<H5File> open(const std::filesystem::path& path);
  /// Returns the object that `path` of `file` leads to. Throws as `FilePool::follow_links`.
  PlacedObject follow(std::shared_ptr<H5File> file, const std::string& path);

 private:
  const std::shared_ptr<H5File> first_;
  std::shared_ptr<H5File> last_;
  std::map<std::string, std::filesystem::path> names_;  // By canonical path
  FilePool pool_;
};

/// Lists the datasets of the file and those that its links into other files lead to, each once; with `wanted`
/// only the datasets of these names. Describes them without opening them, since the index of a dataset with
/// many chunks takes memory; only virtual datasets are opened and closed again, whose sources tell their
/// chunks. What cannot be described, and links that lead nowhere, are entries with a problem. Throws
/// FileError and DatasetError for a name that cannot be found, and Interrupted.
std::vector<CheckEntry> list_entries(CheckedFiles& files, const std::vector<std::string>& wanted);

}  // namespace h5feed::cli
