// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/divisor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>

namespace h5feed::gpu {
namespace {

constexpr std::uint32_t kMost = (std::uint32_t{1} << 31) - 1;

void expect_exact(std::uint32_t divisor, std::uint32_t number) {
  const auto [whole, rest] = Divisor<std::uint32_t>(divisor).split(number);
  ASSERT_EQ(whole, number / divisor) << number << " / " << divisor;
  ASSERT_EQ(rest, number % divisor) << number << " / " << divisor;
}

// A rounded quotient errs first next to a multiple of the divisor, and most at the largest.
void expect_exact_next_to_multiples(std::uint32_t divisor) {
  for (const std::uint32_t multiple : {1u, 2u, kMost / divisor / 2, kMost / divisor}) {
    const std::uint32_t product = multiple * divisor;
    for (const std::uint32_t number : {product - 1, product, std::min(product, kMost - 1) + 1}) {
      if (number <= kMost) expect_exact(divisor, number);
    }
  }
  for (const std::uint32_t number : {0u, 1u, kMost - 1, kMost}) expect_exact(divisor, number);
}

TEST(Divisor, divides_next_to_multiples_as_the_language_does) {
  for (std::uint32_t divisor = 1; divisor < 70'000; ++divisor) {
    expect_exact_next_to_multiples(divisor);
    if (HasFatalFailure()) return;
  }
  for (int bit = 16; bit < 31; ++bit) {
    for (const int off : {-1, 0, 1}) {
      expect_exact_next_to_multiples((std::uint32_t{1} << bit) + static_cast<std::uint32_t>(off));
    }
  }
  expect_exact_next_to_multiples(kMost);
}

TEST(Divisor, divides_random_numbers_as_the_language_does) {
  std::mt19937 random(7);
  for (int i = 0; i < 200'000; ++i) {
    const auto divisor = static_cast<std::uint32_t>(random() >> (1 + random() % 31));
    const auto number = static_cast<std::uint32_t>(random() & kMost);
    expect_exact(std::max(divisor, 1u), number);
    if (HasFatalFailure()) return;
  }
}

TEST(Divisor, of_64_bits_divides_beyond_32) {
  const auto [whole, rest] = Divisor<std::uint64_t>(7).split((std::uint64_t{1} << 40) + 5);
  EXPECT_EQ(whole, ((std::uint64_t{1} << 40) + 5) / 7);
  EXPECT_EQ(rest, ((std::uint64_t{1} << 40) + 5) % 7);
}

}  // namespace
}  // namespace h5feed::gpu
