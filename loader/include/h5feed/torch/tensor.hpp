// SPDX-License-Identifier: Apache-2.0
// Conversions between h5feed's and LibTorch's tensors. Part of h5feed/torch.hpp.
#pragma once

#include <c10/core/ScalarType.h>
#include <torch/types.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "h5feed/batch.hpp"
#include "h5feed/dtype.hpp"
#include "h5feed/error.hpp"

namespace h5feed::detail {

/// Converts a DType to a Torch dtype; nullopt for u16, u32 and u64, which LibTorch lacks or barely supports.
inline std::optional<torch::Dtype> torch_dtype(DType dtype) noexcept {
  switch (dtype) {
    case DType::u8:
      return torch::kUInt8;
    case DType::i8:
      return torch::kInt8;
    case DType::i16:
      return torch::kInt16;
    case DType::i32:
      return torch::kInt32;
    case DType::i64:
      return torch::kInt64;
    case DType::f16:
      return torch::kFloat16;
    case DType::f32:
      return torch::kFloat32;
    case DType::f64:
      return torch::kFloat64;
    case DType::bf16:
      return torch::kBFloat16;
    case DType::u16:
    case DType::u32:
    case DType::u64:
      break;
  }
  return std::nullopt;
}

/// Converts a Torch dtype to DType; nullopt for types that h5feed does not have, such as bool.
inline std::optional<DType> dtype_of(torch::Dtype type) noexcept {
  for (const DType dtype : {DType::u8, DType::i8, DType::i16, DType::i32, DType::i64, DType::f16, DType::f32,
                            DType::f64, DType::bf16}) {
    if (torch_dtype(dtype) == type) return dtype;
  }
  return std::nullopt;
}

/// Throws DatasetError if LibTorch lacks the data type `dtype`.
inline void require_torch_dtype(DType dtype) {
  if (torch_dtype(dtype)) return;
  throw DatasetError(
      "the data is " + std::string(name_of(dtype)) +
      ", a type LibTorch does not have; set options.normalize = {.scale = 1.0} to get its values "
      "as float32");
}

/// Throws OptionError if LibTorch lacks the target type `dtype`.
inline void require_torch_target(DType dtype) {
  if (torch_dtype(dtype)) return;
  throw OptionError("target_dtype " + std::string(name_of(dtype)) +
                    ": LibTorch does not have this type; leave target_dtype unset for int64, or use f32");
}

/// Throws DatasetError if LibTorch lacks the type `dtype` of the field `name`.
inline void require_torch_field(const std::string& name, DType dtype) {
  if (torch_dtype(dtype)) return;
  throw DatasetError("field \"" + name + "\" is " + std::string(name_of(dtype)) +
                     ", a type LibTorch does not have; set its dtype, e.g. to f32 or a wider integer");
}

/// Returns a tensor over the bytes of `host` without copying them; the tensor's storage shares ownership of
/// them. Undefined if `host` is. Throws std::bad_optional_access if LibTorch lacks the dtype.
inline torch::Tensor to_tensor(HostTensor host) {
  if (!host.defined()) return {};
  void* const bytes = host.bytes.get();
  const auto options = torch::TensorOptions().dtype(torch_dtype(host.dtype).value());
  const auto release = [owner = std::move(host.bytes)](void*) mutable { owner.reset(); };
  if (host.strides.empty()) return torch::from_blob(bytes, host.shape, release, options);
  return torch::from_blob(bytes, host.shape, host.strides, release, options);
}

/// Returns a sparse CSR tensor (B, columns) over the memory of `rows`, without copying it. Throws
/// std::bad_optional_access if LibTorch lacks the dtype of the values.
inline torch::Tensor to_sparse_tensor(SparseRows rows) {
  const std::int64_t samples = rows.offsets.elements() - 1;
  const std::int64_t columns = rows.num_columns;
  const torch::Tensor values = to_tensor(std::move(rows.values));
  return at::_sparse_csr_tensor_unsafe(to_tensor(std::move(rows.offsets)), to_tensor(std::move(rows.columns)),
                                       values, {samples, columns},
                                       values.options().layout(torch::kSparseCsr));
}

/// Converts a Torch tensor to row-major host memory; copies only if it is on a GPU or not contiguous, else
/// shares ownership of its storage. Undefined if `tensor` is, or has no elements. Throws DatasetError for
/// dtypes that h5feed does not have. Blocks for the copy of a GPU tensor.
inline HostTensor to_host_tensor(torch::Tensor tensor) {
  if (!tensor.defined()) return {};
  tensor = tensor.cpu().contiguous();
  const auto dtype = dtype_of(tensor.scalar_type());
  if (!dtype) {
    throw DatasetError(std::string("a transform returned a tensor of ") +
                       c10::toString(tensor.scalar_type()) +
                       ", which a batch cannot hold; convert it to a numeric type");
  }
  HostTensor host{nullptr, *dtype, tensor.sizes().vec()};
  const auto owner = std::make_shared<torch::Tensor>(std::move(tensor));
  host.bytes = std::shared_ptr<std::byte>(owner, static_cast<std::byte*>(owner->data_ptr()));
  return host;
}

}  // namespace h5feed::detail
