// SPDX-License-Identifier: Apache-2.0
#include "base/spare_memory.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

namespace h5feed::test {
namespace {

TEST(SpareMemory, is_lent_up_to_its_size) {
  SpareMemory memory;
  EXPECT_FALSE(memory.borrow(1));
  memory.resize({.budget = 100, .spare = 10});
  {
    const std::optional<SpareMemory::Loan> all = memory.borrow(10);
    EXPECT_TRUE(all);
    EXPECT_FALSE(memory.borrow(11));
  }
  EXPECT_TRUE(memory.borrow(10));
  EXPECT_EQ(memory.size().budget, 100U);
}

TEST(SpareMemory, makes_borrowers_wait_for_each_other_and_serves_all) {
  SpareMemory memory;
  memory.resize({.budget = 100, .spare = 10});
  std::atomic<std::uint64_t> lent = 0;
  std::atomic<int> served = 0;
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t number = 0; number < 8; ++number) {
      threads.emplace_back([&, number] {
        for (std::uint64_t i = 0; i < 2000; ++i) {
          const std::uint64_t bytes = (number + i) % 10 + 1;
          const std::optional<SpareMemory::Loan> loan = memory.borrow(bytes);
          EXPECT_TRUE(loan);
          EXPECT_LE(lent += bytes, 10U);
          lent -= bytes;
          ++served;
        }
      });
    }
  }
  EXPECT_EQ(served, 16'000);
}

TEST(SpareMemory, that_shrinks_refuses_who_waits_for_more_than_is_left) {
  SpareMemory memory;
  memory.resize({.budget = 100, .spare = 10});
  std::optional<SpareMemory::Loan> first = memory.borrow(10);
  std::atomic<bool> refused = false;
  std::jthread waits([&] { refused = !memory.borrow(8); });
  memory.resize({.budget = 100, .spare = 5});
  waits.join();
  EXPECT_TRUE(refused);
  first.reset();
  EXPECT_TRUE(memory.borrow(5));
}

}  // namespace
}  // namespace h5feed::test
