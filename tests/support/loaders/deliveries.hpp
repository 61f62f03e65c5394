// SPDX-License-Identifier: Apache-2.0
// Copies of what a loader delivered, to be compared byte for byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "h5feed/batch.hpp"
#include "h5feed/data_loader.hpp"

namespace h5feed::test {

/// Copy of one batch.
struct Delivery {
  std::uint64_t epoch = 0, number = 0;
  std::int64_t repeat = 0;
  std::vector<std::int64_t> indices;
  std::vector<SampleTransform> transforms;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> data;
  std::vector<std::byte> target;
  std::map<std::string, std::vector<std::byte>> fields;  ///< values of the named fields

  bool operator==(const Delivery&) const = default;
};

/// Returns the bytes of a tensor of this type and shape.
inline std::size_t bytes_in(DType dtype, const std::vector<std::int64_t>& shape) {
  std::size_t bytes = size_of(dtype);
  for (const std::int64_t extent : shape) bytes *= static_cast<std::size_t>(extent);
  return bytes;
}

/// Copies all of a batch except its shape, and the bytes of data, target and fields on a GPU.
inline Delivery without_bytes(const Batch& batch) {
  Delivery delivery;
  delivery.epoch = batch.epoch;
  delivery.number = batch.number;
  delivery.repeat = batch.repeat;
  delivery.indices = batch.indices;
  delivery.transforms = batch.transforms;
  for (const BatchField& field : batch.fields) {
    const std::byte* const values = field.values.bytes.get();
    if (values != nullptr)
      delivery.fields[field.name].assign(values, values + bytes_in(field.values.dtype, field.values.shape));
  }
  return delivery;
}

/// Copies a batch in host memory.
inline Delivery delivery_of(const Batch& batch) {
  Delivery delivery = without_bytes(batch);
  delivery.shape = batch.data.shape;
  const std::byte* const data = batch.data.bytes.get();
  delivery.data.assign(data, data + bytes_in(batch.data.dtype, batch.data.shape));
  if (batch.target.defined()) {
    const std::byte* const target = batch.target.bytes.get();
    delivery.target.assign(target, target + bytes_in(batch.target.dtype, batch.target.shape));
  }
  return delivery;
}

/// Copies the remaining batches of a CPU loader's epoch; a whole epoch if none was begun.
inline std::vector<Delivery> rest_of_epoch(DataLoader& loader) {
  std::vector<Delivery> all;
  while (const auto batch = loader.next()) all.push_back(delivery_of(*batch));
  return all;
}

/// Returns the delivered bytes of each sample, by (repeat, sample).
inline std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::byte>> by_sample(
    const std::vector<Delivery>& deliveries) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::byte>> samples;
  for (const Delivery& delivery : deliveries) {
    const std::size_t count = delivery.indices.size();
    if (count == 0) continue;
    const std::size_t bytes = delivery.data.size() / count;
    for (std::size_t i = 0; i < count; ++i) {
      samples[{delivery.repeat, delivery.indices[i]}].assign(delivery.data.data() + i * bytes,
                                                             delivery.data.data() + (i + 1) * bytes);
    }
  }
  return samples;
}

}  // namespace h5feed::test
