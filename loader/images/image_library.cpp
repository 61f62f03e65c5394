// SPDX-License-Identifier: Apache-2.0
#include "images/image_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "h5feed/error.hpp"

namespace h5feed {
namespace {

namespace fs = std::filesystem;

constexpr const char* kImageObject = "h5feed_images.so";
constexpr const char* kImagePlace = "H5FEED_IMAGES";

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

std::vector<std::string> places_to_look() {
  if (const char* const named = std::getenv(kImagePlace); named != nullptr && *named != '\0') return {named};
  std::vector<std::string> places;
  const auto add = [&](const fs::path& folder) {
    std::string place = (folder / kImageObject).string();
    if (std::ranges::find(places, place) == places.end()) places.push_back(std::move(place));
  };
  if (const fs::path object = own_object(); !object.empty()) {
    const fs::path folder = object.parent_path();
    add(folder);
    add(folder / "h5feed");
    add((folder / ".." / H5FEED_LIBDIR / "h5feed").lexically_normal());
  }
  for (const fs::path& folder : linker_folders()) add(folder);
  places.emplace_back(kImageObject);  // in the linker's own cache
  return places;
}

std::string last_reason() {
  const char* const text = ::dlerror();
  return text != nullptr ? text : "no reason given";
}

// Loads a shared object; null if it does not exist. Throws Error if it exists and cannot be loaded.
void* open_object(const std::string& place) {
  const bool is_path = place.find('/') != std::string::npos;
  std::error_code error;
  if (is_path && !fs::exists(place, error)) return nullptr;
  // Never closed: the codecs have exit handlers and threads. RTLD_LOCAL keeps their symbols apart from the
  // program's.
  void* const handle = ::dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return handle;
  const std::string reason = last_reason();
  if (!is_path && reason.starts_with(place + ": cannot open")) return nullptr;
  throw Error(
      fmt::format("images need {}, which cannot be loaded: {}; install the libraries of OpenCV that it was "
                  "built with, or build h5feed again",
                  place, reason));
}

}  // namespace

const ImageCalls& load_image_calls(const std::vector<std::string>& places) {
  for (const std::string& place : places) {
    void* const handle = open_object(place);
    if (handle == nullptr) continue;
    const auto entry = reinterpret_cast<ImageEntry>(::dlsym(handle, kImageEntry));
    const ImageCalls* const calls = entry != nullptr ? entry() : nullptr;
    if (calls == nullptr || calls->version != kImageCallsVersion) {
      throw Error(fmt::format(
          "images need {}, but that file belongs to another version of h5feed; install the file that was "
          "built with this library, or set {} to its path",
          place, kImagePlace));
    }
    return *calls;
  }
  throw Error(fmt::format(
      "images need {}, which is not there (looked for {}); install it with h5feed, put it next to "
      "the program, or set {} to its path",
      kImageObject, fmt::join(places, ", "), kImagePlace));
}

const ImageCalls& image_calls() {
  // If this throws, the next call tries again.
  static const ImageCalls* const calls = &load_image_calls(places_to_look());
  return *calls;
}

}  // namespace h5feed
