// SPDX-License-Identifier: Apache-2.0
#include "python/src/dlpack.hpp"
#include "python/src/gil.hpp"

#include <cstddef>
#include <cstring>
#include <memory>
#include <type_traits>
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

constexpr std::uint64_t kIsCopied = 2;  // DLPACK_FLAG_BITMASK_IS_COPIED

// An array to export, with its owner.
struct Source {
  std::shared_ptr<void> owner;
  void* data;
  Device device;
  DType dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  bool copied = false;  // nobody else has the memory
};

// What a consumer holds: the structure, and what it points to.
template <typename Form>
struct Export {
  Form form = {};
  Source source;
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
nb::object export_as(Source source) {
  auto exported = std::make_unique<Export<Form>>();
  exported->source = std::move(source);
  Source& held = exported->source;
  Form& form = exported->form;
  form.context = exported.get();
  form.deleter = [](Form* self) { delete static_cast<Export<Form>*>(self->context); };
  if constexpr (std::is_same_v<Form, ManagedVersioned>) {
    form.major = 1;
    if (held.copied) form.flags = kIsCopied;
  }
  form.array = {held.data,
                held.device,
                static_cast<std::int32_t>(held.shape.size()),
                dl_data_type(held.dtype),
                held.shape.data(),
                held.strides.data(),
                0};
  PyObject* const capsule = PyCapsule_New(&form, kName<Form>, end_capsule<Form>);
  if (capsule == nullptr) throw nb::python_error();
  static_cast<void>(exported.release());
  return nb::steal(capsule);
}

// Returns an integer, such as a member of IntEnum. Raises TypeError for other values.
std::int64_t integer(nb::handle value) {
  PyObject* const number = PyNumber_Index(value.ptr());
  if (number == nullptr) throw nb::python_error();
  const nb::object held = nb::steal(number);
  const std::int64_t result = PyLong_AsLongLong(number);
  if (result == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return result;
}

bool is_true(nb::handle value) {
  const int truth = PyObject_IsTrue(value.ptr());
  if (truth < 0) throw nb::python_error();
  return truth == 1;
}

// Raises BufferError unless `requested`, None or (device type, id), is `device`.
void check_device(nb::handle requested, const Device& device, const char* message) {
  if (requested.is_none()) return;
  const bool same = integer(requested[0]) == device.type && integer(requested[1]) == device.id;
  if (!same) throw nb::buffer_error(message);
}

nb::object exported(Source source, nb::handle max_version) {
  const bool versioned = !max_version.is_none() && integer(max_version[0]) >= 1;
  return versioned ? export_as<ManagedVersioned>(std::move(source)) : export_as<Managed>(std::move(source));
}

// Returns a copy of the bytes. Tensors have no gaps, whatever their strides.
std::shared_ptr<std::byte> copy_of(const HostTensor& tensor) {
  const GilRelease release;
  const std::size_t size = static_cast<std::size_t>(tensor.elements()) * size_of(tensor.dtype);
  auto bytes = std::make_shared_for_overwrite<std::byte[]>(size);
  std::memcpy(bytes.get(), tensor.bytes.get(), size);
  return {bytes, bytes.get()};
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
  constexpr Device kHost = {kDlCpu, 0};
  check_device(dl_device, kHost, "the array is in host memory; move it with the library that takes it over");
  const bool copies = !copy.is_none() && is_true(copy);
  const std::shared_ptr<std::byte> bytes = copies ? copy_of(tensor) : tensor.bytes;
  return exported({.owner = bytes,
                   .data = bytes.get(),
                   .device = kHost,
                   .dtype = tensor.dtype,
                   .shape = tensor.shape,
                   .strides = strides_of(tensor),
                   .copied = copies},
                  max_version);
}

nb::object dlpack_of_device_array(const DeviceArray& array, nb::handle stream, nb::handle max_version,
                                  nb::handle dl_device, nb::handle copy) {
  constexpr std::int64_t kNoStream = -1;
  constexpr std::int64_t kLegacyStream = 1;
  const Device device = {kDlCuda, array.batch()->device()};
  check_device(dl_device, device,
               "the array is on a GPU; take it over there, and move it with the library that did");
  if (!copy.is_none() && is_true(copy)) {
    throw nb::buffer_error(
        "__dlpack__ does not copy on a GPU; take the array over with copy=None, and copy it with the library "
        "that did");
  }
  const std::int64_t consumer = stream.is_none() ? kLegacyStream : integer(stream);
  if (consumer != kNoStream) array.use_on(consumer);
  const DeviceTensor& tensor = array.tensor();
  return exported({.owner = array.batch(),
                   .data = tensor.data,
                   .device = device,
                   .dtype = tensor.dtype,
                   .shape = tensor.shape,
                   .strides = tensor.strides},
                  max_version);
}

}  // namespace h5feed::python
