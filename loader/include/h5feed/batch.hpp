// What a loader delivers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "h5feed/dtype.hpp"

namespace h5feed {

/// A dense array in row-major order and host memory, with shared ownership of its bytes: keep a copy
/// of the tensor and the bytes stay, also after the loader is gone. When the last owner lets go, the
/// buffer returns to its loader's pool, on whatever thread that happens.
struct HostTensor {
  std::shared_ptr<std::byte> bytes;  ///< null when there is no such tensor (no target)
  DType dtype = DType::u8;
  std::vector<std::int64_t> shape;

  bool defined() const noexcept { return bytes != nullptr; }

  std::int64_t elements() const noexcept {
    std::int64_t n = 1;
    for (const std::int64_t extent : shape) n *= extent;
    return n;
  }

  /// The elements as T. Throws std::invalid_argument when T is not `dtype`.
  template <typename T>
  std::span<T> as() const {
    if (dtype_of<T>() != dtype) throw std::invalid_argument("h5feed::HostTensor::as: other dtype");
    return {reinterpret_cast<T*>(bytes.get()), static_cast<std::size_t>(elements())};
  }
};

class DeviceBatch;

/// One batch: `data` (B,C,H,W) or as stored, `target` (B), (B,K), …; without the first dimension when
/// `batch_size` is nullopt. On a GPU the tensors are those of `gpu`, and `data` and `target` are undefined.
struct Batch {
  HostTensor data;
  HostTensor target;
  std::vector<std::int64_t> indices;  ///< sample numbers in the dataset, in batch order
  std::uint64_t epoch = 0;
  std::uint64_t number = 0;               ///< within the epoch
  std::shared_ptr<DeviceBatch> gpu = {};  ///< null on the CPU; see h5feed/device.hpp

  std::int64_t size() const noexcept { return static_cast<std::int64_t>(indices.size()); }
};

}  // namespace h5feed
