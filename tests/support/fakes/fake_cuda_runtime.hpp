// SPDX-License-Identifier: Apache-2.0
// Internals of the fake CUDA runtime, for its own source files.
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

#include "support/fakes/fake_cuda.hpp"

namespace h5feed::test::fake {

// State of a recorded event: `done` once everything enqueued before the record has run.
struct Completion {
  bool done = false;
};

struct Operation {
  std::function<void()> work;             // empty for records and waits
  std::shared_ptr<Completion> waits_for;  // null: runnable
  std::shared_ptr<Completion> completes;  // null: no record
};

}  // namespace h5feed::test::fake

// Types that the runtime's headers only declare.
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
  std::list<std::unique_ptr<CUstream_st>> streams;  // destroyed streams stay until their work is done
  std::vector<std::unique_ptr<CUstream_st>> default_streams;
  std::map<CUevent_st*, std::unique_ptr<CUevent_st>> events;
  std::map<char*, Memory> device_memory;
  std::map<char*, Memory> pinned;
  std::map<char*, Memory> registered;
  std::set<int> contexts;        // devices that have a context
  std::map<int, int> retained;   // number of cuDevicePrimaryCtxRetain calls by device
  std::set<int> made_by_retain;  // contexts that exist only because they were retained
  std::uint64_t calls = 0, fail_at = 0, operations = 0, fail_operation_at = 0, waits = 0, ignored_wait = 0;
  std::uint64_t pageable_copies = 0, pinned_copies = 0, pinned_copy_bytes = 0, host_waits = 0;
  std::map<std::string, std::uint64_t> calls_of;
  std::map<std::string, std::map<std::thread::id, std::uint64_t>> calls_by_thread;
  // By function name: which call fails, and with which error.
  std::map<std::string, std::pair<std::uint64_t, cudaError_t>> failing;
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
extern thread_local int chosen_device;                // set by cudaSetDevice
extern thread_local std::vector<int> pushed_devices;  // pushed by cuCtxPushCurrent; overrides `chosen_device`
extern thread_local cudaStreamCaptureMode capture_mode;
extern thread_local cudaError_t last_error;

/// Ends the program: reports something that the program under test must not do.
[[noreturn]] void misuse(const char* what);

/// Returns the runtime, which must exist.
Runtime& rt();

/// Keeps an error for cudaGetLastError and returns it.
cudaError_t remember(cudaError_t error);

/// Returns the device whose context a call of this thread uses.
int current_device();

/// Creates a context on the current device if there is none, as almost every call does.
void use_context(Runtime& r);

/// Start of every call that may fail and needs a context; call with the runtime's mutex held. Returns the
/// error that the call has to return.
cudaError_t enter(Runtime& r, const char* call = __builtin_FUNCTION());
/// Start of every call that may fail and needs no context; call with the runtime's mutex held. Returns the
/// error that the call has to return.
cudaError_t enter_without_context(Runtime& r, const char* call = __builtin_FUNCTION());

/// For calls that CUDA calls unsafe during a capture: ends the captures that forbid them, and returns the
/// error.
cudaError_t refused_by_capture(Runtime& r);
/// Start of a call that is unsafe during a capture: `enter` and `refused_by_capture`.
cudaError_t enter_unsafe(Runtime& r, const char* call = __builtin_FUNCTION());

// Functions on streams; call with the mutex held.
bool idle(const CUstream_st& stream);
void start(Runtime& r, CUstream_st& stream);
void enqueue_locked(Runtime& r, CUstream_st& stream, Operation operation);
std::vector<CUstream_st*> all_streams(Runtime& r);
/// Returns the stream of a handle; null if there is none.
CUstream_st* stream_of(Runtime& r, cudaStream_t handle);
/// Repeatedly runs the next operation of the first stream in `order` that is not waiting.
void run_manually(Runtime& r, const std::vector<CUstream_st*>& order, Lock& lock);
/// Blocks the host until `done` returns true.
void host_wait(Runtime& r, Lock& lock, const std::function<bool()>& done);

}  // namespace h5feed::test::fake
