// SPDX-License-Identifier: Apache-2.0
#include "store/isolation/reader_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/files/companion.hpp"
#include "base/interrupt.hpp"
#include "h5feed/error.hpp"

namespace h5feed {

constinit Mutex isolation_mutex;

namespace {

// The lock of the thread that forks: the new process then finds the mutex free.
std::unique_ptr<MutexLock> spawn_lock;

void hold_spawning() {
  auto lock = std::make_unique<MutexLock>(isolation_mutex);
  spawn_lock = std::move(lock);
}

void release_spawning() { const auto lock = std::move(spawn_lock); }

// Registered when the library is loaded: a thread may fork while another asks for the first time.
[[maybe_unused]] const int spawn_fork_handlers =
    pthread_atfork(hold_spawning, release_spawning, release_spawning);

constexpr const char* kReaderName = "h5feed-reader";
constexpr const char* kReaderVariable = "H5FEED_READER";
// A larger reply than any description of a file; results of a known size go into the caller's buffer.
constexpr std::uint64_t kMostReplyBytes = std::uint64_t{2} << 30;

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

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) {
    const char* const name = sigabbrev_np(WTERMSIG(status));
    return name == nullptr ? fmt::format("signal {}", WTERMSIG(status)) : fmt::format("SIG{}", name);
  }
  return fmt::format("exit code {}", WIFEXITED(status) ? WEXITSTATUS(status) : 0);
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

ReaderProcess::~ReaderProcess() { end(); }

bool ReaderProcess::running() const noexcept { return child_ > 0 && owner_ == ::getpid(); }

std::uint64_t ReaderProcess::generation() {
  if (!running()) start();
  return generation_;
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
  check(program, posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0));
  check(program, posix_spawn_file_actions_addopen(actions, 1, "/dev/null", O_WRONLY, 0));
  check(program, posix_spawn_file_actions_addopen(actions, 2, "/dev/null", O_WRONLY, 0));
  check(program, posix_spawn_file_actions_adddup2(actions, theirs.get(), kIsolationDescriptor));
  check(program, posix_spawn_file_actions_addclosefrom_np(actions, kIsolationDescriptor + 1));
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
  child_ = child;
  owner_ = ::getpid();
  connection_ = std::move(own);
  generation_ = ++generations;
}

void ReaderProcess::end() noexcept {
  if (running()) {
    ::kill(child_, SIGKILL);
    while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  child_ = -1;
  connection_.reset();
}

ReaderProcess::Reply ReaderProcess::call(const std::string& file, std::span<const std::byte> request,
                                         std::span<std::byte> out) {
  if (!running()) start();
  try {
    return exchange(file, request, out);
  } catch (...) {
    end();  // What is left of a reply would be taken for the next one
    throw;
  }
}

ReaderProcess::Reply ReaderProcess::exchange(const std::string& file, std::span<const std::byte> request,
                                             std::span<std::byte> out) {
  const Clock::time_point deadline = Clock::now() + limits_.time;
  const std::uint64_t request_bytes = request.size();
  send(file, std::as_bytes(std::span(&request_bytes, 1)), deadline);
  send(file, request, deadline);
  std::array<std::byte, kReplyHeadBytes> head = {};
  receive(file, head, deadline);
  Reply reply;
  std::uint64_t size = 0;
  try {
    WireReader reader(head);
    reply.outcome = reader.get<Outcome>();
    size = reader.get<std::uint64_t>();
  } catch (const BadMessage& error) {
    fail_with_nonsense(file, error.what());
  }
  if (reply.outcome == Outcome::done && !out.empty()) {
    if (size != out.size()) fail_with_nonsense(file, "a result of another size");
    receive(file, out, deadline);
    return reply;
  }
  if (size > kMostReplyBytes) fail_with_nonsense(file, "a reply of more than 2 GiB");
  // Memory grows with what arrives, whatever was announced.
  constexpr std::uint64_t kStep = std::uint64_t{16} << 20;
  while (reply.bytes.size() < size) {
    const std::size_t at = reply.bytes.size();
    reply.bytes.resize(static_cast<std::size_t>(std::min(size, at + kStep)));
    receive(file, std::span(reply.bytes).subspan(at), deadline);
  }
  return reply;
}

void ReaderProcess::tell(std::span<const std::byte> request) noexcept {
  if (!running()) return;
  const std::uint64_t request_bytes = request.size();
  std::array<iovec, 2> parts = {iovec{const_cast<std::uint64_t*>(&request_bytes), sizeof request_bytes},
                                iovec{const_cast<std::byte*>(request.data()), request.size()}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t sent = ::sendmsg(connection_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent != static_cast<ssize_t>(sizeof request_bytes + request.size())) end();
}

void ReaderProcess::send(const std::string& file, std::span<const std::byte> bytes,
                         Clock::time_point deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(connection_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EINTR) {
      wait_until_ready(file, POLLOUT, deadline);
    } else {
      fail_with_death(file);
    }
  }
}

void ReaderProcess::receive(const std::string& file, std::span<std::byte> bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(connection_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    } else if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      wait_until_ready(file, POLLIN, deadline);
    } else {
      fail_with_death(file);
    }
  }
}

void ReaderProcess::wait_until_ready(const std::string& file, short events, Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  if (left.count() <= 0) {
    end();
    throw IsolationError(fmt::format(
        "{}: libhdf5 took more than {} s over it and was ended; restore the file from a good copy, or raise "
        "isolation_timeout if it is only large",
        file, std::chrono::duration<double>(limits_.time).count()));
  }
  check_stop();
  constexpr std::int64_t kStopCheckMs = 100;
  pollfd ready{connection_.get(), events, 0};
  ::poll(&ready, 1, static_cast<int>(std::min<std::int64_t>(left.count(), kStopCheckMs)));
}

void ReaderProcess::fail_with_death(const std::string& file) {
  int status = 0;
  // It may have closed the connection without ending; if it has ended, this changes nothing.
  ::kill(child_, SIGKILL);
  pid_t reaped = -1;
  while ((reaped = ::waitpid(child_, &status, 0)) < 0 && errno == EINTR) {
  }
  child_ = -1;
  end();
  if (reaped >= 0 && WIFEXITED(status)) {
    throw IsolationError(fmt::format(
        "{}: {}, which reads it, ended with {} and no answer; {}", file, kReaderName, how_it_ended(status),
        WEXITSTATUS(status) == kReaderWrongUse
            ? "it is of another version, install that of this h5feed"
            : "install it again if it does so with every file, else restore this one from a good copy"));
  }
  throw IsolationError(
      fmt::format("{}: libhdf5 crashed over it, in a process of its own{}; the file is damaged or made to do "
                  "harm, restore it from a good copy",
                  file, reaped < 0 ? "" : fmt::format(" ({})", how_it_ended(status))));
}

void ReaderProcess::fail_with_nonsense(const std::string& file, const std::string& what) {
  end();
  throw IsolationError(fmt::format(
      "{}: the process that read it answered with {}, and was ended; the file is damaged or made to do harm, "
      "restore it from a good copy",
      file, what));
}

}  // namespace h5feed
