// SPDX-License-Identifier: Apache-2.0
#include "support/failing_new.hpp"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<bool> g_on = false;
std::atomic<bool> g_lasting = false;
std::atomic<bool> g_other_threads = false;
std::atomic<bool> g_large_buffers = false;
std::atomic<std::int64_t> g_left = 0;  // allocations that still succeed before one fails
std::atomic<bool> g_failed = false;
thread_local bool t_began = false;  // this thread called begin_failures
thread_local int t_suspended = 0;

bool fails_now() noexcept {
  if (!g_on.load(std::memory_order_acquire) || t_suspended > 0) return false;
  if (t_began && g_other_threads.load(std::memory_order_relaxed)) return false;
  const std::int64_t left = g_left.fetch_sub(1, std::memory_order_relaxed);
  if (left > 0 || (left < 0 && !g_lasting.load(std::memory_order_relaxed))) return false;
  g_failed.store(true, std::memory_order_relaxed);
  return true;
}

void* allocate(std::size_t size, std::size_t alignment) noexcept {
  if (fails_now()) return nullptr;
  return alignment <= alignof(std::max_align_t)
             ? std::malloc(size > 0 ? size : 1)
             : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

void* allocate_or_throw(std::size_t size, std::size_t alignment) {
  void* const memory = allocate(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return allocate_or_throw(size, 1); }
void* operator new[](std::size_t size) { return allocate_or_throw(size, 1); }
void* operator new(std::size_t size, std::align_val_t align) {
  return allocate_or_throw(size, static_cast<std::size_t>(align));
}
void* operator new[](std::size_t size, std::align_val_t align) {
  return allocate_or_throw(size, static_cast<std::size_t>(align));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, 1); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, 1); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

// The library's buffers of bytes come from here. A definition in the program goes before that of libc.
extern "C" int posix_memalign(void** memory, std::size_t alignment, std::size_t size) noexcept {
  if (g_large_buffers.load(std::memory_order_relaxed) && fails_now()) return ENOMEM;
  *memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  return *memory == nullptr ? ENOMEM : 0;
}

namespace h5feed::test {

void begin_failures(const FailingNew& what) noexcept {
  t_began = true;
  g_failed = false;
  g_left = what.first;
  g_lasting = what.lasting;
  g_other_threads = what.other_threads;
  g_large_buffers = what.large_buffers;
  g_on.store(true, std::memory_order_release);
}

bool end_failures() noexcept {
  g_on = false;
  return g_failed.exchange(false);
}

NoFailures::NoFailures() noexcept { ++t_suspended; }

NoFailures::~NoFailures() { --t_suspended; }

}  // namespace h5feed::test
