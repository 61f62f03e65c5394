// SPDX-License-Identifier: Apache-2.0
#include "python/src/gpu.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "h5feed/error.hpp"
#include "h5feed/log.hpp"
#include "python/src/gil.hpp"
#include "python/src/gpu_calls.hpp"
#include "python/src/text.hpp"

namespace h5feed::python {
namespace {

using PinnedAllocator = std::function<std::shared_ptr<std::byte>(std::size_t)>;

// h5feed._gpu, or why there is none.
struct GpuPart {
  const GpuCalls* calls = nullptr;
  bool installed = true;
  std::string why;
};

GpuPart failed_part(bool installed, std::string why) { return {nullptr, installed, std::move(why)}; }

GpuPart load_gpu_part() {
  const char* const again = "; install h5feed again";
  nb::object module;
  try {
    module = nb::module_::import_("h5feed._gpu");
  } catch (nb::python_error& error) {
    if (error.matches(PyExc_ModuleNotFoundError)) {
      return failed_part(false,
                         "h5feed was built without CUDA; install it again where the CUDA toolkit (nvcc) is");
    }
    if (!error.matches(PyExc_ImportError)) throw;
    return failed_part(true, "h5feed._gpu cannot be loaded: " + shown(error.value()) + again);
  }
  const nb::object capsule = nb::getattr(module, "calls", nb::none());
  if (PyCapsule_IsValid(capsule.ptr(), kGpuCapsule) == 0) {
    return failed_part(true, std::string("h5feed._gpu is not a part of h5feed") + again);
  }
  const auto* const calls = static_cast<GpuCalls*>(PyCapsule_GetPointer(capsule.ptr(), kGpuCapsule));
  if (calls->build != kBuild) {
    return failed_part(true, std::string("h5feed._gpu is of another build than h5feed._core") + again);
  }
  static const GpuCalls* connected = nullptr;  // guarded by the GIL
  if (std::exchange(connected, calls) != calls) calls->set_log(&h5feed::log);
  return {.calls = calls};
}

// An owner on its way to `release_owners`. Memory is released on any thread, where the GIL may not be had:
// the interpreter may have ended, and a thread that holds the GIL may wait for this one.
struct Release {
  PyObject* owner = nullptr;
  Release* next = nullptr;
};

std::atomic<Release*> releases = nullptr;

// Deleter of pinned memory that Python owns.
struct PinnedOwner {
  Release* release;
  void operator()(std::byte*) const noexcept {
    release->next = releases.load(std::memory_order_relaxed);
    while (!releases.compare_exchange_weak(release->next, release, std::memory_order_release,
                                           std::memory_order_relaxed)) {
    }
  }
};

std::shared_ptr<std::byte> allocate_pinned(nb::handle allocate, std::size_t bytes) {
  const GilAcquire gil;
  const CallbackDepth depth;
  release_owners();
  try {
    auto release = std::make_unique<Release>();
    const nb::object made = allocate(bytes);
    auto* const address = reinterpret_cast<std::byte*>(nb::cast<std::uintptr_t>(made[0]));
    release->owner = nb::object(made[1]).release().ptr();
    // If this throws, it calls the deleter.
    return std::shared_ptr<std::byte>(address, PinnedOwner{release.release()});
  } catch (nb::python_error& error) {
    throw DeviceError(shown(error.value()));
  }
}

}  // namespace

void use_gpu_part(DataLoaderOptions& options, const nb::object& allocate) {
  const std::string name = options.device.name();
  const bool is_gpu = name.starts_with("cuda");
  if (!is_gpu && name != "auto" && !options.pin_memory) return;
  const GpuPart part = load_gpu_part();
  if (part.calls != nullptr) {
    PinnedAllocator allocator;
    if (options.pin_memory && allocate.is_valid()) {
      allocator = [call = nb::handle(allocate)](std::size_t bytes) { return allocate_pinned(call, bytes); };
    }
    options.device = part.calls->device(name, std::move(allocator));
    return;
  }
  if (is_gpu) {
    const std::string text = "device \"" + name + "\": " + part.why + ", or use device=\"cpu\"";
    if (part.installed) throw DeviceError(text);
    throw OptionError(text);
  }
  if (options.pin_memory)
    log_once(LogLevel::warning, "pin_memory: batches are in pageable memory; " + part.why);
  if (name == "auto") log_once(LogLevel::warning, "device \"auto\": batches go to the CPU; " + part.why);
  options.pin_memory = false;
  if (name == "auto") options.device = "cpu";
}

void release_owners() {
  Release* release = releases.exchange(nullptr, std::memory_order_acquire);
  while (release != nullptr) {
    const std::unique_ptr<Release> done(std::exchange(release, release->next));
    Py_DECREF(done->owner);
  }
}

nb::object owner_of_pinned(const std::shared_ptr<std::byte>& bytes) {
  const auto* const owner = std::get_deleter<PinnedOwner>(bytes);
  return owner != nullptr ? nb::borrow(owner->release->owner) : nb::object(nb::none());
}

void bind_gpu(nb::module_& module) {
  module.def(
      "why_no_gpu_part",
      [] {
        const GpuPart part = load_gpu_part();
        return part.calls != nullptr ? nb::object(nb::none()) : nb::object(text_of(part.why));
      },
      "Loads h5feed._gpu; returns None, or why it cannot be used.");
}

}  // namespace h5feed::python
