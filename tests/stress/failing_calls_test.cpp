// SPDX-License-Identifier: Apache-2.0
// Calls of the system fail, each in turn: reads of a file, and starts of threads. The samples are right, or
// the exception names the file or the option; the loader delivers the rest of the epoch, and the next one
// whole. A binary of its own, since it replaces pread and pthread_create.
#include "support/failing_calls.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "h5feed/log.hpp"
#include "store/format/byte_source.hpp"
#include "support/files/sample_set.hpp"
#include "support/files/temp_dir.hpp"
#include "support/files/waiting_source.hpp"
#include "support/loaders/stored_samples.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kSamples = 40;
constexpr std::int64_t kMostCalls = 10'000;

struct Case {
  const char* name;
  SampleSetSpec set;
  DataLoaderOptions options;
};

std::vector<Case> cases() {
  const SampleSetSpec gzip{.shape = {kSamples, 6, 5}, .chunk_shape = {5, 6, 5}, .shuffle = true, .gzip = 1};
  const SampleSetSpec newer_checked{.shape = {kSamples, 6, 5}, .chunk_shape = {5, 3, 5}, .fletcher32 = true};
  const SampleSetSpec plain{.shape = {kSamples, 6, 5}};
  return {
      {"compressed", gzip, {.batch_size = 8, .shuffle = true, .seed = 1, .cache_bytes = 1000}},
      {"checked", newer_checked, {.batch_size = 8, .shuffle = "chunk:3", .seed = 1}},
      {"rows", plain, {.batch_size = 8, .shuffle = true, .seed = 1, .row_reads = RowReads::always}},
      {"preloaded", gzip, {.batch_size = 8, .seed = 1, .preload = true}},
  };
}

class FailingSystem : public testing::TestWithParam<std::tuple<Case, std::int64_t>> {
 protected:
  FailingSystem() {
    set_log_sink([](LogLevel, std::string_view) {});
    options_ = std::get<0>(GetParam()).options;
    options_.num_workers = std::get<1>(GetParam());
  }
  ~FailingSystem() override { set_log_sink({}); }

  Dataset open() const {
    return Dataset::open({.files = {set_.path()}, .data = "images", .target = "labels"});
  }

  // Takes the batches up to the end of an epoch, and counts exceptions in `thrown_`. Returns the number of
  // samples.
  std::int64_t take_epoch(DataLoader& loader) {
    std::int64_t samples = 0;
    while (thrown_ <= kSamples) {
      try {
        const auto batch = loader.next();
        if (!batch) return samples;
        expect_stored(set_, *batch);
        samples += batch->size();
      } catch (const Error& error) {
        note(error);
      }
    }
    ADD_FAILURE() << "next() throws for ever";
    return samples;
  }

  void note(const Error& error) {
    ++thrown_;
    EXPECT_THAT(error.what(), HasSubstr(named_));
  }

  // Two epochs, after the faults, of a loader that some of them have met.
  void expect_whole_again(DataLoader* loader) {
    if (loader == nullptr) return;
    take_epoch(*loader);  // some of its batches were prepared before
    thrown_ = 0;
    EXPECT_EQ(take_epoch(*loader), kSamples) << "after the faults";
    EXPECT_EQ(thrown_, 0);
  }

  // Lets a call go wrong while a loader is made and delivers an epoch; opens the dataset before if `opened`.
  // Returns whether the call was made.
  bool fail(CallFault fault, std::int64_t number, const std::optional<Dataset>& opened) {
    std::optional<Dataset> dataset = opened;
    std::unique_ptr<DataLoader> loader;
    std::int64_t samples = 0;
    thrown_ = 0;
    FailingCalls failure(fault, number);
    try {
      if (!dataset) dataset = open();
      loader = std::make_unique<DataLoader>(*dataset, options_);
      samples = take_epoch(*loader);
    } catch (const Error& error) {
      note(error);
    }
    const bool failed = failure.end();
    if (thrown_ == 0) {
      EXPECT_EQ(samples, kSamples) << "the fault was lost";
    }
    if (!failed) {
      EXPECT_EQ(thrown_, 0);
    }
    const bool harmless =
        fault == CallFault::interrupted || fault == CallFault::partial || fault == CallFault::passing;
    if (harmless && opened) {
      EXPECT_EQ(thrown_, 0);
    }
    expect_whole_again(loader.get());
    return failed;
  }

