// SPDX-License-Identifier: Apache-2.0
#include "store/hdf5/refused_open.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/byte_units.hpp"
#include "base/terminal_text.hpp"
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

// Returns whether the soft link at `path` leads back to itself, over other links or at once.
bool in_circle(const H5::H5File& handle, const std::string& path) {
  constexpr unsigned kMostLinks = 64;
  std::string at = path;
  for (unsigned i = 0; i < kMostLinks; ++i) {
    const std::string target = link_target(handle.getId(), at);
    if (target.empty()) return false;
    at = behind_soft_link(at, target);
    if (at == path) return true;
  }
  return false;
}

// "/a is a link to parts.h5:/images, which is not there; restore it" for a name, or the first part of it,
// that leads nowhere; empty where it is none.
std::string dangling_link(const H5::H5File& handle, const std::string& path) {
  const WithinFile within;
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (H5Lexists(handle.getId(), part.c_str(), within.links()) <= 0) return {};
    if (!within.has_object(handle, part)) {
      const std::string target = link_target(handle.getId(), part);
      if (target.empty()) return {};
      const std::string link =
          fmt::format("{} is a link to {}, which ", short_path(part), short_path(target));
      return link +
             (in_circle(handle, part) ? "leads back to it; replace the link" : "is not there; restore it");
    }
    if (end == std::string::npos) return {};
  }
}

// Returns the rest of `path` behind the link that leads out of the file, where `within` ends. Follows at most
// `soft_links` soft links on the way, by default as many as libhdf5 (H5Pset_nlinks).
std::string behind_link(const H5::H5File& handle, const WithinFile& within, const std::string& path,
                        unsigned soft_links = 16) {
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
  // As libhdf5 looks for it, except for prefixes that a program sets.
  for (const std::filesystem::path& place :
       {other, file.parent_path() / other, file.parent_path() / other.filename()}) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(place, ignored)) continue;
    throw DatasetError(fmt::format(
        "{}: \"{}\" is in another file, behind a link to {}:{}; open {} itself, {}", file.string(), name,
        other.string(), within.other_path(), place.string(), option.spelled(within.other_path_to(rest))));
  }
}

// The driver that wrote the file in several parts; empty for other files, and where there is none.
std::string_view driver_of(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return {};
  try {
    const std::optional<Superblock> superblock = read_superblock(*open_file_source(file));
    return superblock ? superblock->driver : std::string_view();
  } catch (const FileError&) {
    return {};
  }
}

// The first part of the family that `file` is a part of: its number, by which libhdf5 makes the names, is 0.
std::optional<std::filesystem::path> first_of_family(const std::filesystem::path& file) {
  constexpr std::string_view kDigits = "0123456789";
  const std::string name = file.filename().string();
  for (std::size_t end = name.find_last_of(kDigits); end != std::string::npos;) {
    const std::size_t before = name.find_last_not_of(kDigits, end);
    const std::size_t begin = before == std::string::npos ? 0 : before + 1;
    for (const std::size_t width : {end + 1 - begin, std::size_t{1}}) {
      const std::filesystem::path first =
          file.parent_path() / (name.substr(0, begin) + std::string(width, '0') + name.substr(end + 1));
      if (first != file && driver_of(first) == "family") return first;
    }
    end = begin == 0 ? std::string::npos : name.find_last_of(kDigits, begin - 1);
  }
  return std::nullopt;
}

// The part of a split or multi file that has its metadata: its name has the second of two endings where
// `file` has the first. The writer of a split file chooses them, as a rule those of HDF5's manual.
std::optional<std::filesystem::path> metadata_part(const std::filesystem::path& file) {
  constexpr std::pair<std::string_view, std::string_view> kEndings[] = {
      {"-r", "-m"}, {"-r", "-s"}, {"-b", "-s"}, {"-g", "-s"}, {"-l", "-s"}, {"-o", "-s"}, {".raw", ".meta"}};
  const std::string name = file.filename().string();
  for (const auto& [own, other] : kEndings) {
    const std::size_t at = name.rfind(own);
    if (at == std::string::npos) continue;
    const std::filesystem::path sibling =
        file.parent_path() / (name.substr(0, at) + std::string(other) + name.substr(at + own.size()));
    if (driver_of(sibling) == "multi") return sibling;
  }
  return std::nullopt;
}

}  // namespace

