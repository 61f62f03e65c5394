// SPDX-License-Identifier: Apache-2.0
#include "cuda/memory/pinned_pool.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <future>
#include <thread>
#include <vector>

#include "cuda/memory/output_ring.hpp"
#include "cuda/runtime/handles.hpp"
#include "h5feed/error.hpp"
#include "support/captured_log.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using gpu::PinnedPool;
using gpu::Pinning;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr gpu::CallPlace kHere{0};

// Copies whole slots of 64 bytes into memory of the device.
class SlotCopier {
 public:
  SlotCopier() : stream_(gpu::make_stream(0)), to_(gpu::make_device_memory(64, 0)) {}

  cudaStream_t stream() const { return stream_.get(); }
  const std::byte* copied() const { return static_cast<const std::byte*>(to_.get()); }

  void copy(PinnedPool& pool, const std::shared_ptr<std::byte>& slot) {
    pool.copy(to_.get(), slot.get(), pool.slot_bytes(), stream(), kHere);
  }

 private:
  const gpu::Stream stream_;
  const gpu::DeviceMemory to_;
};

TEST(PinnedArena, registers_memory_of_its_own) {
  FakeCuda cuda;
  {
    gpu::PinnedArena arena(std::size_t{5} << 20, 0, 3);
    EXPECT_EQ(arena.pinning(), Pinning::registered);
    EXPECT_EQ(cuda.live(), FakeCudaLive{.registrations = 1});
    std::memset(arena.data(), 1, arena.bytes());
  }
  EXPECT_EQ(cuda.live(), FakeCudaLive{});
}

TEST(PinnedArena, asks_the_driver_for_memory_where_registering_is_refused) {
  FakeCuda cuda({.refuse_register = true});
  {
    const CapturedLog log;
    gpu::PinnedArena arena(100, 0, 1);
    EXPECT_EQ(arena.pinning(), Pinning::allocated);
    EXPECT_EQ(cuda.live(), FakeCudaLive{.pinned_allocations = 1});
    EXPECT_THAT(log.lines(), IsEmpty());
  }
  EXPECT_EQ(cuda.live(), FakeCudaLive{});
}

TEST(PinnedArena, falls_back_to_pageable_memory_and_says_what_that_costs) {
  FakeCuda cuda({.refuse_register = true, .refuse_host_alloc = true});
  const CapturedLog log;
  gpu::PinnedArena arena(std::size_t{3} << 20, 0, 2);
  EXPECT_EQ(arena.pinning(), Pinning::pageable);
  EXPECT_THAT(log.lines(),
              ElementsAre(HasSubstr("refused to pin 3 MiB for cuda:0: batches are copied from pageable "
                                    "memory, several times slower and without overlap")));
  std::memset(arena.data(), 1, arena.bytes());
}

TEST(PinnedArena, asks_the_driver_for_memory_where_a_hypervisor_fails_to_register_without_a_reason) {
  FakeCuda cuda;
  cuda.fail_call_of("cudaHostRegister", 1, cudaErrorUnknown);
  gpu::PinnedArena arena(100, 0, 1);
  EXPECT_EQ(arena.pinning(), Pinning::allocated);
  EXPECT_EQ(cuda.live(), FakeCudaLive{.pinned_allocations = 1});
}

TEST(PinnedArena, reports_a_driver_that_fails_without_a_reason_for_good) {
  FakeCuda cuda;
  cuda.fail_call(2, cudaErrorUnknown, true);  // the first asks for the NUMA node
  EXPECT_THAT(refusal_of<DeviceError>([] { gpu::PinnedArena(100, 0, 1); }),
              HasSubstr("cudaHostAlloc failed with"));
}

TEST(PinnedArena, reports_a_driver_that_fails_for_other_reasons) {
  FakeCuda cuda;
  cuda.fail_call(2, cudaErrorIllegalAddress);  // the first asks for the NUMA node
  EXPECT_THROW(gpu::PinnedArena(100, 0, 1), gpu::CudaError);
  EXPECT_EQ(cuda.live(), FakeCudaLive{});
}

