// The inside of the fake CUDA runtime, for its own source files.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/fake_cuda.hpp"

namespace h5feed::test::fake {

// Set when everything enqueued before a record has run.
struct Completion {
  bool done = false;
};

struct Operation {
  std::function<void()> work;             // empty for records and waits
  std::shared_ptr<Completion> waits_for;  // null: runnable
  std::shared_ptr<Completion> completes;  // null: no record
};

}  // namespace h5feed::test::fake

// The types that the runtime's headers only declare.
struct CUstream_st {
  int device = 0;
  bool live = true;
  bool busy = false;  // an operation is running
  bool capturing = false;
  bool capture_broken = false;
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
  std::thread::id captured_by = {};
  std::deque<h5feed::test::fake::Operation> queue = {};
  std::thread thread = {};
};

struct CUevent_st {
  int device = 0;
  std::shared_ptr<h5feed::test::fake::Completion> latest = {};
};

namespace h5feed::test::fake {

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
  std::set<int> contexts;        // devices that have one
  std::map<int, int> retained;   // by the driver's calls
  std::set<int> made_by_retain;  // nobody else holds these
  std::uint64_t calls = 0, fail_at = 0, operations = 0, fail_operation_at = 0, waits = 0, ignored_wait = 0;
  std::uint64_t pageable_copies = 0, pinned_copies = 0, pinned_copy_bytes = 0, host_waits = 0;
  std::map<std::string, std::uint64_t> calls_of;
  std::map<std::string, std::pair<std::uint64_t, cudaError_t>> failing;  // by name: which one, and how
  cudaError_t fail_with = cudaSuccess;
  bool fail_sticky = false;
  cudaError_t operation_error = cudaSuccess;
  cudaError_t sticky = cudaSuccess;
  bool failure_happened = false;
  bool stopping = false;
};

using Lock = std::unique_lock<std::mutex>;

// Never destroyed: threads of streams may outlive main().
extern Runtime* runtime;
extern thread_local int chosen_device;                // by cudaSetDevice
extern thread_local std::vector<int> pushed_devices;  // by cuCtxPushCurrent, on top of that
extern thread_local cudaStreamCaptureMode capture_mode;
extern thread_local cudaError_t last_error;

/// Ends the program: what the program under test must not do.
[[noreturn]] void misuse(const char* what);

/// The runtime, which must exist.
Runtime& rt();

/// Keeps an error for cudaGetLastError.
cudaError_t remember(cudaError_t error);

/// The device whose context a call of this thread uses.
int current_device();

/// What a call leaves that needs a context, as almost all do: one on the current device.
void use_context(Runtime& r);

/// Every call that may fail begins here, with the runtime's mutex held; those that need no context with the
/// second.
cudaError_t enter(Runtime& r, const char* call = __builtin_FUNCTION());
cudaError_t enter_without_context(Runtime& r, const char* call = __builtin_FUNCTION());

/// Calls that CUDA calls unsafe during a capture: they end the captures that forbid them, and fail.
cudaError_t refused_by_capture(Runtime& r);
/// `enter` of such a call.
cudaError_t enter_unsafe(Runtime& r, const char* call = __builtin_FUNCTION());

// Of streams; with the mutex held.
bool idle(const CUstream_st& stream);
void start(Runtime& r, CUstream_st& stream);
void enqueue_locked(Runtime& r, CUstream_st& stream, Operation operation);
std::vector<CUstream_st*> all_streams(Runtime& r);
/// The stream of a handle; null where there is none.
CUstream_st* stream_of(Runtime& r, cudaStream_t handle);
/// Runs what can run, each time the next operation of the first stream in `order` that is not waiting.
void run_manually(Runtime& r, const std::vector<CUstream_st*>& order, Lock& lock);
/// Waits, as the host does, until `done`.
void host_wait(Runtime& r, Lock& lock, const std::function<bool()>& done);

}  // namespace h5feed::test::fake
