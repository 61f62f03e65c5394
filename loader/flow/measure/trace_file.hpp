// SPDX-License-Identifier: Apache-2.0
// Timeline of a loader's stages as a file for Perfetto and Chrome's trace viewer (`trace_path`).
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "h5feed/options.hpp"
#include "h5feed/trace.hpp"

namespace h5feed {

/// Keeps the newest `capacity` stages in memory, 32 bytes each, and writes them on destruction. Thread-safe
/// and lock-free; stages on one thread must end in the reverse order of their begin. The file is a JSON
/// object of Chrome's trace event format ("Trace Event Format", Google, 2016): an event "X" for each stage,
/// with its begin and duration in microseconds of the monotonic clock, process, thread and batch, and an
/// event "M" for the name of each thread.
class TraceFile final : public TraceSink {
 public:
  static constexpr std::size_t kCapacity = std::size_t{1} << 18;

  /// Writes to `path` in the end, and passes all stages on to `next`, which may be null. Throws OptionError
  /// if the folder of `path` cannot be written to, or `path` is a directory.
  TraceFile(std::filesystem::path path, std::shared_ptr<TraceSink> next, std::size_t capacity = kCapacity);
  /// Writes the file. Logs a warning if that fails.
  ~TraceFile() override;
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  void begin(Stage stage, std::uint64_t batch) noexcept override;
  void end(Stage stage, std::uint64_t batch) noexcept override;

 private:
  // Atomic, as a thread may lap another one that is still writing; the event is then mixed up, but no other.
  struct Event {
    std::atomic<std::uint64_t> begin_ns = 0;
    std::atomic<std::uint64_t> duration_ns = 0;
    std::atomic<std::uint64_t> batch = 0;
    std::atomic<std::uint64_t> thread_and_stage = 0;  // 0: not written
  };

  void write() const;

  const std::filesystem::path path_;
  const std::filesystem::path normal_path_;  // as it is registered: the destructor must not allocate for it
  const std::shared_ptr<TraceSink> next_;
  const std::size_t capacity_;
  const std::unique_ptr<Event[]> events_;
  std::atomic<std::uint64_t> count_ = 0;
};

/// Returns the sink that a loader reports its stages to: `options.trace`, which is behind a TraceFile if
/// `options.trace_path` is set. With several ranks, the file has the rank in its name: "run.rank3.json".
/// Throws OptionError.
std::shared_ptr<TraceSink> make_trace(const DataLoaderOptions& options);

}  // namespace h5feed
