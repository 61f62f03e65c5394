// SPDX-License-Identifier: Apache-2.0
// DataLoader in Python.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "h5feed/data_loader.hpp"
#include "python/src/dataset.hpp"
#include "python/src/process.hpp"

namespace h5feed::python {

namespace nb = nanobind;

/// A loader, its callbacks, and the rules of Python's iteration. All members are used with the GIL held. One
/// thread at a time may use the loader: a second one gets RuntimeError. `close` may be called from any
/// thread.
class PyLoader {
 public:
  /// Makes the loader. `given` has the options, and as callbacks `sampler` (epoch → int64 array),
  /// `batch_sampler` (epoch → (int64 array, int64 array of batch sizes)) with `max_batch_size`,
  /// `worker_init_fn`, and `pinned_allocator` as `use_gpu_part` takes it.
  PyLoader(const PyDataset& dataset, const nb::dict& given);
  ~PyLoader() { close(); }

  /// Starts an iteration and returns its number, which `next` takes: of the next epoch if every batch of the
  /// running one was delivered, whether or not its end was asked for. Otherwise that epoch starts again, from
  /// its beginning or from the restored position.
  std::uint64_t start();
  /// Returns the next batch of iteration `number`, None at its end. Raises RuntimeError if a newer iteration
  /// has started, or the loader is closed. Waits without the GIL, and handles signals every 50 ms. What a
  /// signal handler or a handler of the log raises loses no batch.
  nb::object next(std::uint64_t number);
  /// Returns the next batch as `next` does, in GPU memory that `provide` supplies: a function from the
  /// ordinal of the GPU and (dtype, shape, strides in elements) of the data, of the target if there is one,
  /// and of each of `DeviceTensors::fields`, to (stream, address of each of these tensors).
  nb::object next_into(std::uint64_t number, const nb::object& provide);
  /// Returns the ordinal of the GPU that batches are delivered to; None for the CPU.
  nb::object device() const { return device_ ? nb::cast(*device_) : nb::object(nb::none()); }
  /// Returns the batches of a whole epoch.
  std::uint64_t size();
  /// Returns the number of the epoch being delivered, else of the next one.
  std::uint64_t epoch() const noexcept { return epoch_; }
  /// Selects the epoch that starts next. Does nothing for the epoch that `restore` selected, and for a
  /// running one of which nothing was delivered.
  void set_epoch(std::uint64_t epoch);
  void warm_up();
  nb::tuple state();
  void restore(const nb::bytes& saved);
  nb::dict stats();
  nb::dict options();
  std::string report();
  std::optional<std::string> verdict();
  PlanReport plan();
  bool closed() const noexcept { return held_ == nullptr; }
  /// Ends the loader; a thread that waits in `next` gets RuntimeError. Waits up to a second for that thread.
  void close();

  int traverse(visitproc visit, void* arg) const;
  /// Breaks reference cycles through the callbacks.
  void clear();

 private:
  // Marks the loader as in use by this thread.
  class Use {
   public:
    explicit Use(PyLoader& loader);
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() { loader_.user_ = std::thread::id(); }

   private:
    PyLoader& loader_;
  };

  // Shared ownership of the loader during a call. Its end may be that of the loader, whose workers may need
  // the GIL to end.
  class Lease {
   public:
    explicit Lease(std::shared_ptr<DataLoader> loader) : loader_(std::move(loader)) {}
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease();
    DataLoader& operator*() const noexcept { return *loader_; }
    DataLoader* operator->() const noexcept { return loader_.get(); }

   private:
    std::shared_ptr<DataLoader> loader_;
  };

  // Returns the loader. Raises RuntimeError if it is closed, or was made before the process forked.
  Lease get() const;
  // Returns whether every batch of the running epoch was delivered, or failed. Without a position, for epochs
  // of as many batches as the first.
  bool all_delivered(const DataLoader& loader) const;
  nb::object take(std::uint64_t number, nb::handle provide);
  OptionalBatch<Batch> wait_for_next(DataLoader& loader, nb::handle provide);

  nb::object sampler_;
  nb::object batch_sampler_;
  nb::object worker_init_fn_;
  nb::object pinned_allocator_;
  std::optional<int> device_;                    // the GPU that batches are delivered to
  std::unique_ptr<OfProcess<DataLoader>> held_;  // null once closed
  std::atomic<std::thread::id> user_ = {};       // the thread inside a call; none by default
  std::atomic<bool> closing_ = false;
  std::uint64_t iteration_ = 0;
  std::uint64_t epoch_ = 0;
  bool has_position_ = true;  // `DataLoader::state` does not throw
  bool running_ = false;      // the iteration started and has not ended
  bool delivered_ = false;    // the running iteration delivered or failed at least once
  std::uint64_t taken_ = 0;   // batches of the running iteration that were delivered or failed
  std::uint64_t errors_ = 0;  // batches known to have failed
  bool restored_ = false;     // nothing was delivered since `restore`
};

/// Binds the loader and `plan`.
void bind_loader(nb::module_& module);

}  // namespace h5feed::python
