// SPDX-License-Identifier: Apache-2.0
#include "support/failing_calls.hpp"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace {

using h5feed::test::CallFault;

std::atomic<bool> g_on = false;
std::atomic<CallFault> g_fault = CallFault::failed;
std::atomic<std::int64_t> g_left = 0;  // calls that still succeed

bool is_of_threads(CallFault fault) {
  return fault == CallFault::no_thread || fault == CallFault::no_threads;
}

bool lasts(CallFault fault) { return fault == CallFault::end_of_file || fault == CallFault::no_threads; }

// Returns what goes wrong with this call; nothing for most.
std::optional<CallFault> fault_now(bool starts_thread) noexcept {
  if (!g_on.load(std::memory_order_acquire)) return std::nullopt;
  const CallFault fault = g_fault.load(std::memory_order_relaxed);
  if (is_of_threads(fault) != starts_thread) return std::nullopt;
  const std::int64_t before = g_left.fetch_sub(1, std::memory_order_relaxed);
  if (before > 0 || (before < 0 && !lasts(fault))) return std::nullopt;
  return fault;
}

ssize_t read_of(int file, const iovec* parts, int count, off_t offset) noexcept {
  return ::syscall(SYS_preadv, file, parts, static_cast<long>(count), offset, 0L);
}

// Tells the test that preloaded this into a program: creates the file that H5FEED_TEST_REFUSED names.
void note_refusal() noexcept {
  const char* const path = std::getenv("H5FEED_TEST_REFUSED");
  if (path != nullptr) ::close(::open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

// Reads, unless a fault says otherwise.
ssize_t faulty_read(int file, const iovec* parts, int count, off_t offset) noexcept {
  const std::optional<CallFault> fault = fault_now(false);
  if (!fault) return read_of(file, parts, count, offset);
  if (*fault == CallFault::end_of_file) return 0;
  if (*fault == CallFault::partial) {
    iovec half = parts[0];
    half.iov_len = std::max<std::size_t>(half.iov_len / 2, 1);
    return read_of(file, &half, 1, offset);
  }
  errno = *fault == CallFault::interrupted ? EINTR : *fault == CallFault::passing ? EIO : ENODEV;
  return -1;
}

}  // namespace

extern "C" {
ssize_t pread(int file, void* to, std::size_t bytes, off_t offset) noexcept(false) {
  const iovec part = {to, bytes};
  return faulty_read(file, &part, 1, offset);
}
ssize_t pread64(int file, void* to, std::size_t bytes, off64_t offset) noexcept(false) {
  return pread(file, to, bytes, offset);
}
ssize_t preadv(int file, const iovec* parts, int count, off_t offset) noexcept(false) {
  return faulty_read(file, parts, count, offset);
}
ssize_t preadv64(int file, const iovec* parts, int count, off64_t offset) noexcept(false) {
  return faulty_read(file, parts, count, offset);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*work)(void*),
                   void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  if (fault_now(true)) {
    note_refusal();
    return EAGAIN;
  }
  static const auto create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  return create(thread, attributes, work, argument);
}
}

namespace h5feed::test {

FailingCalls::FailingCalls(CallFault fault, std::int64_t number) noexcept {
  g_fault = fault;
  g_left = number;
  g_on = true;
}

FailingCalls::~FailingCalls() { end(); }

bool FailingCalls::end() noexcept {
  g_on = false;
  return g_left < 0;
}

namespace {

// In a program that it is preloaded into: H5FEED_TEST_NO_THREAD is the number of the start of a thread that
// fails.
[[gnu::constructor]] void begin_in_program() {
  const char* const number = std::getenv("H5FEED_TEST_NO_THREAD");
  if (number == nullptr) return;
  g_fault = CallFault::no_thread;
  g_left = std::strtoll(number, nullptr, 10);
  g_on = true;
}

}  // namespace

}  // namespace h5feed::test
