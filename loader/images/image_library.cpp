// SPDX-License-Identifier: Apache-2.0
#include "images/image_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/files/companion.hpp"
#include "h5feed/config.hpp"
#include "h5feed/error.hpp"

namespace h5feed {
namespace {

namespace fs = std::filesystem;

constexpr const char* kImageObject = "h5feed_images.so";
constexpr const char* kImagePlace = "H5FEED_IMAGES";
constexpr const char* kHowToGetIt =
    H5FEED_HAS_OPENCV ? "install it with h5feed, put it next to the program"
                      : "this h5feed was built without OpenCV: build it with H5FEED_WITH_OPENCV=ON";

std::vector<std::string> places_to_look() {
  std::vector<std::string> places = companion_places(kImageObject, kImagePlace);
  const char* const named = std::getenv(kImagePlace);
  if (named == nullptr || *named == '\0') places.emplace_back(kImageObject);  // in the linker's own cache
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
  throw Error(fmt::format("images need {}, which is not there (looked for {}); {}, or set {} to its path",
                          kImageObject, fmt::join(places, ", "), kHowToGetIt, kImagePlace));
}

const ImageCalls& image_calls() {
  // If this throws, the next call tries again.
  static const ImageCalls* const calls = &load_image_calls(places_to_look());
  return *calls;
}

}  // namespace h5feed
