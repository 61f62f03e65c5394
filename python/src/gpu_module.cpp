// SPDX-License-Identifier: Apache-2.0
// The extension module h5feed._gpu: the CUDA backend, apart from h5feed._core, which loads it when a loader
// first needs a GPU. Its only content is the capsule `calls`.
#include <Python.h>

#include <utility>

#include "h5feed/gpu.hpp"
#include "python/src/gpu_calls.hpp"

namespace h5feed::python {
namespace {

const GpuCalls kCalls = {.set_log = [](void (*log)(LogLevel, std::string_view)) { set_log_sink(log); },
                         .device =
                             [](std::string name, gpu::PinnedAllocator allocate) {
                               return gpu::device(std::move(name), std::move(allocate));
                             }};

int add_calls(PyObject* module) {
  PyObject* const calls = PyCapsule_New(const_cast<GpuCalls*>(&kCalls), kGpuCapsule, nullptr);
  if (calls == nullptr) return -1;
  const int result = PyModule_AddObjectRef(module, "calls", calls);
  Py_DECREF(calls);
  return result;
}

}  // namespace
}  // namespace h5feed::python

PyMODINIT_FUNC PyInit__gpu() {
  static PyModuleDef_Slot slots[] = {{Py_mod_exec, reinterpret_cast<void*>(h5feed::python::add_calls)},
                                     {0, nullptr}};
  static PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT,
                                   .m_name = "_gpu",
                                   .m_doc = "The CUDA backend of h5feed, loaded by h5feed._core.",
                                   .m_slots = slots};
  return PyModuleDef_Init(&definition);
}
