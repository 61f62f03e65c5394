// SPDX-License-Identifier: Apache-2.0
#include "h5feed/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "base/log_lock.hpp"
#include "base/mutex.hpp"
#include "base/terminal_text.hpp"

namespace h5feed {
namespace {

// The default sink is a logger of our own, never spdlog's default logger: that one belongs to the host
// program and writes to stdout, which may carry the program's JSON.
class Log {
 public:
  void set_sink(LogSink sink) {
    const MutexLock lock(mutex_);
    sink_ = std::move(sink);
    said_.clear();
  }

  void write_once(LogLevel level, std::string_view line) {
    const MutexLock lock(mutex_);
    if (said_.emplace(line).second) write_locked(level, line);
  }

  void hold() {
    auto held = std::make_unique<MutexLock>(mutex_);
    held_ = std::move(held);
  }

  void release() { const auto held = std::move(held_); }

  void write(LogLevel level, std::string_view line) {
    const MutexLock lock(mutex_);
    write_locked(level, line);
  }

 private:
  void write_locked(LogLevel level, std::string_view text) H5FEED_REQUIRES(mutex_) {
    const std::string line = on_one_line(text);  // names of files and datasets may hold any character
    if (!sink_) {
      if (level == LogLevel::warning) logger_.warn("{}", line);
      return;
    }
    try {
      sink_(level, line);
    } catch (...) {
      // A line is lost. Thrown on, the exception would take the place of a batch, or of the end of an epoch.
    }
  }

  static spdlog::logger make_logger() {
    spdlog::logger logger("h5feed", std::make_shared<spdlog::sinks::stderr_sink_st>());
    logger.set_pattern("h5feed: %v");
    return logger;
  }

  Mutex mutex_;
  std::unique_ptr<MutexLock> held_;  // between hold() and release(), whose callers hold another mutex
  LogSink sink_ H5FEED_GUARDED_BY(mutex_);
  // Lines that `write_once` has written to the current sink.
  std::set<std::string> said_ H5FEED_GUARDED_BY(mutex_);
  spdlog::logger logger_ H5FEED_GUARDED_BY(mutex_) = make_logger();
};

// Never destroyed: a loader in static storage may log while the process exits.
Log& process_log() {
  static Log* const log = new Log;
  return *log;
}

}  // namespace

void hold_log() { process_log().hold(); }

void release_log() { process_log().release(); }

void set_log_sink(LogSink sink) { process_log().set_sink(std::move(sink)); }

void log(LogLevel level, std::string_view line) { process_log().write(level, line); }

void log_once(LogLevel level, std::string_view line) { process_log().write_once(level, line); }

}  // namespace h5feed
