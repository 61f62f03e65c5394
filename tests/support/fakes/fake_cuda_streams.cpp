// SPDX-License-Identifier: Apache-2.0
// How the streams of the fake runtime run their work, and what the host waits for.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "support/fakes/fake_cuda_runtime.hpp"

namespace h5feed::test::fake {

Runtime* runtime = nullptr;
thread_local int chosen_device = 0;
thread_local std::vector<int> pushed_devices;
thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
thread_local cudaError_t last_error = cudaSuccess;

void misuse(const char* what) {
  std::fprintf(stderr, "fake CUDA: %s\n", what);
  std::abort();
}

Runtime& rt() {
  if (runtime == nullptr) misuse("a call while no FakeCuda exists");
  return *runtime;
}

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

int current_device() { return pushed_devices.empty() ? chosen_device : pushed_devices.back(); }

void use_context(Runtime& r) { r.contexts.insert(current_device()); }

cudaError_t refused_by_capture(Runtime& r) {
  if (capture_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  bool refused = false;
  for (const auto& stream : r.streams) {
    const bool here = stream->captured_by == std::this_thread::get_id();
    const bool forbids = here ? stream->capture_mode != cudaStreamCaptureModeRelaxed
                              : stream->capture_mode == cudaStreamCaptureModeGlobal &&
                                    capture_mode == cudaStreamCaptureModeGlobal;
    if (!stream->capturing || !forbids) continue;
    stream->capture_broken = refused = true;
  }
  return refused ? remember(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

cudaError_t enter_unsafe(Runtime& r, const char* call) {
  if (const cudaError_t error = enter(r, call); error != cudaSuccess) return error;
  return refused_by_capture(r);
}

cudaError_t enter(Runtime& r, const char* call) {
  use_context(r);
  return enter_without_context(r, call);
}

cudaError_t enter_without_context(Runtime& r, const char* call) {
  ++r.calls;
  const std::uint64_t number = ++r.calls_of[call];
  ++r.calls_by_thread[call][std::this_thread::get_id()];
  if (r.sticky != cudaSuccess) return remember(r.sticky);
  if (const auto failing = r.failing.find(call);
      failing != r.failing.end() && failing->second.first == number) {
    r.failure_happened = true;
    return remember(failing->second.second);
  }
  if (r.fail_at != 0 && r.calls == r.fail_at) {
    r.failure_happened = true;
    if (r.fail_sticky) r.sticky = r.fail_with;
    return remember(r.fail_with);
  }
  return cudaSuccess;
}

namespace {

bool waiting(const Operation& operation) { return operation.waits_for && !operation.waits_for->done; }

bool runnable(const CUstream_st& stream) {
  return !stream.queue.empty() && !stream.busy && !waiting(stream.queue.front());
}

void run_front(Runtime& r, CUstream_st& stream, Lock& lock) {
  Operation operation = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (operation.work) {
    ++r.operations;
    if (r.fail_operation_at != 0 && r.operations == r.fail_operation_at) {
      r.failure_happened = true;
      r.sticky = r.operation_error;
    }
    const unsigned delay = r.settings.manual ? 0 : static_cast<unsigned>(r.random() % 8);
    stream.busy = true;
    lock.unlock();
    if (delay > 4) {
      std::this_thread::sleep_for(std::chrono::microseconds(20 * delay));
    } else if (delay > 0) {
      std::this_thread::yield();
    }
    operation.work();
    operation.work = nullptr;
    lock.lock();
    stream.busy = false;
  }
  if (operation.completes) operation.completes->done = true;
  r.changed.notify_all();
}

void serve(Runtime& r, CUstream_st& stream) {
  Lock lock(r.mutex);
  while (true) {
    r.changed.wait(lock, [&] { return runnable(stream) || (r.stopping && stream.queue.empty()); });
    if (!runnable(stream)) return;
    run_front(r, stream, lock);
  }
}

}  // namespace

void start(Runtime& r, CUstream_st& stream) {
  if (!r.settings.manual) stream.thread = std::thread([&r, &stream] { serve(r, stream); });
}

std::vector<CUstream_st*> all_streams(Runtime& r) {
  std::vector<CUstream_st*> all;
  for (const auto& stream : r.default_streams) all.push_back(stream.get());
  for (const auto& stream : r.streams) all.push_back(stream.get());
  return all;
}

void run_manually(Runtime& r, const std::vector<CUstream_st*>& order, Lock& lock) {
  while (true) {
    const auto next = std::ranges::find_if(order, [](CUstream_st* s) { return runnable(*s); });
    if (next == order.end()) return;
    run_front(r, **next, lock);
  }
}

void host_wait(Runtime& r, Lock& lock, const std::function<bool()>& done) {
  ++r.host_waits;
  if (r.settings.manual) {
    auto order = all_streams(r);
    std::ranges::reverse(order);
    run_manually(r, order, lock);
    if (!done()) misuse("streams wait for each other in a circle");
    return;
  }
  r.changed.wait(lock, done);
}

bool idle(const CUstream_st& stream) { return stream.queue.empty() && !stream.busy; }

CUstream_st* stream_of(Runtime& r, cudaStream_t handle) {
  if (handle == nullptr) return r.default_streams[static_cast<std::size_t>(current_device())].get();
  for (const auto& stream : r.streams) {
    if (stream.get() == handle) return stream->live ? handle : nullptr;
  }
  return nullptr;
}

void enqueue_locked(Runtime& r, CUstream_st& stream, Operation operation) {
  if (stream.capturing) return;  // becomes part of a graph, which is never run
  stream.queue.push_back(std::move(operation));
  r.changed.notify_all();
}

}  // namespace h5feed::test::fake
