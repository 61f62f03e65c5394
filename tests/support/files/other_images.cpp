// SPDX-License-Identifier: Apache-2.0
// An object in the place of h5feed_images.so that is of another version.
#include <cstdint>

extern "C" const std::uint32_t* h5feed_images() {
  static const std::uint32_t version = 0;
  return &version;
}
