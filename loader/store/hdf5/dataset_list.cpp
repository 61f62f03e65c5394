// SPDX-License-Identifier: Apache-2.0
#include "store/hdf5/dataset_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <unordered_set>
#include <utility>

#include "base/byte_units.hpp"
#include "store/hdf5/h5_metadata.hpp"
#include "store/hdf5/hdf5_types.hpp"
#include "store/hdf5/hdf5_versions.hpp"

namespace h5feed {
namespace {

DatasetEntry unreadable(const std::string& path, std::string problem) {
  return {.path = path, .type_text = "unreadable", .problem = std::move(problem)};
}

DatasetEntry entry_of(const H5::DataSet& dataset, const std::string& path, const Hdf5Calls& calls) {
  try {
    const Extent extent = read_extent(dataset);
    const StoredType type = classify_type(dataset);
    const bool numeric = type.dtype.has_value() && !extent.null;
    return {.path = path,
            .shape = extent.shape,
            .type_text = extent.null ? "without elements" : type.text,
            .numeric = numeric,
            .plain = numeric && type.plain};
  } catch (const H5::Exception&) {
    return unreadable(path, calls.problem(path, kCannotOpen));
  }
}

DatasetEntry damaged(const std::string& path, std::string problem) {
  DatasetEntry entry = unreadable(path, std::move(problem));
  entry.hides_others = true;  // It may be a group
  return entry;
}

std::string problem_of_header(const Hdf5Calls& calls, ExaminedHeaders& headers, haddr_t address,
                              const std::string& path) {
  const std::string damage = headers.damage_at(address);
  return damage.empty() ? "" : fmt::format("{}:{}: {}; {}", calls.file(), short_path(path), damage, kRestore);
}

// Entry of an object that libhdf5 could not open; its type may still be known.
DatasetEntry unopened(hid_t location, const std::string& name, const std::string& path,
                      const Hdf5Calls& calls) {
  DatasetEntry entry = unreadable(path, calls.problem(path, kCannotOpen));
  ObjectInfo info = {};
  const bool known = kObjectInfoByName(location, name.c_str(), &info, H5O_INFO_BASIC, H5P_DEFAULT) >= 0;
  entry.hides_others = !known || (info.type != H5O_TYPE_DATASET && info.type != H5O_TYPE_NAMED_DATATYPE);
  return entry;
}

// Names of the links of a group.
struct LinkNames {
  std::vector<std::string> hard, external;
};

// Runs within libhdf5's C code, which no exception may cross.
herr_t keep_link(hid_t, const char* name, const LinkInfo* link, void* links) noexcept {
  try {
    auto& names = *static_cast<LinkNames*>(links);
    if (link->type == H5L_TYPE_HARD) names.hard.emplace_back(name);
    if (link->type == H5L_TYPE_EXTERNAL) names.external.emplace_back(name);
    return 0;
  } catch (const std::exception&) {
    return -1;
  }
}

// H5Ovisit is not used: it ends at the first damaged object, and loops forever over groups that contain each
// other if their reference counts do not reveal it.
class ListingWalk {
 public:
  ListingWalk(const Hdf5Calls& calls, ExaminedHeaders& headers) : calls_(calls), headers_(headers) {}

  void run(hid_t file) H5FEED_REQUIRES(hdf5_mutex) {
    const LargeMetadataCache cache(file);
    const ScopedId root(H5Gopen2(file, "/", H5P_DEFAULT));
    ObjectKey key = 0;
    if (root.get() < 0 || H5Rcreate(&key, file, "/", H5R_OBJECT, -1) < 0) {
      add_group_problem("/", kCannotOpen);
    } else {
      seen_.insert(key);
      visit_group(root.get(), "", 1);
    }
  }

  std::vector<DatasetEntry> entries() && { return std::move(entries_); }
  std::vector<ExternalLink> external_links() && { return std::move(external_links_); }

 private:
  void add_group_problem(const std::string& path, std::string_view what) {
    entries_.push_back(unreadable(path, calls_.problem(path, what)));
    entries_.back().hides_others = true;
  }

