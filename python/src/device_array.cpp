// SPDX-License-Identifier: Apache-2.0
#include "python/src/device_array.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>

#include "python/src/dlpack.hpp"
#include "python/src/process.hpp"

namespace h5feed::python {
namespace {

// The legacy default stream. Work on it waits for all streams that block, the per-thread default streams
// among them, and they for it: so it stands for these, too, on whichever thread the batch ends.
constexpr std::int64_t kLegacyStream = 1;
constexpr std::int64_t kPerThreadStream = 2;

nb::tuple shape_of(const DeviceArray& array) { return nb::tuple(nb::cast(array.tensor().shape)); }

// Returns the strides in bytes; None if the array is row-major.
nb::object byte_strides_of(const DeviceTensor& tensor) {
  std::vector<std::int64_t> strides(tensor.strides);
  std::int64_t dense = 1;
  bool row_major = true;
  for (std::size_t i = strides.size(); i-- > 0;) {
    row_major = row_major && strides[i] == dense;
    dense *= tensor.shape[i];
    strides[i] *= static_cast<std::int64_t>(size_of(tensor.dtype));
  }
  return row_major ? nb::object(nb::none()) : nb::object(nb::tuple(nb::cast(strides)));
}

nb::dict cuda_array_interface(const DeviceArray& array) {
  const DeviceTensor& tensor = array.tensor();
  if (tensor.dtype == DType::bf16) {
    throw nb::attribute_error("__cuda_array_interface__ has no bfloat16; take the array over by DLPack");
  }
  array.use_on(kLegacyStream);
  const DlDataType type = dl_data_type(tensor.dtype);
  nb::dict dict;
  dict["shape"] = shape_of(array);
  dict["typestr"] = std::string("<") + "iuf"[type.code] + std::to_string(type.bits / 8);
  dict["data"] = nb::make_tuple(reinterpret_cast<std::uintptr_t>(tensor.data), false);
  dict["strides"] = byte_strides_of(tensor);
  dict["stream"] = kLegacyStream;
  dict["version"] = 3;
  return dict;
}

}  // namespace

void DeviceArray::use_on(std::int64_t stream) const {
  if (stream <= 0) {
    const std::string text = "stream " + std::to_string(stream) +
                             " is none; use the address of a stream, 1 for the legacy default stream, or 2 "
                             "for the per-thread default stream";
    throw nb::value_error(text.c_str());
  }
  const bool is_default = stream == kLegacyStream || stream == kPerThreadStream;
  const GilRelease release;
  batch_->use_on(is_default ? nullptr : reinterpret_cast<GpuStream>(stream));
}

nb::object device_arrays(const Batch& batch) {
  const DeviceTensors& tensors = batch.gpu->tensors();
  nb::object data = nb::cast(DeviceArray(batch.gpu, tensors.data));
  if (!tensors.target) return nb::make_tuple(data);
  return nb::make_tuple(data, DeviceArray(batch.gpu, *tensors.target));
}

nb::object device_field(const Batch& batch, const std::string& name) {
  for (const DeviceField& field : batch.gpu->tensors().fields) {
    if (field.name == name) return nb::cast(DeviceArray(batch.gpu, field.values));
  }
  return nb::none();
}

void keep_in_forked_child(Batch& batch) {
  if (!batch.gpu) return;
  DeviceBatch* const address = batch.gpu.get();
  batch.gpu = std::shared_ptr<DeviceBatch>(
      address, [held = batch.gpu, generation = fork_generation()](DeviceBatch*) mutable noexcept {
        if (generation != fork_generation()) keep_forever(std::move(held));
      });
}

void bind_device_array(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<DeviceArray>(module, "DeviceArray",
                          "An array in GPU memory of the loader, for other libraries to take over: "
                          "torch.from_dlpack, cupy.from_dlpack, numba.cuda.as_cuda_array.\n\n"
                          "Its memory returns to the loader when the array, its batch and whatever took it "
                          "over are gone; the loader then waits, on the GPU, for the streams that were told "
                          "of: by DLPack, use_on() or __cuda_array_interface__. They must exist until then.")
      .def_prop_ro(
          "dtype", [](const DeviceArray& array) { return std::string(name_of(array.tensor().dtype)); },
          "Element type: \"u8\", \"f32\", …")
      .def_prop_ro("shape", &shape_of, "Extents: (B, C, H, W) for images, whatever the strides.")
      .def_prop_ro(
          "strides", [](const DeviceArray& array) { return nb::tuple(nb::cast(array.tensor().strides)); },
          "Strides in elements, one per dimension.")
      .def_prop_ro(
          "device", [](const DeviceArray& array) { return array.batch()->device(); },
          "CUDA ordinal of the GPU in this process.")
      .def("__repr__",
           [](const DeviceArray& array) {
             return nb::str("DeviceArray({}, {}, cuda:{})")
                 .format(std::string(name_of(array.tensor().dtype)), shape_of(array),
                         array.batch()->device());
           })
      .def("use_on", &DeviceArray::use_on, "stream"_a,
           "Makes work enqueued from now on on a stream (cudaStream_t as int) wait for the batch, and reuse "
           "of "
           "the memory for that stream.")
      .def_prop_ro("__cuda_array_interface__", &cuda_array_interface)
      .def("__dlpack__", &dlpack_of_device_array, nb::kw_only(), "stream"_a = nb::none(),
           "max_version"_a = nb::none(), "dl_device"_a = nb::none(), "copy"_a = nb::none())
      .def("__dlpack_device__",
           [](const DeviceArray& array) { return nb::make_tuple(kDlCuda, array.batch()->device()); });
}

}  // namespace h5feed::python
