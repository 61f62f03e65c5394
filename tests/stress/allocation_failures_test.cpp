// SPDX-License-Identifier: Apache-2.0
// The n-th allocation by operator new fails, for every n until a run needs fewer: each run ends with the
// right samples or with an exception, and the next run works. A binary of its own, since it replaces operator
// new.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/log.hpp"
#include "support/case_step.hpp"
#include "support/failing_new.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/loader_cases.hpp"
#include "support/loaders/stored_samples.hpp"

namespace h5feed::test {
namespace {

struct Case {
  const char* name;
  SampleSetSpec set;
  DataLoaderOptions options;
};

std::vector<Case> cases() {
  const SampleSetSpec gzip{.shape = {40, 6, 5}, .chunk_shape = {10, 6, 5}, .shuffle = true, .gzip = 1};
  const SampleSetSpec plain{.shape = {40, 6, 5}};
  return {
      {"compressed", gzip, {.batch_size = 16, .shuffle = "chunk:2", .seed = 1}},
      {"clairvoyant",
       gzip,
       {.batch_size = 16,
        .shuffle = true,
        .seed = 1,
        .cache_bytes = 1000,
        .cache_policy = CachePolicy::clairvoyant}},
      {"uncompressed", plain, {.batch_size = 16, .shuffle = true, .seed = 1}},
      {"skipping", gzip, {.batch_size = 16, .seed = 1, .on_error = OnError::skip, .max_bad_share = 1}},
  };
}

class AllocationFailures : public testing::TestWithParam<Case> {
 protected:
  AllocationFailures() {
    set_log_sink([](LogLevel, std::string_view) {});
  }
  ~AllocationFailures() override { set_log_sink({}); }

  // Opens the set and takes an epoch; the allocation that fails may be any of it. Returns the number of
  // samples.
  std::int64_t epoch() {
    DataLoader loader(open(set_), GetParam().options);
    std::int64_t samples = 0;
    for (const Batch& batch : loader) {
      const NoFailures comparing;
      expect_stored(set_, batch);
      samples += batch.size();
    }
    return samples;
  }

  const SampleSet set_{GetParam().set};
};

TEST_P(AllocationFailures, end_with_all_samples_or_an_exception) {
  EXPECT_EQ(epoch(), 40);  // what is allocated once for the process
  std::int64_t exceptions = 0, tried = 0;
  for (bool failed = true; failed; ++tried) {
    const std::int64_t number = tried * static_cast<std::int64_t>(kCaseStep);
    bool thrown = false;
    begin_failures({.first = number});
    try {
      const std::int64_t samples = epoch();
      failed = end_failures();
      if (GetParam().options.on_error == OnError::fail) {
        EXPECT_EQ(samples, 40) << "failure " << number << " was lost";
      }
    } catch (const std::exception& error) {
      failed = end_failures();
      thrown = true;
      EXPECT_NE(std::string(error.what()), "") << "failure " << number;
    }
    if (thrown) ++exceptions;
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(exceptions, tried / 2) << "of " << tried << " failures";
  EXPECT_EQ(epoch(), 40);
  EXPECT_EQ(H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_FILE), 0);
}

INSTANTIATE_TEST_SUITE_P(All, AllocationFailures, testing::ValuesIn(cases()),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace h5feed::test