  void visit_group(hid_t group, const std::string& path, unsigned depth) H5FEED_REQUIRES(hdf5_mutex) {
    LinkNames names;
    const bool complete = visit_links(group, keep_link, &names) >= 0;
    std::ranges::sort(names.hard);
    std::ranges::sort(names.external);
    if (!complete) add_group_problem(path.empty() ? "/" : path, "libhdf5 cannot list it");
    for (const std::string& name : names.external) {
      if (std::optional<ExternalLink> link = external_link(group, name)) {
        link->path = fmt::format("{}/{}", path, name);
        external_links_.push_back(std::move(*link));
      }
    }
    for (const std::string& name : names.hard) visit(group, name, fmt::format("{}/{}", path, name), depth);
  }

  void visit(hid_t group, const std::string& name, const std::string& path, unsigned depth)
      H5FEED_REQUIRES(hdf5_mutex) {
    ObjectKey key = 0;
    const bool found = H5Rcreate(&key, group, name.c_str(), H5R_OBJECT, -1) >= 0;
    if (found && !seen_.insert(key).second) return;
    if (found) {
      if (std::string problem = problem_of_header(calls_, headers_, key, path); !problem.empty()) {
        entries_.push_back(damaged(path, std::move(problem)));
        return;
      }
    }
    const ScopedId object(found ? H5Oopen(group, name.c_str(), H5P_DEFAULT) : H5I_INVALID_HID);
    if (object.get() < 0) {
      entries_.push_back(unopened(group, name, path, calls_));
      return;
    }
    const H5I_type_t kind = H5Iget_type(object.get());
    if (kind == H5I_DATASET) entries_.push_back(entry_of(H5::DataSet(object.get()), path, calls_));
    if (kind != H5I_GROUP) return;
    if (depth < kMaxGroupDepth) {
      visit_group(object.get(), path, depth + 1);
      return;
    }
    entries_.push_back(
        unreadable(path, fmt::format("{}:{}: groups are nested more than {} deep; move what is in them up",
                                     calls_.file(), short_path(path), kMaxGroupDepth)));
    entries_.back().hides_others = true;
  }

  const Hdf5Calls& calls_;
  ExaminedHeaders& headers_;
  std::unordered_set<ObjectKey> seen_;
  std::vector<DatasetEntry> entries_;
  std::vector<ExternalLink> external_links_;
};

}  // namespace

std::string header_problem(const H5::H5File& file, const WithinFile& within, const Hdf5Calls& calls,
                           ExaminedHeaders& headers, std::string path) {
  constexpr int kMostLinks = 16;  // of libhdf5, unless it is told otherwise (H5Pset_nlinks)
  if (path == "/") return {};
  std::size_t end = 0;
  for (int links = 0; end != std::string::npos;) {
    end = path.find('/', end + 1);
    const std::string part = path.substr(0, end);
    LinkInfo link = {};
    if (kLinkInfo(file.getId(), part.c_str(), &link, within.links()) < 0) return {};
    if (link.type == H5L_TYPE_HARD) {
      const haddr_t address = address_of(file.getId(), link);
      if (std::string problem = problem_of_header(calls, headers, address, part); !problem.empty())
        return problem;
    } else {
      if (link.type != H5L_TYPE_SOFT || ++links > kMostLinks) return {};
      const std::string rest = end == std::string::npos ? std::string() : path.substr(end);
      path = behind_soft_link(part, link_target(file.getId(), part)) + rest;
      end = 0;
    }
  }
  return {};
}

std::vector<DatasetEntry> read_entries(const H5::H5File& file, const Hdf5Calls& calls,
                                       ExaminedHeaders& headers) {
  ListingWalk walk(calls, headers);
  walk.run(file.getId());
  return std::move(walk).entries();
}

std::vector<ExternalLink> read_external_links(const H5::H5File& file, const Hdf5Calls& calls,
                                              ExaminedHeaders& headers) {
  ListingWalk walk(calls, headers);
  walk.run(file.getId());
  return std::move(walk).external_links();
}

DatasetEntry read_entry(const H5::H5File& file, const Hdf5Calls& calls, ExaminedHeaders& headers,
                        const std::string& path) {
  if (std::string problem = header_problem(file, WithinFile(), calls, headers, path); !problem.empty())
    return damaged(path, std::move(problem));
  const ScopedId dataset(H5Dopen2(file.getId(), path.c_str(), H5P_DEFAULT));
  if (dataset.get() < 0) return unopened(file.getId(), path, path, calls);
  return entry_of(H5::DataSet(dataset.get()), path, calls);
}

}  // namespace h5feed
