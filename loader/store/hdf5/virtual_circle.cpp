// SPDX-License-Identifier: Apache-2.0
#include "store/hdf5/virtual_circle.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "store/hdf5/virtual_sources.hpp"

namespace h5feed {
namespace {

using Followed = std::set<std::pair<std::string, std::string>>;

// Leaves out what was followed before: a few datasets may name each other along very many paths.
void follow(const H5File& file, const DatasetInfo& info, unsigned depth, Followed& followed) {
  if (depth > kMaxVirtualDepth) throw TooDeepVirtual(info);
  const VirtualMapping mapping = read_virtual_mapping(file, info);
  for (const VirtualSource& source : mapping.sources) {
    try {
      const auto opened = H5File::open(source.file);
      const DatasetInfo own = opened->describe(source.path);
      if (own.layout != StorageLayout::virtual_dataset) continue;
      const std::pair key(source.file.string(), source.path);
      if (followed.contains(key)) continue;
      follow(*opened, own, depth + 1, followed);
      followed.insert(key);
    } catch (const TooDeepVirtual& error) {
      rethrow_too_deep(error, info, depth);
    }
  }
}

}  // namespace

TooDeepVirtual::TooDeepVirtual(const DatasetInfo& deepest)
    : FileError(deepest.place()), places{deepest.place()} {}

void rethrow_too_deep(TooDeepVirtual error, const DatasetInfo& info, unsigned depth) {
  const std::string place = info.place();
  const bool again = error.places.front() == place;
  error.places.push_back(place);
  if (again) {
    std::ranges::reverse(error.places);
    throw VirtualCircle(fmt::format(
        "{}: the virtual dataset is its own source: {}; write it again with sources that hold data", place,
        fmt::join(error.places, " takes from ")));
  }
  if (depth > 1) throw error;
  throw VirtualCircle(fmt::format(
      "{}: virtual datasets refer to each other more than {} deep; write it again from the last of them",
      place, kMaxVirtualDepth));
}

void refuse_circle(const H5File& file, const DatasetInfo& info) {
  Followed followed;
  follow(file, info, 1, followed);
}

}  // namespace h5feed
