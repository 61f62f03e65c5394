// SPDX-License-Identifier: Apache-2.0
// Reads one epoch of the file named on the command line and, if h5feed was built with OpenCV, an image of
// photos.h5 in its folder, and expects a typed error for another file.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <h5feed/config.hpp>
#include <h5feed/data_loader.hpp>
#include <h5feed/error.hpp>
#include <string_view>

#if H5FEED_HAS_CUDA
bool delivers_anywhere(const h5feed::Dataset& data);
#endif

// Returns whether the image codecs are found from here: the one image is red.
bool decodes_images(const std::filesystem::path& file) {
  h5feed::DataLoader loader(h5feed::Dataset::open({.files = {file}, .data = "images"}), {.batch_size = 1});
  for (h5feed::Batch& batch : loader) {
    const auto pixels = batch.data.as<std::uint8_t>();
    return pixels.size() == 6 && pixels[0] == 255 && pixels[2] == 0;
  }
  return false;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  bool refused = false;
  try {
    h5feed::Dataset::open({.files = {"no such file.h5"}});
  } catch (const h5feed::FileError&) {
    refused = true;
  }
  if (!refused) return 1;
  if (H5FEED_HAS_OPENCV && !decodes_images(std::filesystem::path(argv[1]).parent_path() / "photos.h5"))
    return 1;

  const auto data = h5feed::Dataset::open({.files = {argv[1]}, .data = "images", .target = "labels"});
  h5feed::DataLoaderOptions options{.batch_size = 16, .shuffle = true, .num_workers = 2};
  options.normalize.emplace();
  h5feed::DataLoader loader(data, options);
  std::int64_t samples = 0;
  for (h5feed::Batch& batch : loader) {
    samples += batch.size();
    if (batch.data.as<float>().empty() || batch.target.as<std::int64_t>().empty()) return 1;
  }
  std::printf("h5feed %s fed %lld of %lld samples\n", H5FEED_VERSION, static_cast<long long>(samples),
              static_cast<long long>(data.size()));
#if H5FEED_HAS_CUDA
  if (!delivers_anywhere(data)) return 1;
#endif
  return samples == data.size() ? 0 : 1;
}
