// SPDX-License-Identifier: Apache-2.0
#include "store/hdf5/external_files.hpp"

#include <array>
#include <cstdint>
#include <vector>

#include "h5feed/error.hpp"
#include "store/hdf5/h5_file_handles.hpp"
#include "store/hdf5/object_tree.hpp"

namespace h5feed {

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

}  // namespace h5feed