TEST(PinnedPool, gives_a_slot_again_only_after_the_copy_from_it) {
  FakeCuda cuda({.manual = true});
  SlotCopier copier;
  PinnedPool pool({.slot_bytes = 64, .slots = 2});
  auto first = pool.acquire(kHere);
  auto second = pool.acquire(kHere);
  const std::byte* const first_address = first.get();
  copier.copy(pool, first);
  first.reset();
  EXPECT_EQ(pool.lent(), 2u) << "the copy has not run";
  EXPECT_TRUE(pool.check_invariants());
  cuda.run({copier.stream()});
  EXPECT_EQ(pool.lent(), 1u);
  EXPECT_EQ(pool.acquire(kHere).get(), first_address);
  EXPECT_EQ(pool.overflows(), 0u);
}

// A thread that does not exist in the child may have held the lock of the pool.
TEST(PinnedPool, is_left_alone_in_a_forked_child) {
  FakeCuda cuda;
  PinnedPool pool({.slot_bytes = 64, .slots = 2});
  auto slot = pool.acquire(kHere);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(30);  // ends a child that hangs
    slot.reset();
    ::_exit(pool.lent() == 1 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  slot.reset();
  EXPECT_EQ(pool.lent(), 0u);
}

TEST(PinnedPool, waits_for_a_copy_when_all_slots_are_copying) {
  FakeCuda cuda;
  SlotCopier copier;
  PinnedPool pool({.slot_bytes = 64, .slots = 1});
  for (int i = 0; i < 50; ++i) {
    const auto slot = pool.acquire(kHere);
    std::memset(slot.get(), i, 64);
    copier.copy(pool, slot);
    cuda.enqueue(copier.stream(),
                 [to = copier.copied(), i] { EXPECT_EQ(to[63], static_cast<std::byte>(i)); });
  }
  EXPECT_EQ(pool.overflows(), 0u);
}

TEST(PinnedPool, returns_nothing_while_all_slots_are_copying_where_it_is_not_to_wait) {
  FakeCuda cuda({.manual = true});
  SlotCopier copier;
  PinnedPool pool({.slot_bytes = 64, .slots = 1});
  copier.copy(pool, pool.acquire(kHere));
  EXPECT_EQ(pool.acquire(kHere, false), nullptr);
  cuda.run_all();
  EXPECT_NE(pool.acquire(kHere, false), nullptr);
  EXPECT_EQ(pool.waits().gpu_ns, 0u);
}

TEST(PinnedPool, is_polled_by_one_of_the_threads_that_wait) {
  constexpr std::size_t kThreads = 8;
  FakeCuda cuda({.manual = true});
  SlotCopier copier;
  PinnedPool pool({.slot_bytes = 64, .slots = kThreads});
  {
    std::vector<std::shared_ptr<std::byte>> slots;
    for (std::size_t i = 0; i < kThreads; ++i) slots.push_back(pool.acquire(kHere));
    for (const auto& slot : slots) copier.copy(pool, slot);
  }
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] { EXPECT_NE(pool.acquire(kHere), nullptr); });
  }
  // Until every thread has looked once, and one of them often.
  std::vector<std::uint64_t> queries;
  while (queries.size() < kThreads || queries.front() < 40) {
    std::this_thread::yield();
    queries = cuda.calls_by_thread("cudaEventQuery");
  }
  // The others sleep after their first look; they look again only where something else wakes them.
  EXPECT_LT(queries[1], 10u);
  EXPECT_EQ(pool.waits().transfer_ns, 0u) << "the copies have not begun";
  cuda.run_all();
}

TEST(PinnedPool, notices_in_debug_builds_that_its_memory_is_pinned_no_longer) {
  FakeCuda cuda;
  SlotCopier copier;
  PinnedPool pool({.slot_bytes = 64, .slots = 1, .check_sources = true});
  const auto slot = pool.acquire(kHere);
  copier.copy(pool, slot);
  ASSERT_EQ(cudaHostUnregister(slot.get()), cudaSuccess);
  EXPECT_THROW(copier.copy(pool, slot), DeviceError);
  ASSERT_EQ(cudaHostRegister(slot.get(), 64, 0), cudaSuccess);
}

