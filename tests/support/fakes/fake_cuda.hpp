// SPDX-License-Identifier: Apache-2.0
// A CUDA runtime without a GPU, linked instead of libcudart: device memory is host memory; streams are
// threads or, in manual mode, queues that the test runs in the order it chooses. Only functions that cuda/
// calls exist. The fake exploits all freedom that CUDA leaves between streams: copies are delayed at random,
// and streams wait only for events.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace h5feed::test {

/// Properties of the simulated machine.
struct FakeCudaSettings {
  int devices = 1;
  std::size_t memory_bytes = std::size_t{1} << 30;  ///< memory of each device
  int l2_cache_bytes = 50 << 20;                    ///< L2 cache of each device
  bool manual = false;                              ///< nothing runs until `run` or a synchronizing call
  unsigned seed = 1;                                ///< seed of the random delays
  cudaError_t device_count_error = cudaSuccess;     ///< result of cudaGetDeviceCount
  int driver_version = 13000;
  std::set<int> busy_devices = {};         ///< devices in exclusive use by another process
  std::function<void()> before_copy = {};  ///< called on the stream's thread before a copy from pinned memory
  bool refuse_register = false;
  bool refuse_host_alloc = false;
};

/// Counts of CUDA objects that the program under test holds now.
struct FakeCudaLive {
  std::size_t streams = 0, events = 0, device_allocations = 0, device_bytes = 0, pinned_allocations = 0,
              registrations = 0;
  bool operator==(const FakeCudaLive&) const = default;
};

/// The fake runtime of the process; at most one instance at a time. The constructor starts a fresh runtime,
/// the destructor waits for the streams and discards everything.
class FakeCuda {
 public:
  explicit FakeCuda(const FakeCudaSettings& settings = {});
  FakeCuda(const FakeCuda&) = delete;
  FakeCuda& operator=(const FakeCuda&) = delete;
  ~FakeCuda();

  /// Returns the counts of objects that exist now.
  FakeCudaLive live() const;

  /// Returns the devices on which the process has a context, which takes some hundred MiB on a real GPU. As
  /// on CUDA 12 and later, cudaSetDevice creates one, and so does almost every call, on the device that is
  /// current for its thread.
  std::set<int> contexts() const;

  /// Number of calls since the start that may fail. Calls that destroy or free never fail and do not count.
  std::uint64_t calls() const;
  /// Makes the n-th call that may fail from now on (1 is the next) return `error`, and all later ones if
  /// `sticky`.
  void fail_call(std::uint64_t n, cudaError_t error, bool sticky = false);
  /// Makes the n-th call from now on of one runtime function return `error`.
  void fail_call_of(const std::string& function, std::uint64_t n, cudaError_t error);
  /// Number of calls of one function since the start.
  std::uint64_t calls_of(const std::string& function) const;
  /// Number of calls of one function since the start by each thread that made any, largest first.
  std::vector<std::uint64_t> calls_by_thread(const std::string& function) const;
  /// Makes the n-th operation from now on that runs on a stream end the context with `error`.
  void fail_operation(std::uint64_t n, cudaError_t error);
  /// Returns whether a requested failure has happened.
  bool failed() const;

  /// Number of calls of cudaStreamWaitEvent since the start.
  std::uint64_t stream_waits() const;
  /// Makes the n-th cudaStreamWaitEvent from now on succeed without effect; 0: none.
  void ignore_stream_wait(std::uint64_t n);

  /// Number of launches of the normalize kernel with streaming stores.
  std::uint64_t streaming_launches() const;
  /// Number of copies from host memory that is not pinned.
  std::uint64_t pageable_copies() const;
  /// Number of copies from pinned memory.
  std::uint64_t pinned_copies() const;
  /// Bytes copied from pinned memory.
  std::uint64_t pinned_copy_bytes() const;
  /// Number of times the host waited for the device in a synchronizing call.
  std::uint64_t host_waits() const;

  /// Returns the existing streams, oldest first.
  std::vector<cudaStream_t> streams() const;
  /// Number of operations on a stream that have not run.
  std::size_t pending(cudaStream_t stream) const;
  /// Manual mode: repeatedly runs the next operation of the first stream in `order` that is not waiting,
  /// until none can run. Other streams do not run.
  void run(const std::vector<cudaStream_t>& order);
  /// Manual mode: runs all streams, newest first, until all are done.
  void run_all();

  /// Enqueues work of the test on a stream, as a consumer's kernel would be.
  void enqueue(cudaStream_t stream, std::function<void()> work);
};

/// For fakes of kernel launches: counts as a call, checks the stream, and enqueues `kernel`. `streams`:
/// whether the kernel uses streaming stores.
cudaError_t fake_launch(cudaStream_t stream, std::function<void()> kernel, bool streams = false);

}  // namespace h5feed::test