std::string why_not_hdf5(const std::filesystem::path& name) {
  if (const auto first = first_of_family(name)) {
    return fmt::format(
        "{}: a later part of a file in several parts (HDF5's family driver) that begins with {}, which "
        "h5feed does not read; join them once with h5repart",
        name.string(), first->string());
  }
  if (const auto metadata = metadata_part(name)) {
    return fmt::format(
        "{}: one of several parts of a file (HDF5's multi or split driver), with {}, which h5feed does not "
        "read; write it once as a single file with the program that wrote the parts",
        name.string(), metadata->string());
  }
  return fmt::format("{}: not an HDF5 file; check the path, and unpack it if it is compressed",
                     name.string());
}

std::string absolute_path(const std::string& name) {
  return "/" + name.substr(std::min(name.find_first_not_of('/'), name.size()));
}

std::string why_not_opened(const std::string& name, const ByteSource& bytes,
                           const std::string& library_reason) {
  const std::optional<Superblock> superblock = read_superblock(bytes);
  if (superblock && superblock->driver == "family") {
    return fmt::format(
        "{}: the first part of a file in several parts (HDF5's family driver), which h5feed does not read; "
        "join them once with h5repart",
        name);
  }
  if (superblock && !superblock->driver.empty()) {
    return fmt::format(
        "{}: one of several parts of a file (HDF5's multi or split driver), which h5feed does not read; "
        "write it once as a single file with the program that wrote the parts",
        name);
  }
  if (superblock && bytes.size() < superblock->end_of_file) {
    return fmt::format(
        "{}: truncated: the file has {} bytes, its header says {}; copy it again from its source", name,
        format_count(bytes.size()), format_count(superblock->end_of_file));
  }
  if (superblock && superblock->open_for_write && !superblock->open_for_swmr) {
    return fmt::format("{0} was not closed by its writer; if none runs: h5clear -s --increment=0 {0}", name);
  }
  return fmt::format("{}: {}: {}", name, kCannotOpen, library_reason);
}

void refuse_damaged_header(const H5::H5File& handle, const WithinFile& within, const Hdf5Calls& calls,
                           ExaminedHeaders& headers, const std::string& path) {
  const std::string problem = header_problem(handle, within, calls, headers, path);
  if (!problem.empty()) throw FileError(problem);
}

PathEnd find_end(const H5::H5File& handle, const Hdf5Calls& calls, ExaminedHeaders& headers,
                 const std::string& path) {
  const WithinFile within;
  refuse_damaged_header(handle, within, calls, headers, path);
  if (path == "/" || within.has_object(handle, path)) return {.found = true};
  if (within.other_file().empty()) return {};
  std::string rest = behind_link(handle, within, path);
  return {.other_file = within.other_file(), .other_path = within.other_path_to(rest)};
}

void throw_not_opened(const H5::H5File& handle, const WithinFile& within, const Hdf5Calls& calls,
                      ExaminedHeaders& headers, const std::string& name, const PathOption& option) {
  const std::string path = absolute_path(name);
  // Before further calls, which may fail as well.
  const std::string problem = calls.problem(path, kCannotOpen);
  refuse_other_file(handle, within, calls.file(), name, option);
  const std::vector<DatasetEntry> entries = read_entries(handle, calls, headers);
  for (const DatasetEntry& entry : entries) {
    if (entry.path == path) throw FileError(problem);
    // The hidden part of the file may hold the dataset.
    if (entry.hides_others && (entry.path == "/" || path.starts_with(entry.path + '/')))
      throw FileError(entry.problem);
  }
  if (const std::string link = dangling_link(handle, path); !link.empty())
    throw DatasetError(fmt::format("{}: {}", calls.file(), link));
  throw DatasetError(fmt::format("{}: no dataset \"{}\"; it has {}{}", calls.file(), abridged(name),
                                 list_text(entries), hint(entries, name, option)));
}

void throw_is_group(const H5::H5File& handle, const Hdf5Calls& calls, ExaminedHeaders& headers,
                    const std::string& name, const PathOption& option) {
  std::vector<DatasetEntry> entries = read_entries(handle, calls, headers);
  std::string prefix = absolute_path(name);
  if (!prefix.ends_with('/')) prefix += '/';
  std::erase_if(entries, [&prefix](const DatasetEntry& entry) { return !entry.path.starts_with(prefix); });
  throw DatasetError(fmt::format("{}: \"{}\" is a group; it has {}{}", calls.file(), name, list_text(entries),
                                 hint(entries, "", option)));
}

}  // namespace h5feed
