// SPDX-License-Identifier: Apache-2.0
// Batches as a loader delivers them.
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
#include "h5feed/export.hpp"

namespace h5feed {

/// A dense array in host memory, row-major unless `strides` say otherwise. Copies share ownership of the
/// bytes, which stay valid after the loader is destroyed. When the last owner is destroyed, on any thread,
/// memory from a loader's pool returns to that pool.
struct HostTensor {
  /// First element; null if the tensor does not exist, such as a missing target.
  std::shared_ptr<std::byte> bytes;
  DType dtype = DType::u8;  ///< element type
  /// Logical shape: (B,C,H,W) also if the channels are stored last.
  std::vector<std::int64_t> shape;
  /// Strides in elements, one per dimension; set if channels are stored last. Empty: row-major.
  std::vector<std::int64_t> strides = {};

  /// Returns whether the tensor exists.
  bool defined() const noexcept { return bytes != nullptr; }

  /// Returns the number of elements, the product of `shape`.
  std::int64_t elements() const noexcept {
    std::int64_t n = 1;
    for (const std::int64_t extent : shape) n *= extent;
    return n;
  }

  /// Returns the elements as T in memory order, as a view that borrows `bytes`; not callable on a temporary.
  /// Throws std::invalid_argument if T does not match `dtype`.
  template <typename T>
  std::span<T> as() const& {
    if (dtype_of<T>() != dtype) throw std::invalid_argument("h5feed::HostTensor::as: other dtype");
    return {reinterpret_cast<T*>(bytes.get()), static_cast<std::size_t>(elements())};
  }
  /// Deleted: the result would refer into a temporary. Name the tensor first.
  template <typename T>
  std::span<T> as() const&& = delete;
};

/// Crop and flips of one sample. Output pixel (y, x) is source pixel (crop_y + y', crop_x + x'), with x' = x,
/// or out_width − 1 − x if flipped, and y' = y, or out_height − 1 − y if flipped vertically. A source pixel
/// outside of the image has the value 0 before normalization, as with torchvision's RandomCrop(padding=…)
/// ahead of Normalize. With `Augment::random_resized_crop`, (y', x') are pixels of the window of crop_height
/// × crop_width source pixels, scaled to the output.
struct SampleTransform {
  std::int32_t crop_y = 0;         ///< first source row; negative in the padding
  std::int32_t crop_x = 0;         ///< first source column; negative in the padding
  std::int32_t flip = 0;           ///< 1 if mirrored left to right, else 0
  std::int32_t vertical_flip = 0;  ///< 1 if mirrored top to bottom, else 0
  std::int32_t crop_height = 0;    ///< Height of the window that is scaled; 0: nothing is scaled
  std::int32_t crop_width = 0;     ///< Width of the window that is scaled; 0: nothing is scaled

  bool operator==(const SampleTransform&) const = default;
};

/// A named field of a batch; see `Collate` for the shapes. If the batch is on a GPU, so are the values of
/// fields with `Collate::stack` (`DeviceBatch::field`); those of other fields stay in host memory.
struct BatchField {
  /// Name of the field, `FieldOptions::name`.
  std::string name;
  /// Values of all samples of the batch in host memory; undefined if they are on a GPU.
  HostTensor values;
  /// With `Collate::ragged`, B + 1 int64: sample i is values [offsets[i], offsets[i + 1]). Otherwise
  /// undefined.
  HostTensor offsets = {};
  /// With `Collate::pad`, B int64: the length of each sample. Otherwise undefined.
  HostTensor lengths = {};
};

/// Rows of a sparse matrix in compressed form (CSR), always in host memory, as `torch::sparse_csr_tensor` and
/// SciPy's `csr_matrix` take them. `columns` and `offsets` have the same type: int32 if it can count the
/// columns and the values of every batch of the loader, else int64.
struct SparseRows {
  /// Non-zero values of all samples in batch order, (V), as `output_dtype` says.
  HostTensor values = {};
  /// Column of each value, (V); in the order of the file.
  HostTensor columns = {};
  /// Start of each sample, (B + 1): sample i is values [offsets[i], offsets[i + 1]).
  HostTensor offsets = {};
  /// Number of columns of the matrix.
  std::int64_t num_columns = 0;

  /// Returns whether the batch has sparse rows.
  bool defined() const noexcept { return values.defined(); }
};

class H5FEED_EXPORT DeviceBatch;

/// One batch. `data` has the shape (B,C,H,W) or (B, stored shape), `target` (B), (B,K), …; both without B if
/// `batch_size` is nullopt. On a GPU, `gpu` holds the tensors, and `data` and `target` are undefined. Owns
/// its memory, which stays valid after the loader is destroyed.
struct Batch {
  /// Samples in host memory; undefined on a GPU.
  HostTensor data;
  /// Targets in host memory; undefined on a GPU and for datasets without a target.
  HostTensor target;
  /// Samples of a sparse matrix that is delivered as `SparseFormat::csr`; `data` is then undefined.
  SparseRows sparse = {};
  std::vector<std::int64_t> indices;  ///< sample numbers in the whole dataset, also for a subset
  /// Storage location of each sample, in batch order; empty without `DataLoaderOptions::provenance`.
  std::vector<SampleOrigin> origins = {};
  /// Set of each sample of a mixture, its number in the list given to `mix`; empty for other datasets.
  std::vector<std::int64_t> sets = {};
  /// Fields of `DatasetOptions::fields`, in the order given there.
  std::vector<BatchField> fields = {};
  std::uint64_t epoch = 0;   ///< epoch that the batch belongs to
  std::uint64_t number = 0;  ///< number of the batch within the epoch
  /// Crop and flip that `DataLoaderOptions::augment` applied to each sample, in batch order, to transform
  /// boxes or masks accordingly; empty without `augment`.
  std::vector<SampleTransform> transforms = {};
  /// Number of earlier deliveries of this batch with `echo`; 0 for the first.
  std::int64_t repeat = 0;
  std::shared_ptr<DeviceBatch> gpu = {};  ///< the batch on a GPU, see h5feed/device.hpp; null on the CPU

  /// Returns the number of samples.
  std::int64_t size() const noexcept { return static_cast<std::int64_t>(indices.size()); }

  /// Returns the field with this name. Throws std::out_of_range if no field has the name.
  const BatchField& field(std::string_view name) const& {
    for (const BatchField& candidate : fields) {
      if (candidate.name == name) return candidate;
    }
    throw std::out_of_range("h5feed::Batch::field: no field \"" + std::string(name) + "\"");
  }
  /// Returns a copy of the field, which shares its values. Throws std::out_of_range if no field has the name.
  BatchField field(std::string_view name) const&& { return field(name); }
};

}  // namespace h5feed
