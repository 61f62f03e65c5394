// SPDX-License-Identifier: Apache-2.0
// Reads that fail for a moment are repeated, others are not.
#include "store/format/retrying_source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"
#include "support/files/flaky_source.hpp"
#include "support/loaders/deliveries.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

constexpr RetryWaits kAtOnce = {};

TEST(RetryingSource, repeats_a_read_up_to_three_times_and_counts) {
  for (const int failures : {0, 1, 3}) {
    const auto flaky = std::make_shared<FlakySource>(bytes_source(100), failures);
    const auto source = make_retrying(flaky, kAtOnce);
    const std::uint64_t before = read_retries_of_thread();
    std::array<std::byte, 10> out = {};
    source->read(20, out);
    EXPECT_EQ(out[3], std::byte{23});
    EXPECT_EQ(read_retries_of_thread() - before, static_cast<std::uint64_t>(failures));
    flaky->fail_next(failures);
    std::array<std::byte, 4> first = {}, second = {};
    const std::array<std::span<std::byte>, 2> outs = {std::span<std::byte>(first),
                                                      std::span<std::byte>(second)};
    source->read_scattered(50, outs);
    EXPECT_EQ(second[0], std::byte{54});
    std::thread([] { EXPECT_EQ(read_retries_of_thread(), 0u) << "of each thread"; }).join();
  }
}

TEST(RetryingSource, gives_up_after_four_tries_and_says_so) {
  const auto flaky = std::make_shared<FlakySource>(bytes_source(100), 4);
  std::array<std::byte, 10> out = {};
  EXPECT_EQ(refusal_of<FileError>([&] { make_retrying(flaky, kAtOnce)->read(0, out); }),
            "flaky: no answer; 4 tries failed");
  EXPECT_EQ(flaky->reads(), 4u);
}

TEST(RetryingSource, does_not_repeat_reads_that_fail_for_good) {
  const auto flaky = std::make_shared<FlakySource>(bytes_source(100), 0);
  std::array<std::byte, 10> out = {};
  EXPECT_EQ(refusal_of<FileError>([&] { make_retrying(flaky, kAtOnce)->read(95, out); }),
            "flaky: the file ended");
  EXPECT_EQ(flaky->reads(), 1u);
}

TEST(RetryingSource, knows_the_errors_that_may_pass) {
  for (const int error : {EIO, ESTALE, ETIMEDOUT}) EXPECT_TRUE(may_pass(error));
  for (const int error : {EBADF, EACCES, ENOSPC, EINVAL, 0}) EXPECT_FALSE(may_pass(error));
}

// The system returns EIO for memory that is not mapped.
TEST(RetryingSource, is_in_front_of_every_file) {
  const auto memory = open_file_source("/proc/self/mem");
  const std::uint64_t before = read_retries_of_thread();
  std::array<std::byte, 8> out = {};
  EXPECT_THAT(
      refusal_of<FileError>([&] { memory->read(0, out); }),
      testing::AllOf(HasSubstr("/proc/self/mem: reading 8 bytes at offset 0 failed: Input/output error"),
                     EndsWith("; 4 tries failed")));
  EXPECT_EQ(read_retries_of_thread() - before, 3u);
}

TEST(RetriedReads, do_not_disturb_a_loader_and_are_counted_whatever_on_error) {
  const SampleSet compressed({.shape = {100, 8, 6}, .chunk_shape = {10, 8, 6}, .gzip = 1});
  const SampleSet plain({.shape = {100, 8, 6}});
  for (const SampleSet* const set : {&compressed, &plain}) {
    for (const OnError on_error : {OnError::fail, OnError::skip, OnError::replace}) {
      for (const std::int64_t workers : {0, 2}) {
        std::shared_ptr<FlakySource> flaky;
        const Dataset dataset = DatasetAccess::open(
            {.files = {set->path()}, .data = "images"}, [&](std::shared_ptr<const ByteSource> source) {
              flaky = std::make_shared<FlakySource>(std::move(source), 0);
              return make_retrying(flaky, kAtOnce);
            });
        DataLoaderOptions options{.batch_size = 10, .shuffle = true, .seed = 1, .num_workers = workers};
        options.on_error = on_error;
        options.row_reads = set == &plain ? RowReads::always : RowReads::never;
        flaky->fail_next(3);
        DataLoader loader(dataset, options);
        std::vector<std::int64_t> samples;
        while (const auto batch = loader.next()) {
          samples.insert(samples.end(), batch->indices.begin(), batch->indices.end());
        }
        EXPECT_EQ(samples.size(), 100u);
        EXPECT_EQ(loader.stats().read_retries, 3u);
        EXPECT_EQ(loader.stats().bad_chunks, 0u);
        EXPECT_THAT(loader.report(), HasSubstr("reads tried again: 3"));
      }
    }
  }
}

}  // namespace
}  // namespace h5feed::test
