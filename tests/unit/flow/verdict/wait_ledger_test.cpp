// SPDX-License-Identifier: Apache-2.0
// To which stages the waits of the consumer are charged.
#include "flow/measure/wait_ledger.hpp"

#include <gtest/gtest.h>

#include <cstdint>

#include "base/clock.hpp"

namespace h5feed::test {
namespace {

class Charged : public testing::Test {
 protected:
  void charge(std::uint64_t wait, std::uint64_t passed, std::int64_t workers = 2) {
    now_ += passed;
    ledger_.charge(wait, now_, workers);
  }

  Counters counters_;
  WaitLedger ledger_{counters_};
  std::uint64_t now_ = now_ns();
};

TEST_F(Charged, are_divided_by_the_time_in_each_stage) {
  charge(0, 1000);
  counters_.read_ns += 100;
  counters_.decode_ns += 600;
  counters_.gather_ns += 200;
  counters_.transform_ns += 50;
  counters_.transfer_ns += 50;
  charge(500, 500);
  EXPECT_EQ(counters_.wait_read_ns, 50U);
  EXPECT_EQ(counters_.wait_decode_ns, 300U);
  EXPECT_EQ(counters_.wait_gather_ns, 100U);
  EXPECT_EQ(counters_.wait_transform_ns, 25U);
  EXPECT_EQ(counters_.wait_transfer_ns, 25U);
}

TEST_F(Charged, look_at_what_was_done_since_the_wait_before) {
  counters_.decode_ns += 1'000'000;
  charge(0, 1000);
  counters_.read_ns += 10;
  charge(300, 300);
  EXPECT_EQ(counters_.wait_read_ns, 300U);
  EXPECT_EQ(counters_.wait_decode_ns, 0U);
}

TEST_F(Charged, count_reads_ahead_only_while_workers_are_idle) {
  charge(0, 1000);
  // Readers take eight times as long as decoding, but at the same time, and the workers never wait for them.
  counters_.read_ns += 8000;
  counters_.fetch_ns += 8000;
  counters_.decode_ns += 2000;
  charge(1000, 1000);
  EXPECT_EQ(counters_.wait_read_ns, 0U);
  EXPECT_EQ(counters_.wait_decode_ns, 1000U);
  // Now the two workers decode for a fourth of the time.
  counters_.read_ns += 8000;
  counters_.fetch_ns += 8000;
  counters_.decode_ns += 500;
  charge(1000, 1000);
  EXPECT_EQ(counters_.wait_read_ns, 750U);
  EXPECT_EQ(counters_.wait_decode_ns, 1250U);
}

TEST_F(Charged, are_kept_until_a_stage_ends) {
  charge(0, 1000);
  charge(400, 400);
  EXPECT_EQ(counters_.wait_read_ns + counters_.wait_decode_ns, 0U);
  counters_.decode_ns += 1;
  charge(100, 100);
  EXPECT_EQ(counters_.wait_decode_ns, 500U);
}

TEST_F(Charged, are_the_consumers_own_work_without_workers) {
  charge(0, 1000, 0);
  counters_.read_ns += 300;
  counters_.gather_ns += 100;
  charge(400, 400, 0);
  EXPECT_EQ(counters_.wait_read_ns, 300U);
  EXPECT_EQ(counters_.wait_gather_ns, 100U);
}

}  // namespace
}  // namespace h5feed::test
