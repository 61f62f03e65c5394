#include "support/fake_cuda.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

namespace {

// Set when everything enqueued before a record has run.
struct Completion {
  bool done = false;
};

struct Operation {
  std::function<void()> work;             // empty for records and waits
  std::shared_ptr<Completion> waits_for;  // null: runnable
  std::shared_ptr<Completion> completes;  // null: no record
};

}  // namespace

// The types that the runtime's headers only declare.
struct CUstream_st {
  int device = 0;
  bool live = true;
  bool busy = false;  // an operation is running
  std::deque<Operation> queue = {};
  std::thread thread = {};
};

struct CUevent_st {
  int device = 0;
  std::shared_ptr<Completion> latest = {};
};

namespace h5feed::test {
namespace {

struct Memory {
  std::size_t bytes = 0;
  int device = 0;
};

struct Runtime {
  FakeCudaSettings settings;
  std::mutex mutex;
  std::condition_variable changed;
  std::mt19937 random{1};
  std::list<std::unique_ptr<CUstream_st>> streams;  // destroyed ones stay until their work is done
  std::vector<std::unique_ptr<CUstream_st>> default_streams;
  std::map<CUevent_st*, std::unique_ptr<CUevent_st>> events;
  std::map<char*, Memory> device_memory;
  std::map<char*, Memory> pinned;
  std::map<char*, Memory> registered;
  std::uint64_t calls = 0, fail_at = 0, operations = 0, fail_operation_at = 0, waits = 0, ignored_wait = 0;
  std::uint64_t pageable_copies = 0, pinned_copies = 0, host_waits = 0;
  cudaError_t fail_with = cudaSuccess;
  bool fail_sticky = false;
  cudaError_t operation_error = cudaSuccess;
  cudaError_t sticky = cudaSuccess;
  bool failure_happened = false;
  bool stopping = false;
};

// Never destroyed: threads of streams may outlive main().
Runtime* runtime = nullptr;
thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

using Lock = std::unique_lock<std::mutex>;

[[noreturn]] void misuse(const char* what) {
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

// Every call that may fail begins here.
cudaError_t enter(Runtime& r) {
  ++r.calls;
  if (r.sticky != cudaSuccess) return remember(r.sticky);
  if (r.fail_at != 0 && r.calls == r.fail_at) {
    r.failure_happened = true;
    if (r.fail_sticky) r.sticky = r.fail_with;
    return remember(r.fail_with);
  }
  return cudaSuccess;
}

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

// Waits, as the host does, until `done`.
template <typename Done>
void host_wait(Runtime& r, Lock& lock, Done done) {
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
  if (handle == nullptr) return r.default_streams[static_cast<std::size_t>(current_device)].get();
  for (const auto& stream : r.streams) {
    if (stream.get() == handle) return stream->live ? handle : nullptr;
  }
  return nullptr;
}

// The piece of memory that holds [begin, begin + bytes); null where none does.
const Memory* memory_at(const std::map<char*, Memory>& map, const void* begin, std::size_t bytes) {
  auto* const at = static_cast<char*>(const_cast<void*>(begin));
  auto found = map.upper_bound(at);
  if (found == map.begin()) return nullptr;
  --found;
  return at + bytes <= found->first + found->second.bytes ? &found->second : nullptr;
}

void enqueue_locked(Runtime& r, CUstream_st& stream, Operation operation) {
  stream.queue.push_back(std::move(operation));
  r.changed.notify_all();
}

}  // namespace

FakeCuda::FakeCuda(const FakeCudaSettings& settings) {
  if (runtime != nullptr) misuse("a second FakeCuda");
  runtime = new Runtime;
  runtime->settings = settings;
  runtime->random.seed(settings.seed);
  current_device = 0;
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
  if (target == nullptr || target->device != current_device) return remember(cudaErrorInvalidResourceHandle);
  enqueue_locked(r, *target, {std::move(kernel), {}, {}});
  return cudaSuccess;
}

}  // namespace h5feed::test

using namespace h5feed::test;  // NOLINT: the functions below have the runtime's names

extern "C" {

cudaError_t CUDARTAPI cudaGetDeviceCount(int* count) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  *count = 0;
  if (r.settings.device_count_error != cudaSuccess) return remember(r.settings.device_count_error);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  *count = r.settings.devices;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetDevice(int* device) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  *device = current_device;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaSetDevice(int device) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  if (device < 0 || device >= r.settings.devices) return remember(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDriverGetVersion(int* version) {
  const Lock lock(rt().mutex);
  *version = rt().settings.driver_version;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  std::snprintf(text, static_cast<std::size_t>(bytes), "0000:%02x:00.0", device + 0x19);
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  *value = attribute == cudaDevAttrMultiProcessorCount ? 4 : 0;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMemGetInfo(size_t* free, size_t* total) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  *total = r.settings.memory_bytes;
  *free = r.settings.memory_bytes;
  for (const auto& [data, memory] : r.device_memory) {
    if (memory.device == current_device) *free -= memory.bytes;
  }
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMalloc(void** data, size_t bytes) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  std::size_t used = 0;
  for (const auto& [begin, memory] : r.device_memory)
    used += memory.device == current_device ? memory.bytes : 0;
  if (used + bytes > r.settings.memory_bytes) return remember(cudaErrorMemoryAllocation);
  const std::size_t rounded = (bytes + 255) / 256 * 256;
  *data = std::aligned_alloc(256, rounded);
  // Fresh memory of a device holds anything.
  std::memset(*data, 0xCD, rounded);
  r.device_memory[static_cast<char*>(*data)] = {bytes, current_device};
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaFree(void* data) {
  Runtime& r = rt();
  Lock lock(r.mutex);
  if (data == nullptr) return cudaSuccess;
  const auto found = r.device_memory.find(static_cast<char*>(data));
  if (found == r.device_memory.end()) misuse("cudaFree of memory that is not allocated");
  const int device = found->second.device;
  host_wait(r, lock, [&] {
    return std::ranges::all_of(all_streams(r),
                               [&](CUstream_st* s) { return s->device != device || idle(*s); });
  });
  r.device_memory.erase(static_cast<char*>(data));
  std::free(data);
  return remember(r.sticky);
}

cudaError_t CUDARTAPI cudaHostAlloc(void** data, size_t bytes, unsigned int) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  if (r.settings.refuse_host_alloc) return remember(cudaErrorMemoryAllocation);
  const std::size_t rounded = (bytes + 4095) / 4096 * 4096;
  *data = std::aligned_alloc(4096, rounded);
  r.pinned[static_cast<char*>(*data)] = {bytes, 0};
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaFreeHost(void* data) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (r.pinned.erase(static_cast<char*>(data)) == 0) misuse("cudaFreeHost of memory that is not allocated");
  std::free(data);
  return remember(r.sticky);
}

cudaError_t CUDARTAPI cudaHostRegister(void* data, size_t bytes, unsigned int) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  if (r.settings.refuse_register) return remember(cudaErrorMemoryAllocation);
  r.registered[static_cast<char*>(data)] = {bytes, 0};
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaHostUnregister(void* data) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (r.registered.erase(static_cast<char*>(data)) == 0) misuse("cudaHostUnregister of other memory");
  return remember(r.sticky);
}

cudaError_t CUDARTAPI cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                      cudaStream_t stream) {
  Runtime& r = rt();
  Lock lock(r.mutex);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  CUstream_st* const target = stream_of(r, stream);
  if (target == nullptr) return remember(cudaErrorInvalidResourceHandle);
  if (memory_at(r.device_memory, to, bytes) == nullptr) return remember(cudaErrorInvalidValue);
  const auto copy = [=] { std::memcpy(to, from, bytes); };
  if (kind == cudaMemcpyDeviceToDevice) {
    if (memory_at(r.device_memory, from, bytes) == nullptr) return remember(cudaErrorInvalidValue);
    enqueue_locked(r, *target, {copy, {}, {}});
    return cudaSuccess;
  }
  if (kind != cudaMemcpyHostToDevice) return remember(cudaErrorInvalidMemcpyDirection);
  if (memory_at(r.pinned, from, bytes) != nullptr || memory_at(r.registered, from, bytes) != nullptr) {
    ++r.pinned_copies;
    enqueue_locked(r, *target, {copy, {}, {}});
    return cudaSuccess;
  }
  // From pageable memory the runtime takes the bytes before it returns.
  ++r.pageable_copies;
  const auto staged = std::make_shared<std::vector<char>>(static_cast<const char*>(from),
                                                          static_cast<const char*>(from) + bytes);
  enqueue_locked(r, *target, {[=] { std::memcpy(to, staged->data(), bytes); }, {}, {}});
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  CUstream_st* const target = stream_of(r, stream);
  if (target == nullptr) return remember(cudaErrorInvalidResourceHandle);
  if (memory_at(r.device_memory, data, bytes) == nullptr) return remember(cudaErrorInvalidValue);
  enqueue_locked(r, *target, {[=] { std::memset(data, value, bytes); }, {}, {}});
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  auto made = std::make_unique<CUstream_st>();
  made->device = current_device;
  *stream = made.get();
  start(r, *made);
  r.streams.push_back(std::move(made));
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t stream) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (stream_of(r, stream) == nullptr) misuse("cudaStreamDestroy of a stream that does not exist");
  stream->live = false;
  return remember(r.sticky);
}

cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  ++r.waits;
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  CUstream_st* const target = stream_of(r, stream);
  if (target == nullptr || !r.events.contains(event)) return remember(cudaErrorInvalidResourceHandle);
  if (r.ignored_wait == r.waits || !event->latest) return cudaSuccess;
  enqueue_locked(r, *target, {{}, event->latest, {}});
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamQuery(cudaStream_t stream) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  CUstream_st* const target = stream_of(r, stream);
  if (target == nullptr) return remember(cudaErrorInvalidResourceHandle);
  return idle(*target) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t stream) {
  Runtime& r = rt();
  Lock lock(r.mutex);
  const cudaError_t error = enter(r);
  CUstream_st* const target = stream_of(r, stream);
  if (target == nullptr) return remember(cudaErrorInvalidResourceHandle);
  // Also with an error the work is over when the call returns.
  host_wait(r, lock, [&] { return idle(*target); });
  return error != cudaSuccess ? error : remember(r.sticky);
}

cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  auto made = std::make_unique<CUevent_st>();
  made->device = current_device;
  *event = made.get();
  r.events[made.get()] = std::move(made);
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (r.events.erase(event) == 0) misuse("cudaEventDestroy of an event that does not exist");
  return remember(r.sticky);
}

cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  CUstream_st* const target = stream_of(r, stream);
  if (target == nullptr || !r.events.contains(event) || event->device != target->device) {
    return remember(cudaErrorInvalidResourceHandle);
  }
  event->latest = std::make_shared<Completion>();
  enqueue_locked(r, *target, {{}, {}, event->latest});
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t event) {
  Runtime& r = rt();
  const Lock lock(r.mutex);
  if (const cudaError_t error = enter(r); error != cudaSuccess) return error;
  if (!r.events.contains(event)) return remember(cudaErrorInvalidResourceHandle);
  return !event->latest || event->latest->done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t event) {
  Runtime& r = rt();
  Lock lock(r.mutex);
  const cudaError_t error = enter(r);
  if (!r.events.contains(event)) return remember(cudaErrorInvalidResourceHandle);
  if (const auto latest = event->latest) {
    host_wait(r, lock, [&] { return latest->done; });
  }
  return error;
}

const char* CUDARTAPI cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorLaunchOutOfResources:
      return "cudaErrorLaunchOutOfResources";
    default:
      return "an error of the fake";
  }
}

const char* CUDARTAPI cudaGetErrorString(cudaError_t) { return "words of the fake"; }

cudaError_t CUDARTAPI cudaGetLastError(void) { return std::exchange(last_error, cudaSuccess); }

}  // extern "C"
