// A CUDA runtime without a GPU, linked instead of libcudart: memory of devices is host memory, streams are
// threads or, in manual mode, queues that the test runs in the order it chooses. Only what cuda/ calls is
// there. What CUDA leaves open between streams the fake uses: copies are delayed at random, and streams
// wait for nothing but events.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace h5feed::test {

struct FakeCudaSettings {
  int devices = 1;
  std::size_t memory_bytes = std::size_t{1} << 30;  ///< of each device
  bool manual = false;                              ///< nothing runs until `run` or a synchronizing call
  unsigned seed = 1;                                ///< of the delays
  cudaError_t device_count_error = cudaSuccess;     ///< what a machine without a usable GPU answers
  int driver_version = 13000;
  std::set<int> busy_devices = {};  ///< another process has them for itself
  bool refuse_register = false;
  bool refuse_host_alloc = false;
};

/// Objects of the program under test that exist now.
struct FakeCudaLive {
  std::size_t streams = 0, events = 0, device_allocations = 0, device_bytes = 0, pinned_allocations = 0,
              registrations = 0;
  bool operator==(const FakeCudaLive&) const = default;
};

/// One runtime for the process, as CUDA has it; at most one object at a time. The constructor starts it
/// anew, the destructor waits for the streams and forgets all.
class FakeCuda {
 public:
  explicit FakeCuda(const FakeCudaSettings& settings = {});
  FakeCuda(const FakeCuda&) = delete;
  FakeCuda& operator=(const FakeCuda&) = delete;
  ~FakeCuda();

  FakeCudaLive live() const;

  /// Devices that the process has a context on, of some hundred MiB on a real one. As on CUDA 12 and later
  /// cudaSetDevice makes one, and so does almost every call, on the device that is current for its thread.
  std::set<int> contexts() const;

  /// Calls that may fail, since the start. Destroying and freeing calls never fail and do not count.
  std::uint64_t calls() const;
  /// The n-th such call from now on (1 is the next) returns `error`; all later ones too where `sticky`.
  void fail_call(std::uint64_t n, cudaError_t error, bool sticky = false);
  /// The n-th call from now on of one function of the runtime returns `error`.
  void fail_call_of(const std::string& function, std::uint64_t n, cudaError_t error);
  /// Calls of one function since the start.
  std::uint64_t calls_of(const std::string& function) const;
  /// The n-th operation from now on that runs on a stream ends the context with `error`.
  void fail_operation(std::uint64_t n, cudaError_t error);
  /// Whether a failure asked for has happened.
  bool failed() const;

  /// Calls of cudaStreamWaitEvent since the start.
  std::uint64_t stream_waits() const;
  /// The n-th of them from now on succeeds and does nothing; 0: none.
  void ignore_stream_wait(std::uint64_t n);

  /// Copies from host memory that is not pinned, and from pinned memory.
  std::uint64_t pageable_copies() const;
  std::uint64_t pinned_copies() const;
  std::uint64_t pinned_copy_bytes() const;
  /// Times the host waited for the device by a synchronizing call.
  std::uint64_t host_waits() const;

  /// Streams that exist, oldest first.
  std::vector<cudaStream_t> streams() const;
  /// Operations on a stream that have not run.
  std::size_t pending(cudaStream_t stream) const;
  /// Manual mode: runs what can run, each time the next operation of the first stream in `order` that is
  /// not waiting. Streams that are not named do not run.
  void run(const std::vector<cudaStream_t>& order);
  /// Manual mode: all streams, newest first, until all are done.
  void run_all();

  /// Puts work of the test on a stream: what a kernel of the consumer does.
  void enqueue(cudaStream_t stream, std::function<void()> work);
};

/// For fakes of kernel launches: counts as a call, checks the stream, and enqueues.
cudaError_t fake_launch(cudaStream_t stream, std::function<void()> kernel);

}  // namespace h5feed::test
