// SPDX-License-Identifier: Apache-2.0
#include "store/isolation/reader_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "base/files/companion.hpp"
#include "base/interrupt.hpp"
#include "h5feed/error.hpp"

namespace h5feed {
namespace {

constexpr const char* kReaderName = "h5feed-reader";
constexpr const char* kReaderVariable = "H5FEED_READER";

// Distinguishes all processes of this kind.
std::atomic<std::uint64_t> generations = 0;

[[noreturn]] void throw_not_started(const std::string& program, int error) {
  const bool of_limits = error == EMFILE || error == ENFILE || error == EAGAIN || error == ENOMEM;
  throw FileError(fmt::format("isolation = process needs {}, which cannot be started: {}; {}", program,
                              std::generic_category().message(error),
                              of_limits ? "raise the limits on open files, processes and memory (ulimit -a)"
                                        : "install it with h5feed"));
}

void check(const std::string& program, int error) {
  if (error != 0) throw_not_started(program, error);
}

// The child takes none of the signals that a terminal or a supervisor sends to all of a group: it ends with
// the connection.
sigset_t left_to_the_parent() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGHUP, SIGPIPE}) sigaddset(&set, signal);
  return set;
}

class SpawnSettings {
 public:
  SpawnSettings() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

std::string name_of(const ProcessEnd& end) {
  if (!end.by_signal) return fmt::format("exit code {}", end.number);
  const char* const name = sigabbrev_np(end.number);
  return name == nullptr ? fmt::format("signal {}", end.number) : fmt::format("SIG{}", name);
}

}  // namespace

std::filesystem::path find_reader_program() {
  const std::vector<std::string> places = companion_places(kReaderName, kReaderVariable);
  for (const std::string& place : places) {
    if (::access(place.c_str(), X_OK) == 0) return place;
  }
  throw FileError(fmt::format(
      "isolation = process needs the program {}, which is not there (looked for {}); install it with h5feed, "
      "or set {} to its path",
      kReaderName, fmt::join(places, ", "), kReaderVariable));
}

ReaderProcess::Use::Use(ReaderProcess& process, const std::string& file)
    : process_(process), user_(::getpid()) {
  while (!process.take_turn(file)) {
    check_interrupt();
  }
}

// An `InterruptCheck` may have forked: the turn is the parent's.
ReaderProcess::Use::~Use() {
  if (::getpid() == user_) process_.give_back_turn();
}

ReaderProcess::~ReaderProcess() {
  const MutexLock lock(isolation_mutex);
  end();
}

bool ReaderProcess::take_turn(const std::string& file) {
  MutexLock lock(isolation_mutex);
  return turn_.take(lock, file);
}

void ReaderProcess::give_back_turn() noexcept {
  const MutexLock lock(isolation_mutex);
  send_told();
  turn_.give_back();
}

std::uint64_t ReaderProcess::generation() {
  const MutexLock lock(isolation_mutex);
  if (!child_.here()) start();
  return generation_;
}

// Returns the connection to the process, which is started if none runs.
int ReaderProcess::connect() {
  const MutexLock lock(isolation_mutex);
  if (!child_.here()) start();
  return connection_.get();
}

