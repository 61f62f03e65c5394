// SPDX-License-Identifier: Apache-2.0
// The forecast of a cache of rows against a simulation of the whole set.
#include "flow/resolve/row_forecast.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "h5feed/interrupt.hpp"
#include "plan/epoch_plan.hpp"
#include "support/loaders/row_simulator.hpp"

namespace h5feed::test {
namespace {

// Decodes per chunk in the first epoch and, on average, in the two that follow.
RowForecast simulated(const RowForecastSpec& spec) {
  test::Requests requests;
  std::uint64_t batches = 0;
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
    const EpochPlan plan({.num_samples = spec.num_samples,
                          .rows_per_chunk = spec.rows_per_chunk,
                          .shuffle = spec.shuffle,
                          .seed = 8,
                          .batch_size = spec.batch_size},
                         epoch);
    batches = plan.num_batches();
    for (std::uint64_t number = 0; number < batches; ++number) requests.push_back(plan.batch(number));
  }
  const test::Simulation simulation{spec.rows_per_chunk, spec.num_samples, batches, 3};
  const auto capacity = static_cast<std::uint64_t>(spec.held_share * static_cast<double>(spec.num_samples));
  const std::vector<std::uint64_t> decodes = simulation.belady_rows(requests, capacity);
  const double chunks = static_cast<double>(spec.num_samples) / static_cast<double>(spec.rows_per_chunk);
  return {static_cast<double>(decodes[0]) / chunks,
          static_cast<double>(decodes[1] + decodes[2]) / chunks / 2};
}

TEST(RowForecast, agrees_with_a_simulation_of_the_whole_set) {
  for (const RowForecastSpec& spec : std::vector<RowForecastSpec>{
           {20'000, 20, 256, "full", 0.25},
           {20'000, 20, 256, "full", 0.1},
           {20'000, 20, 1, "full", 0.25},
           {20'000, 20, 256, "sequential", 0.5},
           {20'000, 20, 64, "chunk:100", 0.05},
#ifndef H5FEED_ADDRESS_SANITIZER             // a minute there
           {80'000, 20, 256, "full", 0.25},  // four times as large as what is simulated
           {80'000, 20, 256, "full", 0.6},
           {80'000, 20, 64, "chunk:400", 0.05},
#endif
       }) {
    const RowForecast expected = simulated(spec);
    const RowForecast forecast = forecast_rows(spec);
    EXPECT_NEAR(forecast.first_epoch, expected.first_epoch, expected.first_epoch * 0.06) << spec.num_samples;
    EXPECT_NEAR(forecast.later_epochs, expected.later_epochs, expected.later_epochs * 0.06)
        << spec.num_samples << ' ' << spec.shuffle.to_string() << ' ' << spec.held_share;
  }
}

TEST(RowForecast, knows_the_ends_of_the_scale) {
  const RowForecast all = forecast_rows({1'000'000'000, 100, 256, "full", 1.0});
  EXPECT_DOUBLE_EQ(all.first_epoch, 1);
  EXPECT_DOUBLE_EQ(all.later_epochs, 0);
  const RowForecast none = forecast_rows({1000, 10, 1, "full", 0.0});
  EXPECT_NEAR(none.later_epochs, 10, 0.5) << "a decode for every sample";
  const RowForecast sequential = forecast_rows({1000, 10, 10, "sequential", 0.0});
  EXPECT_DOUBLE_EQ(sequential.later_epochs, 1);
  EXPECT_DOUBLE_EQ(forecast_rows({3, 5, 2, "full", 1.0}).first_epoch, 1) << "less than one chunk";
}

// A decode for every batch, and batches much smaller than chunks: seconds if all rows were looked at.
const RowForecastSpec kLong = {std::uint64_t{1} << 40, std::uint64_t{1} << 24, 256, "sequential", 0.0, false};

TEST(RowForecast, is_rough_where_only_a_long_simulation_could_tell) {
  const RowForecast forecast = forecast_rows(kLong);
  EXPECT_TRUE(forecast.rough);
  EXPECT_GT(forecast.later_epochs, 10) << "a decode for every batch";
  EXPECT_FALSE(forecast_rows({1'000'000'000, 100, 256, "full", 0.1}).rough);
  EXPECT_FALSE(forecast_rows({20'000, 20, 1, "full", 0.0}).rough);
}

TEST(RowForecast, ends_with_an_interrupt) {
  struct Stop {};
  const InterruptCheck check([] { throw Stop(); });
  EXPECT_THROW(while (true) forecast_rows(kLong), Stop);
}

}  // namespace
}  // namespace h5feed::test
