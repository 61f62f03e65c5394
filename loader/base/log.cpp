#include "h5feed/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <utility>

#include "base/mutex.hpp"

namespace h5feed {
namespace {

// The default goes through a logger of our own, never spdlog's default logger: that one belongs to the
// host program, and writes to stdout, where the program's JSON goes.
class Log {
 public:
  void set_sink(LogSink sink) {
    const MutexLock lock(mutex_);
    sink_ = std::move(sink);
  }

  void write(LogLevel level, std::string_view line) {
    const MutexLock lock(mutex_);
    if (sink_) {
      sink_(level, line);
    } else if (level == LogLevel::warning) {
      logger_.warn("{}", line);
    }
  }

 private:
  static spdlog::logger make_logger() {
    spdlog::logger logger("h5feed", std::make_shared<spdlog::sinks::stderr_sink_st>());
    logger.set_pattern("h5feed: %v");
    return logger;
  }

  Mutex mutex_;
  LogSink sink_ H5FEED_GUARDED_BY(mutex_);
  spdlog::logger logger_ H5FEED_GUARDED_BY(mutex_) = make_logger();
};

// Never destroyed: a loader in static storage may log while the process exits.
Log& process_log() {
  static Log* const log = new Log;
  return *log;
}

}  // namespace

void set_log_sink(LogSink sink) { process_log().set_sink(std::move(sink)); }

void log(LogLevel level, std::string_view line) { process_log().write(level, line); }

}  // namespace h5feed
