// SPDX-License-Identifier: Apache-2.0
#include "store/hdf5/object_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <utility>

#include "h5feed/error.hpp"
#include "store/format/dataset_info.hpp"
#include "store/hdf5/hdf5_versions.hpp"

namespace h5feed {
namespace {

// Callbacks run within libhdf5's C code, which no exception may cross.
herr_t keep_whole_link(hid_t, const char* name, const LinkInfo* info, void* links) noexcept {
  try {
    static_cast<std::vector<TreeLink>*>(links)->push_back(
        {.name = name,
         .type = info->type,
         .character_set = info->cset,
         .created = info->corder_valid ? info->corder : 0,
         .value = std::vector<char>(info->type == H5L_TYPE_HARD ? 0 : info->u.val_size)});
    return 0;
  } catch (const std::exception&) {
    return -1;
  }
}

// An attribute of an object.
struct CreatedName {
  std::string name;
  std::int64_t created = 0;  // As in TreeLink
};

herr_t keep_name(hid_t, const char* name, const H5A_info_t* info, void* names) noexcept {
  try {
    static_cast<std::vector<CreatedName>*>(names)->push_back(
        {.name = name, .created = info->corder_valid ? info->corder : 0});
    return 0;
  } catch (const std::exception&) {
    return -1;
  }
}

std::string child_path(const std::string& group, const std::string& name) {
  return group == "/" ? "/" + name : fmt::format("{}/{}", group, name);
}

// Puts links or attributes in the order of their creation if that is tracked, else of their names.
template <typename T>
void sort_as_created(std::vector<T>& entries, unsigned order) {
  std::ranges::sort(entries, {}, &T::name);
  if ((order & H5P_CRT_ORDER_TRACKED) != 0) std::ranges::stable_sort(entries, {}, &T::created);
}

std::vector<TreeLink> read_links(hid_t group, const Hdf5Calls& calls, const std::string& path) {
  const ScopedId plist = calls.id(H5Gget_create_plist(group), path, "its properties cannot be read");
  unsigned order = 0;
  calls.done(H5Pget_link_creation_order(plist.get(), &order), path, "its properties cannot be read");
  std::vector<TreeLink> links;
  calls.done(visit_links(group, keep_whole_link, &links), path, "its links cannot be listed");
  sort_as_created(links, order);
  for (TreeLink& link : links) {
    if (link.type == H5L_TYPE_HARD) continue;
    const std::string name = child_path(path, link.name);
    if (link.type != H5L_TYPE_SOFT && link.type != H5L_TYPE_EXTERNAL) {
      calls.refuse(name, fmt::format("a user-defined link (class {}) cannot be carried over; remove it first",
                                     static_cast<int>(link.type)));
    }
    calls.done(H5Lget_val(group, link.name.c_str(), link.value.data(), link.value.size(), H5P_DEFAULT), name,
               "the link cannot be read");
  }
  return links;
}

H5I_type_t kind_of(hid_t location, const std::string& name, const Hdf5Calls& calls, const std::string& path) {
  const ScopedId object = calls.id(H5Oopen(location, name.c_str(), H5P_DEFAULT), path, "cannot be opened");
  const H5I_type_t kind = H5Iget_type(object.get());
  if (kind != H5I_GROUP && kind != H5I_DATASET && kind != H5I_DATATYPE) {
    calls.refuse(path, "an object of an unknown kind cannot be carried over; remove it first");
  }
  return kind;
}

}  // namespace

void Hdf5Calls::fail(std::string_view object, std::string_view what) const {
  throw FileError(problem(object, what));
}

std::string Hdf5Calls::problem(std::string_view object, std::string_view what) const {
  return fmt::format("{}:{}: {}: {}", file_, short_path(object), what, session_.error_and_cure());
}

void Hdf5Calls::refuse(std::string_view object, std::string_view why) const {
  throw DatasetError(fmt::format("{}:{}: {}", file_, short_path(object), why));
}

ObjectKey key_of(hid_t location, const char* name, const Hdf5Calls& calls, std::string_view object) {
  ObjectKey key = 0;
  calls.done(H5Rcreate(&key, location, name, H5R_OBJECT, -1), object, "cannot be found");
  return key;
}

ObjectTree read_tree(hid_t file, const Hdf5Calls& calls) {
  ObjectTree tree;
  tree.objects.push_back({.path = "/", .key = key_of(file, "/", calls, "/")});
  tree.places.emplace(tree.objects.front().key, 0);
  // `objects` grows during the loop.
  for (std::size_t place = 0; place < tree.objects.size(); ++place) {
    if (tree.objects[place].kind != H5I_GROUP) continue;
    const std::string path = tree.objects[place].path;
    const ScopedId group = calls.id(H5Gopen2(file, path.c_str(), H5P_DEFAULT), path, "cannot be opened");
    std::vector<TreeLink> links = read_links(group.get(), calls, path);
    for (TreeLink& link : links) {
      if (link.type != H5L_TYPE_HARD) continue;
      const std::string name = child_path(path, link.name);
      link.target = key_of(group.get(), link.name.c_str(), calls, name);
      if (!tree.places.emplace(link.target, tree.objects.size()).second) continue;
      tree.objects.push_back(
          {.path = name, .kind = kind_of(group.get(), link.name, calls, name), .key = link.target});
    }
    tree.objects[place].links = std::move(links);
  }
  return tree;
}

std::vector<std::string> attribute_names(hid_t object, const Hdf5Calls& calls, const std::string& path) {
  const H5I_type_t kind = H5Iget_type(object);
  const ScopedId plist = calls.id(kind == H5I_GROUP     ? H5Gget_create_plist(object)
                                  : kind == H5I_DATASET ? H5Dget_create_plist(object)
                                                        : H5Tget_create_plist(object),
                                  path, "its properties cannot be read");
  unsigned order = 0;
  calls.done(H5Pget_attr_creation_order(plist.get(), &order), path, "its properties cannot be read");
  std::vector<CreatedName> attributes;
  calls.done(visit_attributes(object, keep_name, &attributes), path, "its attributes cannot be listed");
  sort_as_created(attributes, order);
  std::vector<std::string> names;
  names.reserve(attributes.size());
  for (CreatedName& attribute : attributes) names.push_back(std::move(attribute.name));
  return names;
}

}  // namespace h5feed
