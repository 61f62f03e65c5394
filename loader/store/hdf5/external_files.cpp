// SPDX-License-Identifier: Apache-2.0
#include "store/hdf5/external_files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "h5feed/error.hpp"
#include "store/hdf5/h5_file_handles.hpp"
#include "store/hdf5/object_tree.hpp"
#include "store/hdf5/virtual_sources.hpp"

namespace h5feed {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::vector<ExternalPart> external_parts(const H5File& file, const DatasetInfo& info) {
  if (const IsolatedFile* const remote = H5FileAccess::remote(file))
    return remote->ask<std::vector<ExternalPart>>(Request::external_parts, info);
  const Hdf5Session session;
  try {
    const H5::DSetCreatPropList plist = H5FileAccess::handle(file).openDataSet(info.path).getCreatePlist();
    std::vector<ExternalPart> parts;
    const int count = plist.getExternalCount();
    for (int i = 0; i < count; ++i) {
      std::array<char, 4096> name = {};
      off_t offset = 0;
      hsize_t bytes = 0;
      plist.getExternal(static_cast<unsigned>(i), name.size() - 1, name.data(), offset, bytes);
      parts.push_back({name.data(), static_cast<std::uint64_t>(offset), bytes});
    }
    return parts;
  } catch (const H5::Exception&) {
    throw FileError(Hdf5Calls(session, info.file).problem(info.path, kCannotOpen));
  }
}

void check_external_files(const H5File& file, const DatasetInfo& info) {
  const char* const prefix = std::getenv("HDF5_EXTFILE_PREFIX");
  const fs::path folder =
      prefix == nullptr ? fs::path() : fs::path(with_origin(prefix, folder_of(file.path())));
  std::uint64_t left = info.total_bytes();
  for (const ExternalPart& part : external_parts(file, info)) {
    const fs::path place = folder / part.name;
    if (::access(place.c_str(), R_OK) != 0) {
      throw FileError(fmt::format(
          "{}:{}: its values are stored in another file, {}, which cannot be opened: {}; restore it, or set "
          "HDF5_EXTFILE_PREFIX to the folder that has it",
          info.file, short_path(info.path), place.string(), std::generic_category().message(errno)));
    }
    std::error_code ignored;
    // libhdf5 would wait for the writer of a pipe, and read whatever a device has.
    if (!fs::is_regular_file(place, ignored)) {
      throw FileError(fmt::format(
          "{}:{}: its values are stored in another file, {}, which is not a regular file; restore "
          "it, or set HDF5_EXTFILE_PREFIX to the folder that has it",
          info.file, short_path(info.path), place.string()));
    }
    // libhdf5 would return zeros for missing bytes. The last part may be unlimited.
    const std::uint64_t wanted = std::min(left, part.bytes);
    left -= wanted;
    const std::uint64_t there = fs::file_size(place, ignored);
    if (ignored || (there >= part.offset && there - part.offset >= wanted)) continue;
    throw FileError(fmt::format(
        "{}:{}: its values are stored in another file, {}, which has {} bytes where {} from byte {} on are "
        "needed; restore it",
        info.file, short_path(info.path), place.string(), there, wanted, part.offset));
  }
}

}  // namespace h5feed
