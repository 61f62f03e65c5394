// SPDX-License-Identifier: Apache-2.0
#include "store/hdf5/path_pattern.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <exception>

#include "base/files/natural_order.hpp"
#include "h5feed/error.hpp"
#include "store/hdf5/dataset_list.hpp"
#include "store/hdf5/dataset_names.hpp"
#include "store/hdf5/h5_file_handles.hpp"
#include "store/hdf5/h5_metadata.hpp"
#include "store/hdf5/hdf5_versions.hpp"
#include "store/hdf5/refused_open.hpp"
#include "store/hdf5/within_file.hpp"

namespace h5feed {
namespace {

constexpr std::size_t kListedMembers = 8;

// Runs within libhdf5's C code, which no exception may cross.
herr_t keep_name(hid_t, const char* name, const LinkInfo*, void* names) noexcept {
  try {
    static_cast<std::vector<std::string>*>(names)->emplace_back(name);
    return 0;
  } catch (const std::exception&) {
    return -1;
  }
}

bool is_group(const H5::H5File& file, const std::string& path) {
  if (path.empty()) return true;
  const WithinFile within;
  return within.has_object(file, path) && within.type_of(file, path) == H5I_GROUP;
}

std::vector<std::string> members_of(const H5::H5File& file, const std::string& group) {
  std::vector<std::string> names;
  const H5::Group opened = file.openGroup(group.empty() ? "/" : group);
  if (visit_links(opened.getId(), keep_name, &names) < 0) throw H5::GroupIException("H5Literate", "failed");
  std::ranges::sort(names, natural_less);
  return names;
}

bool has_member(const H5::H5File& file, const std::string& group, const std::vector<std::string>& rest) {
  const WithinFile within;
  std::string path = group;
  for (const std::string& component : rest) {
    path += '/' + component;
    if (H5Lexists(file.getId(), path.c_str(), within.links()) <= 0) return false;
  }
  return true;
}

[[noreturn]] void throw_without_member(const H5::H5File& handle, const std::string& file,
                                       const std::string& group, const std::string& member) {
  std::vector<std::string> names = members_of(handle, group);
  const std::size_t more = names.size() - std::min(names.size(), kListedMembers);
  names.resize(names.size() - more);
  throw DatasetError(
      fmt::format("{}: group {} has no \"{}\"; it has {}{}. Add it, or choose a pattern that "
                  "leaves the group out",
                  file, group, member, names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", ")),
                  more > 0 ? fmt::format(" and {} more", more) : ""));
}

[[noreturn]] void throw_no_group(const H5::H5File& handle, const std::string& file,
                                 const std::string& pattern, const std::string& path) {
  const std::string target = link_target(handle.getId(), path);
  throw DatasetError(fmt::format(
      "{}: \"{}\" matches {}, which is {}; choose a pattern that leaves it out", file, pattern, path,
      target.empty() ? "no group" : fmt::format("a link to {}, no group of this file", target)));
}

// Returns whether `path` leads into another file, where only who opens it looks.
bool leads_out(const H5::H5File& file, const std::string& path) {
  const WithinFile within;
  return !within.has_object(file, path) && !within.other_file().empty();
}

}  // namespace

std::vector<std::string_view> components_of(std::string_view path) {
  std::vector<std::string_view> components;
  for (std::size_t begin = path.find_first_not_of('/'); begin < path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    components.push_back(path.substr(begin, end - begin));
    begin = path.find_first_not_of('/', end);
  }
  return components;
}

std::vector<std::string_view> wildcard_names(std::string_view path, std::string_view pattern) {
  std::vector<std::string_view> names;
  const auto parts = components_of(path);
  const auto pattern_parts = components_of(pattern);
  for (std::size_t i = 0; i < std::min(parts.size(), pattern_parts.size()); ++i) {
    if (has_wildcard(pattern_parts[i])) names.push_back(parts[i]);
  }
  return names;
}

std::vector<std::string> expand_path(const H5File& file, const std::string& pattern,
                                     const PathOption& option) {
  if (!has_wildcard(pattern)) return {pattern};
  if (const IsolatedFile* const remote = H5FileAccess::remote(file)) {
    auto paths = remote->ask<std::vector<std::string>>(Request::expand_path, pattern, option.as_typed());
    if (paths.empty()) remote->refuse("no paths for a pattern");
    return paths;
  }
  const std::vector<std::string_view> parts = components_of(pattern);
  const std::vector<std::string> components(parts.begin(), parts.end());
  // Behind the last wildcard.
  const auto rest_begin = std::find_if(components.rbegin(), components.rend(), [](const std::string& name) {
                            return has_wildcard(name);
                          }).base();
  const std::vector<std::string> rest(rest_begin, components.end());
  const Hdf5Session session;
  const Hdf5Calls calls(session, file.path().string());
  const H5::H5File handle = H5FileAccess::handle(file);
  refuse_damaged_header(handle, WithinFile(), calls, H5FileAccess::headers(file), absolute_path(pattern));
  // A name that has such characters in it is no pattern.
  if (has_member(handle, "", components)) return {pattern};
  try {
    std::vector<std::string> groups = {""};
    for (auto component = components.begin(); component != rest_begin; ++component) {
      std::vector<std::string> next;
      for (const std::string& group : groups) {
        if (!group.empty())
          refuse_damaged_header(handle, WithinFile(), calls, H5FileAccess::headers(file), group);
        if (!group.empty() && leads_out(handle, group)) {
          throw DatasetError(
              fmt::format("{}: \"{}\" has a wildcard behind {}, a link into another file; only "
                          "names can follow it, or open the files that such links lead to",
                          file.path().string(), pattern, group));
        }
        if (!is_group(handle, group)) continue;
        if (!has_wildcard(*component)) {
          next.push_back(group + '/' + *component);
          continue;
        }
        for (const std::string& name : members_of(handle, group)) {
          if (::fnmatch(component->c_str(), name.c_str(), 0) == 0) next.push_back(group + '/' + name);
        }
      }
      groups = std::move(next);
    }
    if (groups.empty()) {
      throw DatasetError(fmt::format("{}: nothing matches {}; it has {}", file.path().string(),
                                     option.spelled(pattern),
                                     list_text(read_entries(handle, calls, H5FileAccess::headers(file)))));
    }
    // What is behind a link into another file is looked for by who opens it.
    for (std::string& group : groups) {
      refuse_damaged_header(handle, WithinFile(), calls, H5FileAccess::headers(file), group);
      const bool elsewhere = !rest.empty() && leads_out(handle, group);
      if (!rest.empty() && !elsewhere && !is_group(handle, group))
        throw_no_group(handle, file.path().string(), pattern, group);
      if (!elsewhere && !has_member(handle, group, rest))
        throw_without_member(handle, file.path().string(), group, fmt::format("{}", fmt::join(rest, "/")));
      for (const std::string& component : rest) group += '/' + component;
    }
    return groups;
  } catch (const H5::Exception&) {
    throw FileError(fmt::format("{}: libhdf5 cannot list what matches \"{}\": {}", file.path().string(),
                                pattern, session.error_and_cure()));
  }
}

}  // namespace h5feed