void ReaderProcess::start() {
  end();
  const std::string program = (limits_.program.empty() ? find_reader_program() : limits_.program).string();
  std::array<int, 2> ends = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw_not_started(program, errno);
  FileDescriptor own(ends[0]);
  const FileDescriptor passed(ends[1]);
  // Above the descriptors that the child gets, whichever of them are free here.
  const FileDescriptor theirs(::fcntl(passed.get(), F_DUPFD_CLOEXEC, kIsolationDescriptor + 1));
  if (!theirs.valid()) throw_not_started(program, errno);

  SpawnSettings settings;
  auto* const actions = &settings.actions;
  check(program, posix_spawn_file_actions_adddup2(actions, theirs.get(), kIsolationDescriptor));
  // First of all: a file that another thread closes meanwhile stays locked until the child has closed it,
  // too.
  check(program, posix_spawn_file_actions_addclosefrom_np(actions, kIsolationDescriptor + 1));
  check(program, posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0));
  check(program, posix_spawn_file_actions_addopen(actions, 1, "/dev/null", O_WRONLY, 0));
  check(program, posix_spawn_file_actions_addopen(actions, 2, "/dev/null", O_WRONLY, 0));
  const sigset_t blocked = left_to_the_parent();
  sigset_t all;
  sigfillset(&all);
  auto* const attributes = &settings.attributes;
  check(program, posix_spawnattr_setsigmask(attributes, &blocked));
  check(program, posix_spawnattr_setsigdefault(attributes, &all));
  check(program, posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));

  std::string name = program;
  std::string version = kIsolationVersion;
  std::string memory = std::to_string(limits_.memory_bytes);
  std::string seconds = std::to_string(std::chrono::ceil<std::chrono::seconds>(limits_.time).count());
  const std::array<char*, 5> arguments = {name.data(), version.data(), memory.data(), seconds.data(),
                                          nullptr};
  pid_t child = -1;
  check(program, ::posix_spawn(&child, program.c_str(), actions, attributes, arguments.data(), environ));
  child_ = OwnChild(child);
  connection_ = std::move(own);
  generation_ = ++generations;
}

void ReaderProcess::end() noexcept {
  child_.end();
  connection_.reset();
  told_.clear();
}

Exchange::Reply ReaderProcess::call(const std::string& file, std::span<const std::byte> request,
                                    std::span<std::byte> out) {
  const pid_t caller = ::getpid();
  try {
    return Exchange(connect(), file, limits_.time).run(request, out);
  } catch (const ConnectionClosed&) {
    fail_with_death(file);
  } catch (...) {
    const MutexLock lock(isolation_mutex);
    // What is left of a reply would be taken for the next one. An `InterruptCheck` that forks ends nothing
    // here: its process may already have another connection.
    if (::getpid() == caller) end();
    throw;
  }
}

void ReaderProcess::tell(std::uint64_t generation, std::span<const std::byte> request) {
  const MutexLock lock(isolation_mutex);
  if (!child_.here() || generation_ != generation) return;
  WireWriter message;
  message.put(std::uint64_t{request.size()});
  message.append(request);
  told_.insert(told_.end(), message.bytes().begin(), message.bytes().end());
  if (!turn_.taken()) send_told();
}

void ReaderProcess::send_told() noexcept {
  if (told_.empty() || !child_.here()) return;
  const ssize_t sent = ::send(connection_.get(), told_.data(), told_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent != static_cast<ssize_t>(told_.size())) end();
  told_.clear();
}

void ReaderProcess::fail_with_death(const std::string& file) {
  std::optional<ProcessEnd> ended;
  {
    const MutexLock lock(isolation_mutex);
    ended = child_.end();  // It may have closed the connection without ending
    end();
  }
  if (ended && !ended->by_signal) {
    throw IsolationError(fmt::format(
        "{}: {}, which reads it, ended with {} and no answer; {}", file, kReaderName, name_of(*ended),
        ended->number == kReaderWrongUse
            ? "it is of another version, install that of this h5feed"
            : "install it again if it does so with every file, else restore this one from a good copy"));
  }
  if (ended && ended->number == SIGKILL) {
    throw IsolationError(
        fmt::format("{}: {}, which reads it, was killed (SIGKILL), as the kernel does when memory ends; "
                    "free some and open the file again",
                    file, kReaderName));
  }
  throw IsolationError(
      fmt::format("{}: libhdf5 crashed over it, in a process of its own{}; the file is damaged or made to do "
                  "harm, restore it from a good copy",
                  file, ended ? fmt::format(" ({})", name_of(*ended)) : ""));
}

void ReaderProcess::refuse(const std::string& file, const std::string& what) {
  {
    const Use use(*this, file);
    const MutexLock lock(isolation_mutex);
    end();
  }
  throw nonsense_error(file, what);
}

}  // namespace h5feed
