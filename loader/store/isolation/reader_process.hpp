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
#include "store/isolation/exchange.hpp"
#include "store/isolation/own_child.hpp"
#include "store/isolation/turn.hpp"

namespace h5feed {

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
/// one after it has died. Thread-safe. A fork of this process starts its own one.
class H5FEED_CAPABILITY("turn") ReaderProcess {
 public:
  /// Has the turn of a process for its own lifetime: only this thread may send it requests and wait for
  /// replies. Other threads may close files meanwhile, as may an `InterruptCheck` of this one.
  class H5FEED_SCOPED_CAPABILITY Use {
   public:
    /// Blocks until no other thread has the turn, and calls the `InterruptCheck` of this thread meanwhile.
    /// Throws what `check_interrupt()` throws, and std::logic_error as `Turn::take`.
    Use(ReaderProcess& process, const std::string& file) H5FEED_ACQUIRE(process);
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() H5FEED_RELEASE();

   private:
    ReaderProcess& process_;
    const pid_t user_;
  };

  explicit ReaderProcess(IsolationLimits limits) : limits_(std::move(limits)) {}
  ReaderProcess(const ReaderProcess&) = delete;
  ReaderProcess& operator=(const ReaderProcess&) = delete;
  ~ReaderProcess();

  /// Returns a number that differs for every process that was started, and starts one if none runs. Throws
  /// FileError if it cannot be started.
  std::uint64_t generation() H5FEED_EXCLUDES(isolation_mutex);

  /// Sends a request and returns its reply. A result goes into `out` if that is not empty, which it must then
  /// fill. Blocks for at most the time limit, `limits.time`, and calls the `InterruptCheck` of this thread
  /// meanwhile. `file` is what is read, for messages. Throws IsolationError if the process dies, does not
  /// answer in time, or answers with nonsense, and what `check_interrupt()` throws; the
  /// process is then ended.
  Exchange::Reply call(const std::string& file, std::span<const std::byte> request,
                       std::span<std::byte> out = {}) H5FEED_REQUIRES(this) H5FEED_EXCLUDES(isolation_mutex);

  /// Sends a request without a reply to the process of number `generation`, if that still runs: at once, or,
  /// if a thread has the turn, when it gives the turn back. Ends the process if it does not take the request
  /// at once. Does not wait for the turn, so that an `InterruptCheck` may close files. Throws std::bad_alloc.
  void tell(std::uint64_t generation, std::span<const std::byte> request) H5FEED_EXCLUDES(isolation_mutex);

  /// Ends the process and throws IsolationError that says that `file` made it answer with `what`. Blocks and
  /// throws as `Use` does.
  [[noreturn]] void refuse(const std::string& file, const std::string& what) H5FEED_EXCLUDES(isolation_mutex);

 private:
  int connect() H5FEED_EXCLUDES(isolation_mutex);
  void start() H5FEED_REQUIRES(isolation_mutex);
  void end() noexcept H5FEED_REQUIRES(isolation_mutex);
  void send_told() noexcept H5FEED_REQUIRES(isolation_mutex);
  bool take_turn(const std::string& file) H5FEED_EXCLUDES(isolation_mutex);
  void give_back_turn() noexcept H5FEED_EXCLUDES(isolation_mutex);
  [[noreturn]] void fail_with_death(const std::string& file) H5FEED_EXCLUDES(isolation_mutex);

  const IsolationLimits limits_;
  Turn turn_ H5FEED_GUARDED_BY(isolation_mutex);
  // While a thread has the turn, it alone changes these, so that it may wait for the connection without the
  // mutex.
  FileDescriptor connection_ H5FEED_GUARDED_BY(isolation_mutex);
  OwnChild child_ H5FEED_GUARDED_BY(isolation_mutex);
  std::uint64_t generation_ H5FEED_GUARDED_BY(isolation_mutex) = 0;
  std::vector<std::byte> told_ H5FEED_GUARDED_BY(isolation_mutex);  // Not sent: a thread has the turn
};

}  // namespace h5feed
