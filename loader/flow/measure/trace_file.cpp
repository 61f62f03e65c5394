// SPDX-License-Identifier: Apache-2.0
#include "flow/measure/trace_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "base/clock.hpp"
#include "base/files/append_file.hpp"
#include "base/files/new_file.hpp"
#include "base/mutex.hpp"
#include "base/option_spelling.hpp"
#include "h5feed/error.hpp"
#include "h5feed/log.hpp"

namespace h5feed {
namespace {

// Begins of the stages that run on this thread, the innermost last, for all loaders. Stages nest at most a
// few deep: without workers the consumer reads and gathers while it waits.
struct RunningStages {
  std::array<std::uint64_t, 32> begin_ns = {};
  std::size_t depth = 0;
};
thread_local RunningStages running;

constexpr unsigned kStageBits = 8;

std::uint64_t this_thread() noexcept {
  static thread_local const auto id = static_cast<std::uint64_t>(::gettid());
  return id;
}

// Paths that files of this process will be written to.
class PathsInUse {
 public:
  void add(const std::filesystem::path& path) {
    bool taken = false;
    {
      const MutexLock lock(mutex_);
      taken = paths_.contains(path);
      paths_.insert(path);
    }
    if (!taken) return;
    log(LogLevel::warning,
        fmt::format("{}: {} is that of another loader too; the last one that ends replaces it: name a file "
                    "for each loader",
                    spelled("trace_path"), path.string()));
  }
  void remove(const std::filesystem::path& path) {
    const MutexLock lock(mutex_);
    paths_.erase(paths_.find(path));
  }

 private:
  Mutex mutex_;
  std::multiset<std::filesystem::path> paths_ H5FEED_GUARDED_BY(mutex_);
};

// Never destroyed: a loader in static storage may end while the process exits.
PathsInUse& paths_in_use() {
  static PathsInUse* const paths = new PathsInUse;
  return *paths;
}

std::string microseconds(std::uint64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

}  // namespace

TraceFile::TraceFile(std::filesystem::path path, std::shared_ptr<TraceSink> next, std::size_t capacity)
    : path_(std::filesystem::absolute(path)),
      normal_path_(path_.lexically_normal()),
      next_(std::move(next)),
      capacity_(capacity),
      events_(std::make_unique<Event[]>(capacity)) {
  const std::error_code reason = NewFile(path_).error();
  if (!reason) {
    refuse_other_than_json(path_, "trace_path");
    paths_in_use().add(normal_path_);
    return;
  }
  throw OptionError(
      fmt::format("{}: {} cannot be written: {}; name a file in a folder that exists and may be written",
                  spelled("trace_path"), path.string(), reason.message()));
}

TraceFile::~TraceFile() {
  paths_in_use().remove(normal_path_);
  try {
    write();
  } catch (const std::exception& error) {
    log(LogLevel::warning,
        fmt::format("{}: {} cannot be written: {}", spelled("trace_path"), path_.string(), error.what()));
  }
}

void TraceFile::begin(Stage stage, std::uint64_t batch) noexcept {
  if (next_) next_->begin(stage, batch);
  if (running.depth < running.begin_ns.size()) running.begin_ns[running.depth] = now_ns();
  ++running.depth;
}

void TraceFile::end(Stage stage, std::uint64_t batch) noexcept {
  if (running.depth > 0 && --running.depth < running.begin_ns.size()) {
    const std::uint64_t begin = running.begin_ns[running.depth];
    Event& event = events_[count_.fetch_add(1, std::memory_order_relaxed) % capacity_];
    event.begin_ns.store(begin, std::memory_order_relaxed);
    event.duration_ns.store(now_ns() - begin, std::memory_order_relaxed);
    event.batch.store(batch, std::memory_order_relaxed);
    event.thread_and_stage.store(this_thread() << kStageBits | static_cast<std::uint64_t>(stage),
                                 std::memory_order_relaxed);
  }
  if (next_) next_->end(stage, batch);
}

void TraceFile::write() const {
  const std::uint64_t count = count_.load(std::memory_order_acquire);
  const std::uint64_t first = count > capacity_ ? count - capacity_ : 0;
  const pid_t process = ::getpid();
  NewFile file(path_);
  std::string text = fmt::format(
      "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"stages\":{},\"older_stages_left_out\":{}}},\n"
      "\"traceEvents\":[\n{{\"name\":\"process_name\",\"ph\":\"M\",\"ts\":0,\"pid\":{},\"tid\":0,\"args\":{{"
      "\"name\":\"h5feed\"}}}}",
      count - first, first, process);
  std::map<std::uint64_t, bool> threads;  // whether a thread is a consumer, which waits for batches
  for (std::uint64_t number = first; number < count; ++number) {
    const Event& event = events_[number % capacity_];
    const std::uint64_t word = event.thread_and_stage.load(std::memory_order_relaxed);
    if (word == 0) continue;
    const auto stage = static_cast<Stage>(word & ((1U << kStageBits) - 1));
    const std::uint64_t thread = word >> kStageBits;
    threads[thread] |= stage == Stage::wait;
    text += fmt::format(
        ",\n{{\"name\":\"{}\",\"cat\":\"h5feed\",\"ph\":\"X\",\"ts\":{},\"dur\":{},\"pid\":{},\"tid\":{},"
        "\"args\":{{\"batch\":{}}}}}",
        name_of(stage), microseconds(event.begin_ns.load(std::memory_order_relaxed)),
        microseconds(event.duration_ns.load(std::memory_order_relaxed)), process, thread,
        event.batch.load(std::memory_order_relaxed));
    constexpr std::size_t kEnough = 1 << 16;
    if (text.size() < kEnough) continue;
    file.write(text);
    text.clear();
  }
  for (const auto& [thread, consumes] : threads) {
    text += fmt::format(
        ",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"ts\":0,\"pid\":{},\"tid\":{},\"args\":{{\"name\":\"{}"
        "\"}}}}",
        process, thread, consumes ? "consumer" : "loader");
  }
  file.write(text + "\n]}\n");
  if (const std::error_code error = file.commit()) throw std::system_error(error);
}

std::shared_ptr<TraceSink> make_trace(const DataLoaderOptions& options) {
  if (options.trace_path.empty()) return options.trace;
  std::filesystem::path path = options.trace_path;
  if (options.world_size > 1) {
    const std::string extension = path.extension().string();
    path.replace_extension(fmt::format(".rank{}{}", options.rank, extension));
  }
  return std::make_shared<TraceFile>(std::move(path), options.trace);
}

}  // namespace h5feed
