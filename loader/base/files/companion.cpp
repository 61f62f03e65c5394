// SPDX-License-Identifier: Apache-2.0
#include "base/files/companion.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

namespace h5feed {
namespace {

namespace fs = std::filesystem;

// Returns the file name of the shared library that contains this code; null if the program itself contains
// it.
const char* own_library() {
  static const char anchor = 0;
  Dl_info info{};
  link_map* map = nullptr;
  const bool found = ::dladdr1(&anchor, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) != 0;
  // The dynamic linker has no name for the program.
  return found && map != nullptr && map->l_name != nullptr && *map->l_name != '\0' ? map->l_name : nullptr;
}

// Returns the path of the program or shared library that contains this code.
fs::path own_object() {
  const char* const library = own_library();
  std::error_code error;
  return fs::canonical(library != nullptr ? library : "/proc/self/exe", error);
}

// Returns the folders that the dynamic linker searches for this code: run path, LD_LIBRARY_PATH, the
// system's. dlopen would search the run path of its caller, which is not this code if a sanitizer intercepts
// it.
std::vector<fs::path> linker_folders() {
  void* const self = ::dlopen(own_library(), RTLD_LAZY | RTLD_NOLOAD);
  if (self == nullptr) return {};
  std::vector<fs::path> folders;
  Dl_serinfo size{};
  if (::dlinfo(self, RTLD_DI_SERINFOSIZE, &size) == 0) {
    // The system's allocator aligns for any type.
    const std::unique_ptr<std::byte[]> memory(new std::byte[size.dls_size]);
    auto* const found = reinterpret_cast<Dl_serinfo*>(memory.get());
    *found = size;
    if (::dlinfo(self, RTLD_DI_SERINFO, found) == 0) {
      const Dl_serpath* const paths = &found->dls_serpath[0];
      for (unsigned i = 0; i < found->dls_cnt; ++i) folders.emplace_back(paths[i].dls_name);
    }
  }
  ::dlclose(self);
  return folders;
}

}  // namespace

std::vector<std::string> companion_places(const char* name, const char* variable) {
  if (const char* const named = std::getenv(variable); named != nullptr && *named != '\0') return {named};
  std::vector<std::string> places;
  const auto add = [&](const fs::path& folder) {
    std::string place = (folder / name).string();
    if (std::ranges::find(places, place) == places.end()) places.push_back(std::move(place));
  };
  if (const fs::path object = own_object(); !object.empty()) {
    const fs::path folder = object.parent_path();
    add(folder);
    add(folder / "h5feed");
    add((folder / ".." / H5FEED_LIBDIR / "h5feed").lexically_normal());
  }
  for (const fs::path& folder : linker_folders()) add(folder);
  return places;
}

}  // namespace h5feed
