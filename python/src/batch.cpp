// SPDX-License-Identifier: Apache-2.0
#include "python/src/batch.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "h5feed/error.hpp"
#include "python/src/device_array.hpp"
#include "python/src/dlpack.hpp"
#include "python/src/gpu.hpp"
#include "python/src/text.hpp"

namespace h5feed::python {
namespace {

// Returns a capsule that owns `bytes`.
template <typename T>
nb::capsule owner_of(std::shared_ptr<T> bytes) {
  auto holder = std::make_unique<std::shared_ptr<T>>(std::move(bytes));
  nb::capsule owner(holder.get(), [](void* held) noexcept { delete static_cast<std::shared_ptr<T>*>(held); });
  static_cast<void>(holder.release());
  return owner;
}

nb::dlpack::dtype numpy_dtype(DType dtype) {
  const DlDataType type = dl_data_type(dtype);
  return {type.code, type.bits, type.lanes};
}

// Returns an array that owns a copy of `values`.
nb::object own_numbers(const std::vector<std::int64_t>& values) {
  HostTensor tensor;
  auto copy = std::make_shared<std::vector<std::int64_t>>(values);
  copy->reserve(1);  // an empty vector may have no memory, which would read as a missing tensor
  tensor.bytes = std::shared_ptr<std::byte>(copy, reinterpret_cast<std::byte*>(copy->data()));
  tensor.dtype = DType::i64;
  tensor.shape = {static_cast<std::int64_t>(values.size())};
  return to_numpy(tensor);
}

// Returns the array with NumPy's type of its name. nanobind makes 64-bit integers of `long long`, and NumPy's
// int64 is `long`.
nb::object with_named_type(nb::object array, DType dtype) {
  if (dtype != DType::i64 && dtype != DType::u64) return array;
  const auto type_of = [](const char* name) {
    return nb::module_::import_("numpy").attr("dtype")(name).release().ptr();  // kept until the process ends
  };
  static PyObject* const i64 = type_of("int64");
  static PyObject* const u64 = type_of("uint64");
  return array.attr("view")(nb::handle(dtype == DType::i64 ? i64 : u64));
}

nb::object tensor_or_none(const HostTensor& tensor) {
  return tensor.defined() ? nb::cast(tensor) : nb::object(nb::none());
}

// Returns sparse rows as the Python package delivers them; `as_array` converts each tensor.
template <typename AsArray>
nb::object sparse_rows(const SparseRows& rows, const char* function, const AsArray& as_array) {
  return nb::module_::import_("h5feed._sparse")
      .attr(function)(as_array(rows.values), as_array(rows.columns), as_array(rows.offsets),
                      nb::make_tuple(rows.offsets.elements() - 1, rows.num_columns));
}

nb::object arrays(const Batch& batch) {
  if (batch.gpu) return device_arrays(batch);
  nb::object data = batch.sparse.defined() ? sparse_rows(batch.sparse, "as_matrix",
                                                         [](const HostTensor& t) { return to_numpy(t); })
                                           : to_numpy(batch.data);
  if (!batch.target.defined()) return nb::make_tuple(std::move(data));
  return nb::make_tuple(std::move(data), to_numpy(batch.target));
}

nb::object tensors(const Batch& batch) {
  if (batch.gpu) return device_arrays(batch);
  nb::object data = batch.sparse.defined() ? sparse_rows(batch.sparse, "SparseRows",
                                                         [](const HostTensor& t) { return nb::cast(t); })
                                           : nb::cast(batch.data);
  if (!batch.target.defined()) return nb::make_tuple(std::move(data));
  return nb::make_tuple(std::move(data), nb::cast(batch.target));
}

nb::object origins(const Batch& batch) {
  nb::list list;
  for (const SampleOrigin& origin : batch.origins) list.append(nb::cast(origin));
  return list;
}

nb::object transforms(const Batch& batch) {
  nb::list list;
  for (const SampleTransform& transform : batch.transforms) {
    list.append(nb::make_tuple(transform.crop_y, transform.crop_x, transform.flip == 1,
                               transform.vertical_flip == 1, transform.crop_height, transform.crop_width));
  }
  return list;
}

nb::object fields(const Batch& batch) {
  nb::list list;
  for (const BatchField& field : batch.fields) {
    const bool on_gpu = batch.gpu && !field.values.defined();
    list.append(nb::make_tuple(text_of(field.name),
                               on_gpu ? device_field(batch, field.name) : tensor_or_none(field.values),
                               tensor_or_none(field.offsets), tensor_or_none(field.lengths)));
  }
  return list;
}

}  // namespace

nb::object to_numpy(const HostTensor& tensor) {
  if (!tensor.defined()) return nb::none();
  if (tensor.dtype == DType::bf16) {
    throw DatasetError(
        "NumPy has no bfloat16; use output_dtype=\"float32\" or \"float16\", or h5feed.torch.DataLoader");
  }
  constexpr std::size_t kUsualDimensions = 8;
  std::size_t shape[kUsualDimensions];
  std::vector<std::size_t> long_shape;
  const std::size_t dimensions = tensor.shape.size();
  std::size_t* extents = shape;
  if (dimensions > kUsualDimensions) {
    long_shape.resize(dimensions);
    extents = long_shape.data();
  }
  for (std::size_t i = 0; i < dimensions; ++i) extents[i] = static_cast<std::size_t>(tensor.shape[i]);
  nb::object array = nb::cast(nb::ndarray<nb::numpy>(
      tensor.bytes.get(), dimensions, extents, owner_of(tensor.bytes),
      tensor.strides.empty() ? nullptr : tensor.strides.data(), numpy_dtype(tensor.dtype)));
  return with_named_type(std::move(array), tensor.dtype);
}

void bind_batch(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<HostTensor>(module, "Tensor",
                         "An array in memory of the loader, for other libraries to take over by DLPack.")
      .def_prop_ro("dtype", [](const HostTensor& tensor) { return std::string(name_of(tensor.dtype)); })
      .def_prop_ro("shape", [](const HostTensor& tensor) { return nb::tuple(nb::cast(tensor.shape)); })
      .def_prop_ro("strides", [](const HostTensor& tensor) { return nb::tuple(nb::cast(tensor.strides)); })
      .def_prop_ro("nbytes",
                   [](const HostTensor& tensor) {
                     return static_cast<std::size_t>(tensor.elements()) * size_of(tensor.dtype);
                   })
      .def_prop_ro("pinned_by", [](const HostTensor& tensor) { return owner_of_pinned(tensor.bytes); })
      .def("numpy", [](const HostTensor& tensor) { return to_numpy(tensor); })
      .def("bits",
           [](HostTensor tensor) {
             if (tensor.dtype != DType::bf16) throw nb::type_error("only bfloat16 has no type of NumPy");
             tensor.dtype = DType::u16;
             return to_numpy(tensor);
           })
      .def("__dlpack__", &dlpack_of, nb::kw_only(), "stream"_a = nb::none(), "max_version"_a = nb::none(),
           "dl_device"_a = nb::none(), "copy"_a = nb::none())
      .def("__dlpack_device__", [](const HostTensor&) { return nb::make_tuple(kDlCpu, 0); });
  nb::class_<SampleOrigin>(module, "SampleOrigin", "Storage location of a sample.")
      .def_prop_ro("file", [](const SampleOrigin& origin) { return text_of(origin.file); })
      .def_prop_ro("path", [](const SampleOrigin& origin) { return text_of(origin.path); })
      .def_ro("row", &SampleOrigin::row)
      .def_ro("image", &SampleOrigin::image)
      .def_ro("y", &SampleOrigin::y)
      .def_ro("x", &SampleOrigin::x)
      .def_ro("z", &SampleOrigin::z)
      .def_ro("episode", &SampleOrigin::episode)
      .def_ro("frame", &SampleOrigin::frame)
      .def_ro("set", &SampleOrigin::set)
      .def("__repr__", [](const SampleOrigin& origin) {
        return nb::str(
                   "SampleOrigin(file={!r}, path={!r}, row={}, image={}, z={}, y={}, x={}, episode={}, "
                   "frame={})")
            .format(text_of(origin.file), text_of(origin.path), origin.row, origin.image, origin.z, origin.y,
                    origin.x, origin.episode, origin.frame);
      });
  nb::class_<Batch>(module, "Batch", "A batch as the core delivers it.")
      .def_prop_ro("indices", [](const Batch& batch) { return own_numbers(batch.indices); })
      .def_prop_ro("sets", [](const Batch& batch) { return own_numbers(batch.sets); })
      .def_prop_ro("origins", &origins)
      .def_prop_ro("fields", &fields)
      .def_prop_ro("transforms", &transforms)
      .def_ro("epoch", &Batch::epoch)
      .def_ro("number", &Batch::number)
      .def_ro("repeat", &Batch::repeat)
      .def("size", &Batch::size)
      .def("arrays", &arrays)
      .def("tensors", &tensors);
}

}  // namespace h5feed::python
