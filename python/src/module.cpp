// SPDX-License-Identifier: Apache-2.0
// The extension module h5feed._core. The package h5feed wraps it; it is no interface for users.
#include <nanobind/nanobind.h>

#include "python/src/batch.hpp"
#include "python/src/dataset.hpp"
#include "python/src/device_array.hpp"
#include "python/src/errors.hpp"
#include "python/src/gpu.hpp"
#include "python/src/loader.hpp"
#include "python/src/process.hpp"
#include "python/src/stats.hpp"

NB_MODULE(_core, module) {
  module.doc() = "The C++ core of h5feed.";
  h5feed::python::bind_errors(module);
  h5feed::python::bind_process(module);
  h5feed::python::bind_batch(module);
  h5feed::python::bind_device_array(module);
  h5feed::python::bind_gpu(module);
  h5feed::python::bind_plan(module);
  h5feed::python::bind_dataset(module);
  h5feed::python::bind_loader(module);
}
