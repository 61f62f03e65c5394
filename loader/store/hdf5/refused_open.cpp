// SPDX-License-Identifier: Apache-2.0
#include "store/hdf5/refused_open.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <system_error>
#include <vector>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"
#include "store/format/superblock.hpp"
#include "store/hdf5/dataset_list.hpp"
#include "store/hdf5/dataset_names.hpp"
#include "store/hdf5/h5_metadata.hpp"

namespace h5feed {
namespace {

std::string hint(const std::vector<DatasetEntry>& entries, const std::string& wanted,
                 const PathOption& option) {
  const std::string closest = closest_dataset(entries, wanted, option == PathOption{});
  return closest.empty() ? std::string() : fmt::format(". Try {}", option.spelled(closest));
}

// "a link to parts.h5:/images" for a name, or the first part of it, that leads nowhere; empty where it is
// none.
std::string dangling_link(const H5::H5File& handle, const std::string& path) {
  const WithinFile within;
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (H5Lexists(handle.getId(), part.c_str(), within.links()) <= 0) return {};
    if (!within.has_object(handle, part)) {
      const std::string target = link_target(handle.getId(), part);
      return target.empty() ? std::string() : fmt::format("{} is a link to {}", part, target);
    }
    if (end == std::string::npos) return {};
  }
}

// What `path` has behind the link that leads out of the file, which `within` meets there. Soft links on the
// way are followed, a few of them.
std::string behind_link(const H5::H5File& handle, const WithinFile& within, const std::string& path,
                        unsigned soft_links = 8) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    const std::string rest = end == std::string::npos ? std::string() : path.substr(end);
    if (within.has_object(handle, part)) {
      if (rest.empty()) return {};
      continue;
    }
    const std::string target = link_target(handle.getId(), part);
    const bool leads_out = target == within.other_file() + ':' + within.other_path();
    if (leads_out || target.empty() || soft_links == 0) return rest;
    const std::string group = target.starts_with('/') ? "" : part.substr(0, part.rfind('/') + 1);
    return behind_link(handle, within, group + target + rest, soft_links - 1);
  }
}

// Reading there takes the other file: its datasets' addresses are not of this one.
void refuse_other_file(const H5::H5File& handle, const WithinFile& within, const std::filesystem::path& file,
                       const std::string& name, const PathOption& option) {
  if (within.other_file().empty()) return;
  const std::string rest = behind_link(handle, within, absolute_path(name));
  const std::filesystem::path other = within.other_file();
  // As libhdf5 looks for it, but for prefixes that a program sets.
  for (const std::filesystem::path& place :
       {other, file.parent_path() / other, file.parent_path() / other.filename()}) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(place, ignored)) continue;
    throw DatasetError(fmt::format(
        "{}: \"{}\" lies in another file, behind a link to {}:{}; open {} itself, {}", file.string(), name,
        other.string(), within.other_path(), place.string(), option.spelled(within.other_path_to(rest))));
  }
}

}  // namespace

std::string absolute_path(const std::string& name) {
  return "/" + name.substr(std::min(name.find_first_not_of('/'), name.size()));
}

std::string why_not_opened(const std::string& name, const ByteSource& bytes,
                           const std::string& library_reason) {
  const std::optional<Superblock> superblock = read_superblock(bytes);
  if (superblock && superblock->driver == "family") {
    return fmt::format(
        "{}: the first part of a file in several parts (HDF5's family driver), which h5feed does not read; "
        "join "
        "them once with h5repart",
        name);
  }
  if (superblock && !superblock->driver.empty()) {
    return fmt::format(
        "{}: one of several parts of a file (HDF5's multi or split driver), which h5feed does not read; "
        "write "
        "it once as a single file with the program that wrote the parts",
        name);
  }
  if (superblock && bytes.size() < superblock->end_of_file) {
    return fmt::format(
        "{}: truncated: the file has {} bytes, its header says {}; copy it again from its source", name,
        format_count(bytes.size()), format_count(superblock->end_of_file));
  }
  if (superblock && superblock->open_for_swmr) {
    return fmt::format(
        "{0} is open in a SWMR writer, beside which h5feed does not read; open it once the writer has closed "
        "it; "
        "if none runs: h5clear -s {0}",
        name);
  }
  if (superblock && superblock->open_for_write) {
    return fmt::format("{0} was not closed by its writer; if none runs: h5clear -s {0}", name);
  }
  return fmt::format("{}: {}: {}", name, kCannotOpen, library_reason);
}

void throw_not_opened(const H5::H5File& handle, const WithinFile& within, const Hdf5Calls& calls,
                      const std::string& name, const PathOption& option) {
  const std::string path = absolute_path(name);
  // Before further calls, which may fail as well.
  const std::string problem = calls.problem(path, kCannotOpen);
  refuse_other_file(handle, within, calls.file(), name, option);
  const std::vector<DatasetEntry> entries = read_entries(handle, calls);
  for (const DatasetEntry& entry : entries) {
    if (entry.path == path) throw FileError(problem);
    // Whether the dataset is there cannot be told.
    if (entry.hides_others && (entry.path == "/" || path.starts_with(entry.path + '/')))
      throw FileError(entry.problem);
  }
  if (const std::string link = dangling_link(handle, path); !link.empty())
    throw DatasetError(fmt::format("{}: {}, which is not there; restore it", calls.file(), link));
  throw DatasetError(fmt::format("{}: no dataset \"{}\"; it has {}{}", calls.file(), name, list_text(entries),
                                 hint(entries, name, option)));
}

void throw_is_group(const H5::H5File& handle, const Hdf5Calls& calls, const std::string& name,
                    const PathOption& option) {
  std::vector<DatasetEntry> entries = read_entries(handle, calls);
  std::string prefix = absolute_path(name);
  if (!prefix.ends_with('/')) prefix += '/';
  std::erase_if(entries, [&prefix](const DatasetEntry& entry) { return !entry.path.starts_with(prefix); });
  throw DatasetError(fmt::format("{}: \"{}\" is a group; it has {}{}", calls.file(), name, list_text(entries),
                                 hint(entries, "", option)));
}

}  // namespace h5feed