  // Lets each call go wrong in turn, until fewer are made.
  void fail_each(CallFault fault, bool opened) {
    const std::optional<Dataset> dataset = opened ? std::optional(open()) : std::nullopt;
    std::int64_t number = 0;
    constexpr int kRunsWithout = 2;  // threads make a run need a few more or less
    for (int without = 0; without < kRunsWithout && number < kMostCalls; ++number) {
      without = fail(fault, number, dataset) ? 0 : without + 1;
      ASSERT_FALSE(HasFailure()) << "call " << number;
    }
    EXPECT_GT(number, kRunsWithout) << "the test counts nothing";
  }

  const SampleSet set_{std::get<0>(GetParam()).set};
  DataLoaderOptions options_;
  std::string named_ = set_.path().filename().string();
  std::int64_t thrown_ = 0;
};

TEST_P(FailingSystem, reads_that_fail_while_a_file_is_opened_or_read_are_errors_that_name_it) {
  fail_each(CallFault::failed, false);
}

TEST_P(FailingSystem, a_file_that_ends_early_while_it_is_opened_or_read_is_an_error_that_names_it) {
  fail_each(CallFault::end_of_file, false);
}

TEST_P(FailingSystem, reads_that_fail_for_a_moment_go_unnoticed) { fail_each(CallFault::passing, true); }

TEST_P(FailingSystem, reads_that_are_interrupted_go_unnoticed) { fail_each(CallFault::interrupted, true); }

TEST_P(FailingSystem, reads_that_deliver_half_go_unnoticed) { fail_each(CallFault::partial, true); }

TEST_P(FailingSystem, reads_of_metadata_that_are_interrupted_or_partial_are_right_or_errors) {
  fail_each(CallFault::interrupted, false);
  fail_each(CallFault::partial, false);
}

std::string name_of_case(const testing::TestParamInfo<FailingSystem::ParamType>& each) {
  return std::string(std::get<0>(each.param).name) + "_" + std::to_string(std::get<1>(each.param));
}

INSTANTIATE_TEST_SUITE_P(Each, FailingSystem,
                         testing::Combine(testing::ValuesIn(cases()), testing::Values(0, 3)), name_of_case);

// With workers, as a loader without them starts no threads.
class FailingThreads : public FailingSystem {};

TEST_P(FailingThreads, that_cannot_be_started_are_done_without_or_an_error_that_names_num_workers) {
  named_ = "num_workers = ";
  for (const CallFault fault : {CallFault::no_thread, CallFault::no_threads}) fail_each(fault, true);
}

INSTANTIATE_TEST_SUITE_P(Each, FailingThreads,
                         testing::Combine(testing::ValuesIn(cases()), testing::Values(3)), name_of_case);

// Loads with a worker and reader threads while only `threads` threads can be started; returns the samples.
std::int64_t samples_with_threads(const Dataset& dataset, std::int64_t threads) {
  DataLoader loader(dataset, {.num_workers = 1, .io_depth = 4, .cache_bytes = 0});
  std::int64_t samples = 0;
  FailingCalls failure(CallFault::no_threads, threads);
  for (int epoch = 0; epoch < 3; ++epoch) {
    while (const auto batch = loader.next()) samples += batch->size();
  }
  EXPECT_TRUE(failure.end()) << "no more threads were asked for";
  return samples;
}

TEST(FailingReaderThreads, leave_the_reading_to_those_that_run) {
  const SampleSet set({.shape = {kSamples, 6, 5}, .chunk_shape = {1, 6, 5}, .gzip = 1});
  const Dataset dataset = DatasetAccess::open({.files = {set.path()}, .data = "images"}, [](auto source) {
    return std::make_shared<WaitingSource>(std::move(source), std::chrono::microseconds(50));
  });
  for (const std::int64_t threads : {0, 1, 2})
    EXPECT_EQ(samples_with_threads(dataset, threads), 3 * kSamples);
}

TEST(FailingHelpers, leave_the_copying_of_a_file_to_the_caller) {
  const SampleSet set({.shape = {80, 600, 500}});  // six blocks of 4 MiB
  for (const std::int64_t threads : {0, 1, 2}) {
    const TempDir stage;
    FailingCalls failure(CallFault::no_threads, threads);
    const Dataset dataset =
        Dataset::open({.files = {set.path()}, .data = "images", .stage_dir = stage.path()});
    EXPECT_TRUE(failure.end()) << "no more threads were asked for";
    DataLoader loader(dataset, {.batch_size = 20});
    while (const auto batch = loader.next()) expect_stored(set, *batch);
  }
}

}  // namespace
}  // namespace h5feed::test
