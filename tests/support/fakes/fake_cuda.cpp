// SPDX-License-Identifier: Apache-2.0
#include "support/fakes/fake_cuda.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <utility>

#include "support/fakes/fake_cuda_runtime.hpp"

namespace h5feed::test {

using namespace fake;  // NOLINT: this is its outside

FakeCuda::FakeCuda(const FakeCudaSettings& settings) {
  if (runtime != nullptr) misuse("a second FakeCuda");
  runtime = new Runtime;
  runtime->settings = settings;
  runtime->random.seed(settings.seed);
  chosen_device = 0;
  pushed_devices.clear();
  capture_mode = cudaStreamCaptureModeGlobal;
  last_error = cudaSuccess;
  for (int device = 0; device < settings.devices; ++device) {
    auto stream = std::make_unique<CUstream_st>();
    stream->device = device;
    start(*runtime, *stream);
    runtime->default_streams.push_back(std::move(stream));
  }
}

FakeCuda::~FakeCuda() {
  Runtime& r = rt();
  if (r.settings.manual) run_all();
  {
    const Lock lock(r.mutex);
    r.stopping = true;
    r.changed.notify_all();
  }
  for (CUstream_st* stream : all_streams(r)) {
    if (stream->thread.joinable()) stream->thread.join();
  }
  for (const auto& [data, memory] : r.device_memory) std::free(data);
  for (const auto& [data, memory] : r.pinned) std::free(data);
  delete std::exchange(runtime, nullptr);
}

FakeCudaLive FakeCuda::live() const {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  FakeCudaLive live;
  live.streams =
      static_cast<std::size_t>(std::ranges::count_if(r.streams, [](const auto& s) { return s->live; }));
  live.events = r.events.size();
  live.device_allocations = r.device_memory.size();
  for (const auto& [data, memory] : r.device_memory) live.device_bytes += memory.bytes;
  live.pinned_allocations = r.pinned.size();
  live.registrations = r.registered.size();
  return live;
}

std::set<int> FakeCuda::contexts() const {
  const Lock lock(rt().mutex);
  return rt().contexts;
}

std::uint64_t FakeCuda::calls() const {
  const Lock lock(rt().mutex);
  return rt().calls;
}

void FakeCuda::fail_call(std::uint64_t n, cudaError_t error, bool sticky) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  r.fail_at = r.calls + n;
  r.fail_with = error;
  r.fail_sticky = sticky;
  r.failure_happened = false;
}

void FakeCuda::fail_call_of(const std::string& function, std::uint64_t n, cudaError_t error) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  r.failing[function] = {r.calls_of[function] + n, error};
  r.failure_happened = false;
}

std::uint64_t FakeCuda::calls_of(const std::string& function) const {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  return r.calls_of[function];
}

std::vector<std::uint64_t> FakeCuda::calls_by_thread(const std::string& function) const {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  std::vector<std::uint64_t> calls;
  for (const auto& [thread, count] : r.calls_by_thread[function]) calls.push_back(count);
  std::ranges::sort(calls, std::greater<>());
  return calls;
}

void FakeCuda::fail_operation(std::uint64_t n, cudaError_t error) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  r.fail_operation_at = r.operations + n;
  r.operation_error = error;
  r.failure_happened = false;
}

bool FakeCuda::failed() const {
  const Lock lock(rt().mutex);
  return rt().failure_happened;
}

std::uint64_t FakeCuda::stream_waits() const {
  const Lock lock(rt().mutex);
  return rt().waits;
}

void FakeCuda::ignore_stream_wait(std::uint64_t n) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  r.ignored_wait = n == 0 ? 0 : r.waits + n;
}

std::uint64_t FakeCuda::pageable_copies() const {
  const Lock lock(rt().mutex);
  return rt().pageable_copies;
}

std::uint64_t FakeCuda::pinned_copies() const {
  const Lock lock(rt().mutex);
  return rt().pinned_copies;
}

std::uint64_t FakeCuda::pinned_copy_bytes() const {
  const Lock lock(rt().mutex);
  return rt().pinned_copy_bytes;
}

std::uint64_t FakeCuda::host_waits() const {
  const Lock lock(rt().mutex);
  return rt().host_waits;
}

std::vector<cudaStream_t> FakeCuda::streams() const {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  std::vector<cudaStream_t> live;
  for (const auto& stream : r.streams) {
    if (stream->live) live.push_back(stream.get());
  }
  return live;
}

std::size_t FakeCuda::pending(cudaStream_t stream) const {
  const Lock lock(rt().mutex);
  return stream->queue.size() + (stream->busy ? 1 : 0);
}

void FakeCuda::run(const std::vector<cudaStream_t>& order) {
  Lock lock(rt().mutex);
  run_manually(rt(), order, lock);
}

void FakeCuda::run_all() {
  Runtime& r = rt();
  Lock lock(r.mutex);
  auto order = all_streams(r);
  std::ranges::reverse(order);
  run_manually(r, order, lock);
}

void FakeCuda::enqueue(cudaStream_t stream, std::function<void()> work) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  CUstream_st* const target = stream_of(r, stream);
  if (target == nullptr) misuse("work for a stream that does not exist");
  enqueue_locked(r, *target, {std::move(work), {}, {}});
}

cudaError_t fake_launch(cudaStream_t stream, std::function<void()> kernel) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  CUstream_st* const target = stream_of(r, stream);
  if (target == nullptr || target->device != current_device())
    return remember(cudaErrorInvalidResourceHandle);
  enqueue_locked(r, *target, {std::move(kernel), {}, {}});
  return cudaSuccess;
}

}  // namespace h5feed::test
