#include "store/external_files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "h5feed/error.hpp"
#include "store/h5_file_state.hpp"
#include "store/object_tree.hpp"
#include "store/virtual_sources.hpp"

namespace h5feed {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> external_names(const H5File& file, const DatasetInfo& info) {
  const Hdf5Session session;
  try {
    const H5::DSetCreatPropList plist = H5FileAccess::handle(file).openDataSet(info.path).getCreatePlist();
    std::vector<std::string> names;
    const int count = plist.getExternalCount();
    for (int i = 0; i < count; ++i) {
      std::array<char, 4096> name = {};
      off_t offset = 0;
      hsize_t bytes = 0;
      plist.getExternal(static_cast<unsigned>(i), name.size() - 1, name.data(), offset, bytes);
      names.emplace_back(name.data());
    }
    return names;
  } catch (const H5::Exception&) {
    throw FileError(Hdf5Calls(session, info.file).problem(info.path, kCannotOpen));
  }
}

}  // namespace

void check_external_files(const H5File& file, const DatasetInfo& info) {
  const char* const prefix = std::getenv("HDF5_EXTFILE_PREFIX");
  const fs::path folder =
      prefix == nullptr ? fs::path() : fs::path(with_origin(prefix, folder_of(file.path())));
  for (const std::string& name : external_names(file, info)) {
    const fs::path place = folder / name;
    if (::access(place.c_str(), R_OK) == 0) continue;
    throw FileError(fmt::format(
        "{}:{}: its values lie in another file, {}, which cannot be opened: {}; restore it, or set "
        "HDF5_EXTFILE_PREFIX to the folder that has it",
        info.file, info.path, place.string(), std::generic_category().message(errno)));
  }
}

}  // namespace h5feed