TEST(PinnedPool, takes_pageable_memory_rather_than_wait_for_the_consumer) {
  const CapturedLog log;
  FakeCuda cuda;
  PinnedPool pool({.slot_bytes = 64, .slots = 1});
  const auto held = pool.acquire(kHere);
  {
    const auto second = pool.acquire(kHere);
    EXPECT_NE(second.get(), held.get());
    EXPECT_EQ(pool.overflows(), 1u);
    EXPECT_EQ(pool.lent(), 2u);
    EXPECT_TRUE(pool.check_invariants());
  }
  EXPECT_EQ(pool.lent(), 1u);
  EXPECT_TRUE(pool.check_invariants());
  EXPECT_NE(pool.acquire(kHere), nullptr);
  EXPECT_EQ(pool.overflows(), 2u);
  EXPECT_THAT(log.lines(), ElementsAre(HasSubstr("all 1 pinned slots for cuda:0 are taken"))) << "once";
}

TEST(PinnedPool, gives_slots_while_the_copy_of_a_pageable_one_waits_for_its_stream) {
  const CapturedLog log;
  FakeCuda cuda;
  SlotCopier copier;
  PinnedPool pool({.slot_bytes = 64, .slots = 1});
  const auto held = pool.acquire(kHere);
  std::promise<void> opener;
  cuda.enqueue(copier.stream(), [opened = opener.get_future().share()] { opened.wait(); });
  std::jthread copying([&] { copier.copy(pool, pool.acquire(kHere)); });
  while (cuda.calls_of("cudaMemcpyAsync") == 0) std::this_thread::yield();
  auto taken = std::async(std::launch::async, [&] { return pool.acquire(kHere) != nullptr; });
  EXPECT_EQ(taken.wait_for(std::chrono::seconds(20)), std::future_status::ready) << "stopped by the copy";
  opener.set_value();
  EXPECT_TRUE(taken.get());
}

TEST(PinnedPool, keeps_the_memory_of_leases_that_outlive_it) {
  FakeCuda cuda;
  std::shared_ptr<std::byte> lease;
  {
    PinnedPool pool({.slot_bytes = 4096, .slots = 3});
    lease = pool.acquire(kHere);
  }
  std::memset(lease.get(), 7, 4096);
  EXPECT_EQ(cuda.live().registrations, 1u);
  lease.reset();
  EXPECT_EQ(cuda.live(), FakeCudaLive{});
}

TEST(PinnedPool, waits_at_its_end_for_the_copies_that_still_read) {
  FakeCuda cuda;
  SlotCopier copier;
  {
    PinnedPool pool({.slot_bytes = 64, .slots = 2});
    const auto slot = pool.acquire(kHere);
    std::memset(slot.get(), 9, 64);
    copier.copy(pool, slot);
  }
  EXPECT_EQ(copier.copied()[10], std::byte{9});
}

TEST(PinnedPool, poisons_slots_that_become_free) {
  FakeCuda cuda;
  PinnedPool pool({.slot_bytes = 8, .slots = 1, .poison = true});
  const std::byte* address = nullptr;
  {
    const auto slot = pool.acquire(kHere);
    address = slot.get();
    std::memset(slot.get(), 1, 8);
  }
  EXPECT_EQ(address[0], std::byte{0xFB});
}

TEST(PinnedPool, aligns_every_slot) {
  FakeCuda cuda;
  PinnedPool pool({.slot_bytes = 100, .slots = 5});
  std::vector<std::shared_ptr<std::byte>> slots;
  for (int i = 0; i < 5; ++i) slots.push_back(pool.acquire(kHere));
  for (const auto& slot : slots) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slot.get()) % 64, 0u);
}

TEST(PinnedPool, passes_on_that_the_device_has_failed) {
  FakeCuda cuda;
  SlotCopier copier;
  PinnedPool pool({.slot_bytes = 64, .slots = 1});
  {
    const auto slot = pool.acquire(kHere);
    copier.copy(pool, slot);
  }
  cuda.fail_call(1, cudaErrorIllegalAddress, true);
  EXPECT_THROW(pool.acquire(kHere), gpu::CudaError);
}

}  // namespace
}  // namespace h5feed::test
