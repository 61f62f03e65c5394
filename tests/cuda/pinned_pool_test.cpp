#include "cuda/pinned_pool.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "cuda/device_ring.hpp"
#include "cuda/handles.hpp"
#include "support/captured_log.hpp"
#include "support/fake_cuda.hpp"

namespace h5feed::test {
namespace {

using gpu::PinnedPool;
using gpu::Pinning;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr gpu::CallPlace kHere{0};

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

TEST(PinnedArena, reports_a_driver_that_fails_for_other_reasons) {
  FakeCuda cuda;
  cuda.fail_call(2, cudaErrorIllegalAddress);  // the first asks for the NUMA node
  EXPECT_THROW(gpu::PinnedArena(100, 0, 1), gpu::CudaError);
  EXPECT_EQ(cuda.live(), FakeCudaLive{});
}

TEST(PinnedPool, gives_a_slot_again_only_after_the_copy_from_it) {
  FakeCuda cuda({.manual = true});
  const gpu::Stream stream = gpu::make_stream(0);
  PinnedPool pool({.slot_bytes = 64, .slots = 2});
  auto first = pool.acquire();
  auto second = pool.acquire();
  const std::byte* const first_address = first.get();
  cuda.enqueue(stream.get(), [] {});
  pool.copied_on(stream.get(), first.get(), kHere);
  first.reset();
  EXPECT_EQ(pool.lent(), 2u) << "the copy has not run";
  EXPECT_TRUE(pool.check_invariants());
  cuda.run({stream.get()});
  EXPECT_EQ(pool.lent(), 1u);
  EXPECT_EQ(pool.acquire().get(), first_address);
  EXPECT_EQ(pool.overflows(), 0u);
}

TEST(PinnedPool, waits_for_a_copy_when_all_slots_are_copying) {
  FakeCuda cuda;
  const gpu::Stream stream = gpu::make_stream(0);
  PinnedPool pool({.slot_bytes = 64, .slots = 1});
  for (int i = 0; i < 50; ++i) {
    const auto slot = pool.acquire();
    std::memset(slot.get(), i, 64);
    cuda.enqueue(stream.get(), [bytes = slot.get(), i] { EXPECT_EQ(bytes[63], static_cast<std::byte>(i)); });
    pool.copied_on(stream.get(), slot.get(), kHere);
  }
  EXPECT_EQ(pool.overflows(), 0u);
}

TEST(PinnedPool, takes_pageable_memory_rather_than_wait_for_the_consumer) {
  FakeCuda cuda;
  PinnedPool pool({.slot_bytes = 64, .slots = 1});
  const auto held = pool.acquire();
  {
    const auto beside = pool.acquire();
    EXPECT_NE(beside.get(), held.get());
    EXPECT_EQ(pool.overflows(), 1u);
    EXPECT_EQ(pool.lent(), 2u);
    EXPECT_TRUE(pool.check_invariants());
  }
  EXPECT_EQ(pool.lent(), 1u);
  EXPECT_TRUE(pool.check_invariants());
}

TEST(PinnedPool, keeps_the_memory_of_leases_that_outlive_it) {
  FakeCuda cuda;
  std::shared_ptr<std::byte> lease;
  {
    PinnedPool pool({.slot_bytes = 4096, .slots = 3});
    lease = pool.acquire();
  }
  std::memset(lease.get(), 7, 4096);
  EXPECT_EQ(cuda.live().registrations, 1u);
  lease.reset();
  EXPECT_EQ(cuda.live(), FakeCudaLive{});
}

TEST(PinnedPool, waits_at_its_end_for_the_copies_that_still_read) {
  FakeCuda cuda;
  const gpu::Stream stream = gpu::make_stream(0);
  bool intact = false;
  {
    PinnedPool pool({.slot_bytes = 64, .slots = 2});
    const auto slot = pool.acquire();
    std::memset(slot.get(), 9, 64);
    cuda.enqueue(stream.get(), [bytes = slot.get(), &intact] { intact = bytes[10] == std::byte{9}; });
    pool.copied_on(stream.get(), slot.get(), kHere);
  }
  EXPECT_TRUE(intact);
}

TEST(PinnedPool, poisons_slots_that_become_free) {
  FakeCuda cuda;
  PinnedPool pool({.slot_bytes = 8, .slots = 1, .poison = true});
  const std::byte* address = nullptr;
  {
    const auto slot = pool.acquire();
    address = slot.get();
    std::memset(slot.get(), 1, 8);
  }
  EXPECT_EQ(address[0], std::byte{0xFB});
}

TEST(PinnedPool, aligns_every_slot) {
  FakeCuda cuda;
  PinnedPool pool({.slot_bytes = 100, .slots = 5});
  std::vector<std::shared_ptr<std::byte>> slots;
  for (int i = 0; i < 5; ++i) slots.push_back(pool.acquire());
  for (const auto& slot : slots) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slot.get()) % 64, 0u);
}

TEST(PinnedPool, passes_on_that_the_device_has_failed) {
  FakeCuda cuda;
  const gpu::Stream stream = gpu::make_stream(0);
  PinnedPool pool({.slot_bytes = 8, .slots = 1});
  {
    const auto slot = pool.acquire();
    pool.copied_on(stream.get(), slot.get(), kHere);
  }
  cuda.fail_call(1, cudaErrorIllegalAddress, true);
  EXPECT_THROW(pool.acquire(), gpu::CudaError);
}

}  // namespace
}  // namespace h5feed::test
