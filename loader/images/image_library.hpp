// SPDX-License-Identifier: Apache-2.0
// Loads the image codecs.
#pragma once

#include <string>
#include <vector>

#include "images/image_calls.hpp"

namespace h5feed {

/// Returns the functions of h5feed_images.so. The first call loads it; it stays loaded until the process
/// ends. If the environment variable H5FEED_IMAGES is set, only that path is tried. Otherwise searches the
/// directory of the program or shared library that contains h5feed, the folder `h5feed` in it, the place
/// where an installed program has it, and finally the dynamic linker's paths. Thread-safe: concurrent calls
/// wait for the one that loads. Throws Error if the object is missing, cannot be loaded or is of another
/// version of h5feed; the next call tries again.
const ImageCalls& image_calls();

/// Returns the functions of h5feed_images.so, like image_calls(), but searches `places` in order: paths of
/// the object, or a name without a slash for the dynamic linker. Throws Error. For tests.
const ImageCalls& load_image_calls(const std::vector<std::string>& places);

}  // namespace h5feed
