// SPDX-License-Identifier: Apache-2.0
#include "flow/values/stored_transform.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/byte_buffer.hpp"

namespace h5feed {

StoredTransform::StoredTransform(Function function, const DatasetState& dataset)
    : function_(std::move(function)),
      dtype_(dataset.data.info().dtype),
      shape_(dataset.data.geometry.shape),
      channels_last_(dataset.data.geometry.channels_last),
      bytes_(dataset.data.map.row_bytes()) {
  if (channels_last_) std::rotate(shape_.begin(), shape_.begin() + 1, shape_.end());
}

const std::byte* StoredTransform::run(const std::byte* sample, const SampleKey& key) const {
  thread_local ByteBuffer copy;
  copy.resize_discard(bytes_);
  if (bytes_ > 0) std::memcpy(copy.data(), sample, bytes_);
  function_(
      {.bytes = copy.span().first(bytes_), .dtype = dtype_, .shape = shape_, .channels_last = channels_last_},
      key);
  return copy.data();
}

}  // namespace h5feed
