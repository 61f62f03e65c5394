// SPDX-License-Identifier: Apache-2.0
#include "store/isolation/wire.hpp"

namespace h5feed {

void WireWriter::append(const void* data, std::size_t size) {
  const std::size_t at = bytes_.size();
  bytes_.resize(at + size);
  if (size > 0) std::memcpy(&bytes_[at], data, size);
}

}  // namespace h5feed
