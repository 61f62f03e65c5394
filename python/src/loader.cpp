// SPDX-License-Identifier: Apache-2.0
#include "python/src/loader.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "python/src/batch.hpp"
#include "python/src/convert.hpp"
#include "python/src/device_array.hpp"
#include "python/src/errors.hpp"
#include "python/src/gpu.hpp"
#include "python/src/stats.hpp"
#include "python/src/text.hpp"

namespace h5feed::python {
namespace {

constexpr std::chrono::milliseconds kSignalInterval(50);

struct Callbacks {
  nb::object sampler;
  nb::object batch_sampler;
  nb::object worker_init_fn;
  nb::object pinned_allocator;
};

std::vector<std::int64_t> to_vector(nb::handle array) {
  const auto numbers = nb::cast<Numbers>(array);
  const std::span<const std::int64_t> span = span_of(numbers);
  return {span.begin(), span.end()};
}

std::vector<std::int64_t> call_sampler(nb::handle sampler, std::uint64_t epoch) {
  return with_gil([&] { return to_vector(sampler(epoch)); });
}

std::vector<std::vector<std::int64_t>> call_batch_sampler(nb::handle sampler, std::uint64_t epoch) {
  return with_gil([&] {
    const nb::object result = sampler(epoch);
    const std::vector<std::int64_t> samples = to_vector(result[0]);
    std::vector<std::vector<std::int64_t>> batches;
    auto from = samples.begin();
    for (const std::int64_t size : to_vector(result[1])) {
      batches.emplace_back(from, from + size);
      from += size;
    }
    return batches;
  });
}

// Fills `options`; the callbacks in it borrow those that `callbacks` then owns.
void take_options(const nb::dict& dict, DataLoaderOptions& options, Callbacks& callbacks) {
  Keywords given(dict);
  const auto take_callback = [&](const char* name, nb::object& into) {
    nb::object value = given.pop(name);
    if (value.is_valid() && !value.is_none()) into = std::move(value);
  };
  take_callback("sampler", callbacks.sampler);
  take_callback("batch_sampler", callbacks.batch_sampler);
  take_callback("worker_init_fn", callbacks.worker_init_fn);
  take_callback("pinned_allocator", callbacks.pinned_allocator);
  std::int64_t max_batch_size = 1;
  given.take("max_batch_size", max_batch_size);
  take_loader_options(given, options);
  given.finish("DataLoader");
  use_gpu_part(options, callbacks.pinned_allocator);
  // A handle is not released with the closure, so C++ may drop the closure without the GIL.
  if (const nb::handle call = callbacks.sampler; call.is_valid()) {
    options.sampler = make_sampler([call](std::uint64_t epoch) { return call_sampler(call, epoch); });
  }
  if (const nb::handle call = callbacks.batch_sampler; call.is_valid()) {
    options.batch_sampler = make_batch_sampler(
        [call](std::uint64_t epoch) { return call_batch_sampler(call, epoch); }, max_batch_size);
  }
  if (const nb::handle call = callbacks.worker_init_fn; call.is_valid()) {
    options.worker_init_fn = [call](std::int64_t worker) { with_gil([&] { call(worker); }); };
  }
}

nb::object description_of(const DeviceTensor& tensor) {
  return nb::make_tuple(std::string(name_of(tensor.dtype)), nb::tuple(nb::cast(tensor.shape)),
                        nb::tuple(nb::cast(tensor.strides)));
}

DeviceOutput call_provide(nb::handle provide, int device, const DeviceTensors& batch) {
  return with_gil([&] {
    nb::list described;
    described.append(description_of(batch.data));
    if (batch.target) described.append(description_of(*batch.target));
    for (const DeviceField& field : batch.fields) described.append(description_of(field.values));
    const nb::object given = provide(device, *described);
    std::size_t taken = 0;
    const auto next = [&] { return reinterpret_cast<void*>(nb::cast<std::uintptr_t>(given[taken++])); };
    DeviceOutput output;
    output.stream = static_cast<GpuStream>(next());
    output.data = next();
    if (batch.target) output.target = next();
    while (output.fields.size() < batch.fields.size()) output.fields.push_back(next());
    return output;
  });
}

}  // namespace

PyLoader::Use::Use(PyLoader& loader) : loader_(loader) {
  if (loader.user_.load() == std::thread::id()) {
    loader.user_ = std::this_thread::get_id();
    return;
  }
  if (loader.user_.load() == std::this_thread::get_id()) {
    throw std::runtime_error("a callback of this DataLoader used the DataLoader itself");
  }
  throw std::runtime_error(
      "another thread is using this DataLoader; give each thread its own, over one Dataset");
}

PyLoader::PyLoader(const PyDataset& dataset, const nb::dict& given) {
  const Dataset data = dataset.get();
  DataLoaderOptions options;
  Callbacks callbacks;
  take_options(given, options, callbacks);
  has_position_ = options.in_order && !options.headroom;
  std::shared_ptr<DataLoader> loader;
  {
    const InterruptCheck check = handling_signals();
    const GilRelease release;
    loader = std::make_shared<DataLoader>(data, std::move(options));
  }
  sampler_ = std::move(callbacks.sampler);
  batch_sampler_ = std::move(callbacks.batch_sampler);
  worker_init_fn_ = std::move(callbacks.worker_init_fn);
  pinned_allocator_ = std::move(callbacks.pinned_allocator);
  if (const auto& gpu = loader->stats().gpu_memory) device_ = gpu->device;
  held_ = std::make_unique<OfProcess<DataLoader>>(std::move(loader));
  deliver_log();
}

PyLoader::Lease::~Lease() {
  if (loader_.use_count() == 1) destroy(std::move(loader_));
}

PyLoader::Lease PyLoader::get() const {
  if (closed()) throw std::runtime_error("this DataLoader is closed");
  if (held_->inherited()) {
    throw std::runtime_error(
        "this DataLoader was made before the process forked, and its threads do not exist in the child; make "
        "one in the child, or start the process with the spawn method");
  }
  return Lease(held_->get());
}

bool PyLoader::all_delivered(const DataLoader& loader) const {
  if (has_position_) return loader.state().epoch != epoch_;
  return taken_ >= loader.size();
}

std::uint64_t PyLoader::start() {
  const Lease loader = get();
  const Use use(*this);
  if (running_ && !delivered_) return ++iteration_;  // nothing is lost by going on
  if (running_ && all_delivered(*loader)) {
    ++epoch_;
  } else if (running_) {
    loader->set_epoch(epoch_);
  }
  running_ = false;
  taken_ = 0;
  {
    const GilRelease release;
    loader->start_epoch();
  }
  running_ = true;
  delivered_ = false;
  deliver_log();
  return ++iteration_;
}

OptionalBatch<Batch> PyLoader::wait_for_next(DataLoader& loader, nb::handle provide) {
  {
    const GilRelease release;
    while (!loader.wait_ready(kSignalInterval)) {
      if (closing_) throw std::runtime_error("this DataLoader was closed while a batch was awaited");
      const GilAcquire gil;
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
  }
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
  deliver_log();  // like signals while the loader still has the batch: a handler that raises loses none
  release_owners();
  const GilRelease release;
  if (!provide.is_valid()) return loader.next();
  return loader.next_into(
      [&](int device, const DeviceTensors& tensors) { return call_provide(provide, device, tensors); });
}

nb::object PyLoader::next(std::uint64_t number) { return take(number, {}); }

nb::object PyLoader::next_into(std::uint64_t number, const nb::object& provide) {
  return take(number, provide);
}

nb::object PyLoader::take(std::uint64_t number, nb::handle provide) {
  const Lease loader = get();
  if (number != iteration_) {
    throw std::runtime_error(
        "this iterator ended when a newer iter() of its DataLoader began, or its state was loaded");
  }
  if (!running_) return nb::none();
  OptionalBatch<Batch> batch;
  {
    const Use use(*this);
    const bool had_delivered = std::exchange(delivered_, true);
    try {
      batch = wait_for_next(*loader, provide);
    } catch (...) {
      // An interrupted wait loses no batch.
      const std::uint64_t errors = loader->stats().errors;
      taken_ += errors > errors_ ? 1 : 0;
      delivered_ = had_delivered || errors > errors_;
      errors_ = errors;
      restored_ = restored_ && !delivered_;
      throw;
    }
  }
  restored_ = false;
  if (!batch) {
    running_ = false;
    ++epoch_;
    deliver_log();  // what the epoch was limited by
    return nb::none();
  }
  ++taken_;
  keep_in_forked_child(*batch);
  return nb::cast(std::move(*batch));
}

std::uint64_t PyLoader::size() { return get()->size(); }

void PyLoader::set_epoch(std::uint64_t epoch) {
  const Lease loader = get();
  const Use use(*this);
  const bool nothing_delivered = restored_ || (running_ && !delivered_);
  if (nothing_delivered && epoch == epoch_) return;
  loader->set_epoch(epoch);
  epoch_ = epoch;
  running_ = false;
  restored_ = false;
  ++iteration_;
}

void PyLoader::warm_up() {
  const Lease loader = get();
  const Use use(*this);
  const GilRelease release;
  loader->warm_up();
}

nb::tuple PyLoader::state() {
  const Lease loader = get();
  const Use use(*this);
  const LoaderState state = loader->state();
  const std::string saved = state.to_bytes();
  return nb::make_tuple(state.epoch, nb::bytes(saved.data(), saved.size()));
}

void PyLoader::restore(const nb::bytes& saved) {
  const Lease loader = get();
  const Use use(*this);
  const LoaderState state = LoaderState::from_bytes({saved.c_str(), saved.size()});
  {
    const GilRelease release;
    loader->restore(state);
  }
  epoch_ = state.epoch;
  running_ = false;
  restored_ = true;
  ++iteration_;
}

nb::dict PyLoader::stats() { return to_dict(get()->stats()); }

nb::dict PyLoader::options() { return to_dict(get()->options()); }

std::string PyLoader::report() {
  const Lease loader = get();
  const GilRelease release;
  return loader->report();
}

std::optional<std::string> PyLoader::verdict() {
  const Lease loader = get();
  const GilRelease release;
  const std::optional<Verdict> verdict = loader->verdict();
  return verdict ? std::make_optional(verdict->to_json()) : std::nullopt;
}

PlanReport PyLoader::plan() {
  const Lease loader = get();
  const GilRelease release;
  return loader->plan();
}

void PyLoader::close() {
  if (closed()) return;
  const std::unique_ptr<OfProcess<DataLoader>> held = std::move(held_);
  if (held->inherited()) return;  // ~OfProcess leaks it
  closing_ = true;
  const auto busy = [this] {
    const std::thread::id user = user_.load();
    return user != std::thread::id() && user != std::this_thread::get_id();
  };
  if (!busy()) return;
  const GilRelease release;
  for (int tries = 0; tries < 100 && busy(); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

int PyLoader::traverse(visitproc visit, void* arg) const {
  Py_VISIT(sampler_.ptr());
  Py_VISIT(batch_sampler_.ptr());
  Py_VISIT(worker_init_fn_.ptr());
  Py_VISIT(pinned_allocator_.ptr());
  return 0;
}

void PyLoader::clear() {
  close();
  sampler_.reset();
  batch_sampler_.reset();
  worker_init_fn_.reset();
  pinned_allocator_.reset();
}

namespace {

int traverse_loader(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  return nb::inst_ptr<PyLoader>(self)->traverse(visit, arg);
}

int clear_loader(PyObject* self) {
  nb::inst_ptr<PyLoader>(self)->clear();
  return 0;
}

const PyType_Slot kLoaderSlots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse_loader)},
                                    {Py_tp_clear, reinterpret_cast<void*>(clear_loader)},
                                    {0, nullptr}};

PlanReport plan_of(const PyDataset& dataset, const nb::dict& given) {
  const Dataset data = dataset.get();
  DataLoaderOptions options;
  Callbacks callbacks;
  take_options(given, options, callbacks);
  const GilRelease release;
  return plan(data, options);
}

}  // namespace

void bind_loader(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<PyLoader>(module, "Loader", nb::type_slots(kLoaderSlots), "A loader of the core.")
      .def(nb::init<const PyDataset&, const nb::dict&>(), "dataset"_a, "options"_a)
      .def("start", &PyLoader::start)
      .def("next", &PyLoader::next, "number"_a)
      .def("next_into", &PyLoader::next_into, "number"_a, "provide"_a)
      .def("device", &PyLoader::device)
      .def("size", &PyLoader::size)
      .def("epoch", &PyLoader::epoch)
      .def("set_epoch", &PyLoader::set_epoch, "epoch"_a)
      .def("warm_up", &PyLoader::warm_up)
      .def("state", &PyLoader::state)
      .def("restore", &PyLoader::restore, "saved"_a)
      .def("stats", &PyLoader::stats)
      .def("options", &PyLoader::options)
      .def("report", [](PyLoader& self) { return text_of(self.report()); })
      .def("verdict", &PyLoader::verdict)
      .def("plan", &PyLoader::plan)
      .def("closed", &PyLoader::closed)
      .def("close", [](PyLoader& self) {
        self.close();
        deliver_log();
      });
  module.def("plan", &plan_of, "dataset"_a, "options"_a);
}

}  // namespace h5feed::python
