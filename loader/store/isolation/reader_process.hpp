// SPDX-License-Identifier: Apache-2.0
// The process that calls libhdf5 for this one (`DatasetOptions::isolation`): its start, its limits, and its
// end.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/files/file_descriptor.hpp"
#include "base/mutex.hpp"
#include "store/isolation/requests.hpp"

namespace h5feed {

/// Serializes the requests to all reading processes, and keeps a fork from coming between. Never destroyed.
extern Mutex isolation_mutex;

/// Limits of the process that reads metadata.
struct IsolationLimits {
  std::chrono::milliseconds time{60'000};               ///< For one request
  std::uint64_t memory_bytes = std::uint64_t{4} << 30;  ///< Address space; 0: no limit
  std::filesystem::path program = {};                   ///< Program to start; empty: `find_reader_program()`
};

/// Returns the path of h5feed-reader: that in the environment variable H5FEED_READER, else next to this code,
/// or where it is installed. Throws FileError if it is not there.
std::filesystem::path find_reader_program();

/// A process that answers requests, one at a time. It is started by the first request, and again by the next
/// one after it has died. Not thread-safe, except that a fork of this process starts its own one.
class ReaderProcess {
 public:
  explicit ReaderProcess(IsolationLimits limits) : limits_(std::move(limits)) {}
  ReaderProcess(const ReaderProcess&) = delete;
  ReaderProcess& operator=(const ReaderProcess&) = delete;
  ~ReaderProcess();

  /// Returns a number that differs for every process that was started, and starts one if none runs. Throws
  /// FileError if it cannot be started.
  std::uint64_t generation();

  /// Returns the number of the running process; 0 if none runs.
  std::uint64_t current() const noexcept { return running() ? generation_ : 0; }

  /// How a request went, and the bytes of the reply unless they went into the caller's buffer.
  struct Reply {
    Outcome outcome = Outcome::done;
    std::vector<std::byte> bytes;
  };

  /// Sends a request and returns its reply. A result goes into `out` if that is not empty, which it must then
  /// fill. Blocks for at most the time limit, `limits.time`. `file` is what is read, for messages. Throws
  /// IsolationError if the process dies, does not answer in time, or answers with nonsense, and what
  /// `check_stop` throws; it is then ended.
  Reply call(const std::string& file, std::span<const std::byte> request, std::span<std::byte> out = {});

  /// Sends a request without a reply, if the process runs and takes it at once; else ends it.
  void tell(std::span<const std::byte> request) noexcept;

  /// Ends the process and throws IsolationError that says that `file` made it answer with `what`.
  [[noreturn]] void fail_with_nonsense(const std::string& file, const std::string& what);

 private:
  using Clock = std::chrono::steady_clock;

  void start();
  void end() noexcept;
  bool running() const noexcept;
  Reply exchange(const std::string& file, std::span<const std::byte> request, std::span<std::byte> out);
  // Moves all bytes, or throws IsolationError.
  void send(const std::string& file, std::span<const std::byte> bytes, Clock::time_point deadline);
  void receive(const std::string& file, std::span<std::byte> bytes, Clock::time_point deadline);
  void wait_until_ready(const std::string& file, short events, Clock::time_point deadline);
  [[noreturn]] void fail_with_death(const std::string& file);

  const IsolationLimits limits_;
  FileDescriptor connection_;
  pid_t child_ = -1;
  pid_t owner_ = -1;  // The process that started the child
  std::uint64_t generation_ = 0;
};

}  // namespace h5feed
