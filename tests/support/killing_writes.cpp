// SPDX-License-Identifier: Apache-2.0
// Preloaded into a program: kills it by SIGKILL as it, or a process that it has forked, calls pwrite for the
// time that H5FEED_TEST_KILLING_WRITE says, counted from 0 over all these processes. The call itself is made
// if its process lives.
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<long>* g_left = nullptr;  // calls that come before; shared by the forked processes
pid_t g_program = -1;

[[gnu::constructor]] void begin_in_program() {
  const char* const number = std::getenv("H5FEED_TEST_KILLING_WRITE");
  if (number == nullptr) return;
  void* const shared =
      ::mmap(nullptr, sizeof *g_left, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) std::abort();
  g_left = new (shared) std::atomic<long>(std::strtol(number, nullptr, 10));
  g_program = ::getpid();
  // Programs that this one starts are left alone.
  ::unsetenv("LD_PRELOAD");
}

}  // namespace

extern "C" {
ssize_t pwrite64(int file, const void* from, std::size_t bytes, off64_t offset) noexcept(false) {
  if (g_left != nullptr && g_left->fetch_sub(1) == 0) ::kill(g_program, SIGKILL);
  return ::syscall(SYS_pwrite64, file, from, bytes, offset);
}
ssize_t pwrite(int file, const void* from, std::size_t bytes, off_t offset) noexcept(false) {
  return pwrite64(file, from, bytes, offset);
}
}
