// SPDX-License-Identifier: Apache-2.0
#include "tools/repack/value_files.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <utility>
#include <vector>

#include "h5feed/error.hpp"
#include "store/hdf5/external_files.hpp"
#include "store/hdf5/virtual_sources.hpp"
#include "store/read/external_source.hpp"
#include "tools/storage/isolated.hpp"

namespace h5feed::cli {
namespace {

namespace fs = std::filesystem;

// Returns the names that a name of a source stands for: "%b" is a number that counts up while there are such
// files, "%%" a percent sign.
std::vector<fs::path> source_files(const fs::path& main_file, const std::string& name) {
  std::vector<fs::path> files;
  for (std::uint64_t number = 0;; ++number) {
    std::string written;
    bool counts = false;
    for (std::size_t i = 0; i < name.size(); ++i) {
      const char next = name[i] == '%' && i + 1 < name.size() ? name[i + 1] : '\0';
      if (next == 'b') {
        written += std::to_string(number);
        counts = true;
      } else {
        written += name[i];
      }
      if (next == 'b' || next == '%') ++i;
    }
    fs::path found = find_named_file(main_file, written, "HDF5_VDS_PREFIX");
    if (found.empty()) return files;
    files.push_back(std::move(found));
    if (!counts) return files;
  }
}

}  // namespace

ValueFiles::ValueFiles(const std::shared_ptr<H5File>& file) : input_(file->path().string()) {
  add_files_of(*file);
  for (const ExternalLink& link : file->list_external_links())
    linked_.insert(find_named_file(file->path(), link.other_file, "HDF5_EXT_PREFIX"));
}

void ValueFiles::add_files_of(H5File& file) {
  for (const DatasetEntry& entry : file.list_datasets()) {
    if (entry.problem.empty()) add_sources(file, entry.path);
  }
}

void ValueFiles::add_sources(const H5File& file, const std::string& path) {
  // As any dataset is described to the process that is asked: bytes, of which one is the fill value.
  DatasetInfo dataset;
  dataset.file = file.path().string();
  dataset.path = path;
  dataset.fill_value = {std::byte{}};
  for (const ExternalPart& part : external_parts(file, dataset)) {
    add(external_path(file, part.name));
  }
  std::vector<StoredMapping> mappings;
  try {
    mappings = read_mappings(file, dataset);
  } catch (const IsolationError&) {
    throw;
  } catch (const FileError&) {
    return;  // It is not virtual
  }
  for (const StoredMapping& mapping : mappings) {
    if (mapping.file == ".") continue;
    for (const fs::path& source : source_files(file.path(), mapping.file)) {
      if (!add(source)) continue;
      try {
        add_files_of(*open_isolated(source));
      } catch (const IsolationError&) {
        throw;
      } catch (const FileError&) {
        // What reads values from it says what is wrong with it.
      }
    }
  }
}

bool ValueFiles::add(const fs::path& path) {
  const auto identity = find_file_identity(path);
  return identity && files_.emplace(fs::absolute(path).lexically_normal(), *identity).second;
}

void ValueFiles::check_output(const fs::path& out) const {
  const auto is_out = [&](const fs::path& path) {
    std::error_code error;
    return fs::equivalent(path, out, error);
  };
  for (const auto& [path, identity] : files_) {
    if (!is_out(path)) continue;
    throw OptionError(
        fmt::format("{} holds values of {}; choose another name for the output", out.string(), input_));
  }
  if (std::ranges::any_of(linked_, is_out)) {
    throw OptionError(fmt::format(
        "{} has objects that links of {} lead to; choose another name for the output", out.string(), input_));
  }
}

void ValueFiles::check_unchanged() const {
  for (const auto& [path, identity] : files_) {
    if (find_file_identity(path) == identity) continue;
    throw FileError(
        fmt::format("{}: it holds values of {} and changed while these were copied; repack again once "
                    "nothing writes to it",
                    path.string(), input_));
  }
}

std::string ValueFiles::state() const {
  std::vector<std::string> states;
  for (const auto& [path, identity] : files_) {
    states.push_back(fmt::format("{} {} {} {}", path.filename().string(), identity.bytes, identity.modified_s,
                                 identity.modified_ns));
  }
  std::ranges::sort(states);
  return fmt::format("|{}", fmt::join(states, "|"));
}

}  // namespace h5feed::cli
