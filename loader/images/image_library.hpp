// SPDX-License-Identifier: Apache-2.0
// The door to the image codecs.
#pragma once

#include <string>
#include <vector>

#include "images/image_calls.hpp"

namespace h5feed {

/// Returns the functions of h5feed_images.so. The first call loads it; it stays loaded until the process
/// ends. Looks at the path in the environment variable H5FEED_IMAGES alone where that is set; else beside the
/// program or shared library that holds h5feed, in the folder `h5feed` there, and where an installed program
/// has it; else asks the dynamic linker. Thread-safe: others wait for the call that loads. Throws Error where
/// the object is missing, cannot be loaded or is of another version of h5feed; the next call then tries
/// again.
const ImageCalls& image_calls();

/// As image_calls(), with the places to look in, best first: paths of the object, or a name without a slash
/// for the dynamic linker. For tests.
const ImageCalls& load_image_calls(const std::vector<std::string>& places);

}  // namespace h5feed
