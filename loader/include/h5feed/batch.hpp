// SPDX-License-Identifier: Apache-2.0
// What a loader delivers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "h5feed/dataset.hpp"
#include "h5feed/dtype.hpp"

namespace h5feed {

/// A dense array in host memory, in row-major order unless `strides` say otherwise, with shared ownership of
/// its bytes: keep a copy of the tensor and the bytes stay, also after the loader is gone. When the last
/// owner lets go, the buffer returns to its loader's pool, on whatever thread that happens.
struct HostTensor {
  std::shared_ptr<std::byte> bytes;  ///< null when there is no such tensor (no target)
  DType dtype = DType::u8;
  std::vector<std::int64_t> shape;  ///< logical: (B,C,H,W) also where the channels are stored last
  /// In elements, one a dimension; empty: row-major. Set where channels are stored last.
  std::vector<std::int64_t> strides = {};

  bool defined() const noexcept { return bytes != nullptr; }

  std::int64_t elements() const noexcept {
    std::int64_t n = 1;
    for (const std::int64_t extent : shape) n *= extent;
    return n;
  }

  /// The elements as T, in the order in which they lie: a view of `bytes`, hence not of a temporary. Throws
  /// std::invalid_argument when T is not `dtype`.
  template <typename T>
  std::span<T> as() const& {
    if (dtype_of<T>() != dtype) throw std::invalid_argument("h5feed::HostTensor::as: other dtype");
    return {reinterpret_cast<T*>(bytes.get()), static_cast<std::size_t>(elements())};
  }
  template <typename T>
  std::span<T> as() const&& = delete;
};

/// Crop and flip of one sample. Output pixel (y, x) is source pixel (crop_y + y, crop_x + x'), with x' = x,
/// or out_width − 1 − x when flipped. A source pixel outside of the image has the value 0 before it is
/// normalized, as in torchvision's RandomCrop(padding=…) ahead of Normalize.
struct SampleTransform {
  std::int32_t crop_y = 0;
  std::int32_t crop_x = 0;
  std::int32_t flip = 0;  ///< horizontal; 0 or 1

  bool operator==(const SampleTransform&) const = default;
};

/// A named field of a batch, in host memory on every device. See `Collate`.
struct BatchField {
  std::string name;
  HostTensor values;
  /// With `Collate::ragged` B + 1 int64: sample i is values [offsets[i], offsets[i + 1]). Else undefined.
  HostTensor offsets = {};
  /// With `Collate::pad` B int64: the length of each sample. Else undefined.
  HostTensor lengths = {};
};

class DeviceBatch;

/// One batch: `data` (B,C,H,W) or as stored, `target` (B), (B,K), …; without the first dimension when
/// `batch_size` is nullopt. On a GPU the tensors are those of `gpu`, and `data` and `target` are undefined.
struct Batch {
  HostTensor data;
  HostTensor target;
  std::vector<std::int64_t> indices;  ///< sample numbers in the dataset, in batch order
  /// Where each sample is stored, in batch order; empty without `DataLoaderOptions::provenance`.
  std::vector<SampleOrigin> origins = {};
  /// Those of `DatasetOptions::fields`, in that order.
  std::vector<BatchField> fields = {};
  std::uint64_t epoch = 0;
  std::uint64_t number = 0;  ///< within the epoch
  /// What `DataLoaderOptions::augment` did to each sample, in batch order, so that boxes or masks can be
  /// moved likewise; empty without it.
  std::vector<SampleTransform> transforms = {};
  std::uint64_t repeat = 0;               ///< with `echo`: deliveries of the same samples before
  std::shared_ptr<DeviceBatch> gpu = {};  ///< null on the CPU; see h5feed/device.hpp

  std::int64_t size() const noexcept { return static_cast<std::int64_t>(indices.size()); }

  /// The field with this name; of a temporary batch a copy, which shares the values. Throws std::out_of_range
  /// for a name that no field has.
  const BatchField& field(std::string_view name) const& {
    for (const BatchField& candidate : fields) {
      if (candidate.name == name) return candidate;
    }
    throw std::out_of_range("h5feed::Batch::field: no field \"" + std::string(name) + "\"");
  }
  BatchField field(std::string_view name) const&& { return field(name); }
};

}  // namespace h5feed
