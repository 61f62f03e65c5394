// SPDX-License-Identifier: Apache-2.0
#include "python/src/dlpack.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace h5feed::python {
namespace {

// The structures of the ABI. Names of the standard are in the comments.
struct Device {  // DLDevice
  std::int32_t type;
  std::int32_t id;
};

struct Array {  // DLTensor
  void* data;
  Device device;
  std::int32_t dimensions;
  DlDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};

struct Managed {  // DLManagedTensor
  Array array;
  void* context;
  void (*deleter)(Managed*);
};

struct ManagedVersioned {  // DLManagedTensorVersioned
  std::uint32_t major;
  std::uint32_t minor;
  void* context;
  void (*deleter)(ManagedVersioned*);
  std::uint64_t flags;
  Array array;
};

// What a consumer holds: the structure, and what it points to.
template <typename Form>
struct Export {
  Form form = {};
  HostTensor tensor;
  std::vector<std::int64_t> strides;
};

template <typename Form>
constexpr const char* kName = "dltensor";
template <>
constexpr const char* kName<ManagedVersioned> = "dltensor_versioned";

std::vector<std::int64_t> strides_of(const HostTensor& tensor) {
  if (!tensor.strides.empty() || tensor.shape.empty()) return tensor.strides;
  std::vector<std::int64_t> strides(tensor.shape.size(), 1);
  for (std::size_t i = strides.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * tensor.shape[i];
  return strides;
}

// A consumer renames the capsule when it takes the array over. Otherwise the array ends with the capsule.
template <typename Form>
void end_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kName<Form>) == 0) return;
  auto* const form = static_cast<Form*>(PyCapsule_GetPointer(capsule, kName<Form>));
  form->deleter(form);
}

template <typename Form>
nb::object export_as(const HostTensor& tensor) {
  auto exported = std::make_unique<Export<Form>>();
  exported->tensor = tensor;
  exported->strides = strides_of(tensor);
  Form& form = exported->form;
  form.context = exported.get();
  form.deleter = [](Form* self) { delete static_cast<Export<Form>*>(self->context); };
  if constexpr (std::is_same_v<Form, ManagedVersioned>) form.major = 1;
  HostTensor& held = exported->tensor;
  form.array = {held.bytes.get(),
                {kDlCpu, 0},
                static_cast<std::int32_t>(held.shape.size()),
                dl_data_type(held.dtype),
                held.shape.data(),
                exported->strides.data(),
                0};
  PyObject* const capsule = PyCapsule_New(&form, kName<Form>, end_capsule<Form>);
  if (capsule == nullptr) throw nb::python_error();
  static_cast<void>(exported.release());
  return nb::steal(capsule);
}

}  // namespace

DlDataType dl_data_type(DType dtype) noexcept {
  constexpr std::uint8_t kSigned = 0;
  constexpr std::uint8_t kUnsigned = 1;
  constexpr std::uint8_t kFloat = 2;
  constexpr std::uint8_t kBfloat = 4;
  std::uint8_t code = kFloat;
  if (dtype == DType::bf16) {
    code = kBfloat;
  } else if (is_integer(dtype)) {
    const bool is_unsigned =
        dtype == DType::u8 || dtype == DType::u16 || dtype == DType::u32 || dtype == DType::u64;
    code = is_unsigned ? kUnsigned : kSigned;
  }
  return {code, static_cast<std::uint8_t>(size_of(dtype) * 8), 1};
}

nb::object dlpack_of(const HostTensor& tensor, nb::handle stream, nb::handle max_version,
                     nb::handle dl_device, nb::handle copy) {
  if (!stream.is_none()) throw nb::value_error("stream must be None: the array is in host memory");
  if (!copy.is_none() && nb::cast<bool>(copy))
    throw nb::buffer_error("__dlpack__ does not copy; use copy=None");
  if (!dl_device.is_none() && nb::cast<int>(dl_device[0]) != kDlCpu) {
    throw nb::buffer_error("the array is in host memory; move it with the library that takes it over");
  }
  const bool versioned = !max_version.is_none() && nb::cast<int>(max_version[0]) >= 1;
  return versioned ? export_as<ManagedVersioned>(tensor) : export_as<Managed>(tensor);
}

}  // namespace h5feed::python
