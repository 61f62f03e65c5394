// SPDX-License-Identifier: Apache-2.0
// What the loader makes of its options before the first batch: refusals, the memory budget, advice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <string>
#include <utility>

#include "dataset/dataset_state.hpp"
#include "h5feed/config.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "support/captured_log.hpp"
#include "support/files/filter_decoding.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/sample_set.hpp"
#include "support/files/temp_dir.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;

class OptionErrors : public testing::Test {
 protected:
  SampleSet set_{gzip_set()};
  Dataset dataset_ = open(set_);
};

TEST_F(OptionErrors, name_the_option_and_what_works) {
  const auto refuse = [&](const DataLoaderOptions& options) {
    return refusal<OptionError>(dataset_, options);
  };
  EXPECT_EQ(refuse({.batch_size = 0}), "batch_size must be at least 1, or none for single samples; got 0");
  EXPECT_EQ(refuse({.batch_size = -3}), "batch_size must be at least 1, or none for single samples; got -3");
  EXPECT_EQ(refuse({.num_workers = -2}), "num_workers must be 0 to 1024, or auto (-1); got -2");
  EXPECT_EQ(refuse({.prefetch_factor = 2}),
            "prefetch_factor needs workers that prefetch; set num_workers > 0, or leave it unset");
  EXPECT_EQ(refuse({.num_workers = 1, .prefetch_factor = 0}), "prefetch_factor must be 1 to 1024; got 0");
  EXPECT_EQ(refuse({.timeout = std::chrono::seconds(1)}),
            "timeout needs workers to wait for; set num_workers > 0, or leave it unset");
  EXPECT_EQ(refuse({.timeout = std::chrono::milliseconds(0), .num_workers = 1}),
            "timeout must be positive; got 0 ms");
  EXPECT_EQ(refuse({.batch_size = std::nullopt, .drop_last = true}),
            "drop_last needs batches; set batch_size, or leave drop_last unset");
  EXPECT_EQ(refuse({.device = "cuda:0"}),
            H5FEED_HAS_CUDA == 0
                ? "device \"cuda:0\": h5feed was built without CUDA"
                : "device \"cuda:0\" needs options.device = h5feed::gpu::device(\"cuda:0\"); "
                  "link h5feed::gpu");
  EXPECT_EQ(refuse({.device = "tpu"}), "device \"tpu\" is not known; use \"cpu\", \"cuda:N\" or \"auto\"");
  EXPECT_EQ(refuse({.normalize = Normalize{.mean = {1, 2}}}),
            "normalize.mean has 2 values, the data has 1 channel; give one value, or one per channel");
  EXPECT_EQ(refuse({.row_reads = RowReads::always}),
            "row_reads = always needs uncompressed rows in one piece; " + set_.path().string() +
                ":/images has none; use automatic");
}

TEST(CachePolicyOption, refuses_rows_past_the_cache_beside_foresight) {
  const SampleSet set({.shape = {100, 8, 6}});
  EXPECT_EQ(refusal<OptionError>(
                open(set),
                {.cache_bytes = 0, .cache_policy = CachePolicy::clairvoyant, .row_reads = RowReads::always}),
            "cache_policy = clairvoyant keeps rows of decoded chunks, row_reads = always reads rows past the "
            "cache; use one of the two");
}

// One integer type for each meaning: an option as it is set, and as it is resolved, compares without a cast.
template <auto Set, auto Resolved>
constexpr bool kAlike = false;
template <typename T, T DataLoaderOptions::*Set, T ResolvedOptions::*Resolved>
constexpr bool kAlike<Set, Resolved> = true;
static_assert(kAlike<&DataLoaderOptions::num_workers, &ResolvedOptions::num_workers>);
static_assert(kAlike<&DataLoaderOptions::rank, &ResolvedOptions::rank>);
static_assert(kAlike<&DataLoaderOptions::world_size, &ResolvedOptions::world_size>);
static_assert(std::same_as<decltype(Echo::factor), decltype(ResolvedOptions::echo_factor)>);
static_assert(std::same_as<decltype(Echo::factor), decltype(Batch::repeat)>);
static_assert(std::same_as<decltype(ResolvedOptions::batch_size), decltype(ResolvedOptions::max_batch_rows)>);
static_assert(std::same_as<decltype(std::declval<Dataset>().size()), decltype(PlanReport::samples)>);
static_assert(std::same_as<decltype(PlanReport::samples), decltype(ResolvedOptions::samples_per_epoch)>);
static_assert(std::same_as<decltype(std::declval<EpochSamples>().size()), decltype(PlanReport::samples)>);
static_assert(std::same_as<decltype(std::declval<EpochSamples>().at(0)), std::int64_t>);
static_assert(std::same_as<decltype(std::declval<EpochBatches>().size()), decltype(PlanReport::batches)>);
static_assert(std::same_as<decltype(std::declval<DataLoader>().size()), decltype(PlanReport::batches)>);
static_assert(std::same_as<decltype(LoaderState::world_size), decltype(ResolvedOptions::world_size)>);
static_assert(std::same_as<decltype(std::declval<DataLoader>().size()), decltype(Batch::number)>);
static_assert(std::constructible_from<TorchRandomSampler, decltype(std::declval<Dataset>().size())>);

TEST(CachePolicyOption, has_a_name_for_each_policy) {
  EXPECT_EQ(name_of(CachePolicy::lru), "lru");
  EXPECT_EQ(name_of(CachePolicy::clairvoyant), "clairvoyant");
  EXPECT_EQ(name_of(CachePolicy::keep_first), "keep_first");
}

TEST(CachePolicyOption, is_lru_where_all_data_fits) {
  const SampleSet set(gzip_set());
  for (const CachePolicy policy : {CachePolicy::clairvoyant, CachePolicy::keep_first}) {
    EXPECT_EQ(DataLoader(open(set), {.cache_bytes = 4800, .cache_policy = policy}).options().cache_policy,
              CachePolicy::lru);
    EXPECT_EQ(DataLoader(open(set), {.cache_bytes = 4799, .cache_policy = policy}).options().cache_policy,
              policy);
  }
}

TEST_F(OptionErrors, target_dtype_needs_a_target) {
  EXPECT_EQ(refusal<OptionError>(Dataset::open({.files = {set_.path()}, .data = "images"}),
                                 {.target_dtype = DType::f32}),
            "target_dtype needs a target; name one when opening the dataset, or leave it unset");
}

// The contract's own example: 512 × 116,412 B × 3 slots and an explicit cache, on uncompressed data.
TEST(MemoryBudget, that_is_too_small_names_what_would_work) {
  const SampleSet set({.shape = {600, 3, 218, 178}});
  const Dataset dataset = Dataset::open({.files = {set.path()}, .data = "images"});
  DataLoaderOptions options{.batch_size = 512, .num_workers = 1, .cache_bytes = 128u << 20};
  options.memory_budget_bytes = 256u << 20;
  EXPECT_EQ(
      refusal<OptionError>(dataset, options),
      "memory_budget_bytes 256 MiB cannot hold batch_size 512 × 116,412 B × 3 slots (171 MiB) + cache_bytes "
      "128 MiB; use batch_size ≤ 384 or at least 299 MiB");
  options.batch_size = 384;
  EXPECT_EQ(refusal<OptionError>(dataset, options), "accepted");
  options.batch_size = 512;
  options.memory_budget_bytes = 299u << 20;
  EXPECT_EQ(refusal<OptionError>(dataset, options), "accepted");
}

TEST(MemoryBudget, needs_room_for_one_chunk_beside_the_batches) {
  const SampleSet set({.shape = {2000, 64, 64}, .chunk_shape = {500, 64, 64}, .gzip = 1});
  const Dataset dataset = Dataset::open({.files = {set.path()}, .data = "images"});
  DataLoaderOptions options{.batch_size = 1, .memory_budget_bytes = 1u << 20};
  const std::string message = refusal<OptionError>(dataset, options);
  EXPECT_THAT(message,
              HasSubstr("memory_budget_bytes 1 MiB cannot hold batch_size 1 × 4,096 B × 1 slot (4 KiB) + one "
                        "decoded chunk 2 MiB + one stored chunk with filter buffers"));
  const std::size_t at_least = message.rfind("at least ");
  ASSERT_NE(at_least, std::string::npos);
  options.memory_budget_bytes = std::stoull(message.substr(at_least + 9)) << 20;
  EXPECT_EQ(refusal<OptionError>(dataset, options), "accepted");
}

// A file of a few KB may claim a million chunks and more, none of which is stored.
TEST(MemoryBudget, counts_the_tables_of_very_many_chunks) {
  const TempDir dir;
  {
    H5TestFile file(dir / "sparse.h5");
    file.create({.path = "images", .shape = {1 << 20, 4}, .chunk = {1, 4}, .filters = {gzip_filter(1)}});
  }
  const Dataset dataset = Dataset::open({.files = {dir / "sparse.h5"}, .data = "images"});
  EXPECT_THAT(refusal<OptionError>(dataset, {.memory_budget_bytes = 4u << 20}),
              HasSubstr("sparse.h5:/images (8 MiB) + "));
  EXPECT_EQ(refusal<OptionError>(dataset, {.memory_budget_bytes = 9u << 20}), "accepted");

  DataLoaderOptions by_chunk{.seed = 1, .world_size = 4, .shard = Shard::by_chunk};
  by_chunk.memory_budget_bytes = 32u << 20;
  EXPECT_THAT(refusal<OptionError>(dataset, by_chunk),
              HasSubstr("sparse.h5:/images and the order of a rank's 262,144 chunks (32 MiB) + "));
  by_chunk.memory_budget_bytes = 33u << 20;
  EXPECT_EQ(refusal<OptionError>(dataset, by_chunk), "accepted");
}

TEST(MemoryBudget, counts_decoded_chunks_beside_a_cache_of_rows) {
  const SampleSet set({.shape = {2000, 64, 64}, .chunk_shape = {500, 64, 64}, .gzip = 1});
  const Dataset dataset = Dataset::open({.files = {set.path()}, .data = "images"});
  DataLoaderOptions options{.batch_size = 1, .cache_bytes = 3u << 20, .memory_budget_bytes = 4u << 20};
  EXPECT_EQ(refusal<OptionError>(dataset, options), "accepted");
  options.cache_policy = CachePolicy::clairvoyant;
  const std::string message = refusal<OptionError>(dataset, options);
  EXPECT_THAT(message,
              HasSubstr("memory_budget_bytes 4 MiB cannot hold batch_size 1 × 4,096 B × 1 slot (4 KiB) "
                        "+ cache_bytes 3 MiB + one decoded chunk 2 MiB + one stored chunk with filter "
                        "buffers"));
  const std::size_t at_least = message.rfind("at least ");
  ASSERT_NE(at_least, std::string::npos);
  options.memory_budget_bytes = std::stoull(message.substr(at_least + 9)) << 20;
  const CapturedLog captured;
  EXPECT_EQ(refusal<OptionError>(dataset, options), "accepted");
  // Left to the loader, cache and chunks being decoded share what the budget leaves.
  options.cache_bytes.reset();
  options.num_workers = 1;
  const DataLoader loader(dataset, options);
  EXPECT_LE(loader.options().cache_bytes + (2u << 20), *options.memory_budget_bytes);
}

TEST(MemoryBudget, decodes_fewer_chunks_at_once_when_it_is_small) {
  const SampleSet set({.shape = {2000, 64, 64}, .chunk_shape = {250, 64, 64}, .gzip = 1});
  const Dataset dataset = Dataset::open({.files = {set.path()}, .data = "images"});
  DataLoaderOptions options{.batch_size = 8, .shuffle = "full", .num_workers = 8};
  options.memory_budget_bytes = 5u << 20;
  const CapturedLog captured;  // a cache this small is worth a warning, which is not the subject here
  DataLoader small(dataset, options);
  EXPECT_GE(small.options().concurrent_decodes, 1);
  EXPECT_LT(small.options().concurrent_decodes, 8);
  std::size_t samples = 0;
  for (const Batch& batch : small) samples += batch.indices.size();
  EXPECT_EQ(samples, 2000u);
  options.memory_budget_bytes = 1u << 30;
  EXPECT_EQ(DataLoader(dataset, options).options().concurrent_decodes, 8);
}

TEST(ShuffleAdvice, warns_once_with_figures_before_a_run_that_will_hurt) {
  // 200 chunks of 20 rows, cache for a quarter of them.
  const SampleSet set({.shape = {4000, 8, 8}, .chunk_shape = {20, 8, 8}, .gzip = 1});
  const Dataset dataset = Dataset::open({.files = {set.path()}, .data = "images"});
  const CapturedLog captured;
  const DataLoader loader(dataset, {.batch_size = 16, .shuffle = "full", .cache_bytes = 50 * 1280});
  EXPECT_THAT(captured.lines(),
              ElementsAre("shuffle=full decodes each chunk about 15 times with cache 62 KiB "
                          "(cache_policy=clairvoyant: 4.0); shuffle=\"chunk:16\" once (mixing 0.94); "
                          "cache_bytes=1 MiB once"));
}

TEST(ShuffleAdvice, warns_of_a_chunk_that_the_cache_cannot_hold_in_sequential_order_too) {
  const SampleSet set({.shape = {4000, 8, 8}, .chunk_shape = {2000, 8, 8}, .gzip = 1});
  const Dataset dataset = Dataset::open({.files = {set.path()}, .data = "images"});
  DataLoaderOptions options{.batch_size = 16, .cache_bytes = 64'000};
  {
    const CapturedLog captured;
    const DataLoader loader(dataset, options);
    ASSERT_EQ(captured.lines().size(), 1u);
    EXPECT_THAT(captured.lines().front(), HasSubstr("decodes each chunk about 125 times with cache 62 KiB"));
    EXPECT_THAT(captured.lines().front(), Not(HasSubstr("chunk:")));
  }
  options.cache_bytes = 128'000;
  const CapturedLog captured;
  const DataLoader loader(dataset, options);
  EXPECT_TRUE(captured.lines().empty()) << captured.lines().front();
}

TEST(ShuffleAdvice, names_the_policy_in_use) {
  const SampleSet set({.shape = {4000, 32, 32}, .chunk_shape = {20, 32, 32}, .gzip = 1});
  const Dataset dataset = Dataset::open({.files = {set.path()}, .data = "images"});
  DataLoaderOptions options{.batch_size = 64, .shuffle = "full", .cache_bytes = 1000 * 1024};
  options.cache_policy = CachePolicy::clairvoyant;
  {
    const CapturedLog captured;
    const DataLoader loader(dataset, options);
    EXPECT_THAT(captured.lines(),
                ElementsAre("shuffle=full decodes each chunk about 2.6 times with cache 1000 KiB and "
                            "cache_policy=clairvoyant; shuffle=\"chunk:16\" once (mixing 0.94); "
                            "cache_bytes=4 MiB once"));
  }
  options.cache_policy = CachePolicy::keep_first;
  const CapturedLog captured;
  const DataLoader loader(dataset, options);
  EXPECT_THAT(
      captured.lines(),
      ElementsAre("shuffle=full decodes each chunk about 13 times with cache 1000 KiB and "
                  "cache_policy=keep_first (cache_policy=clairvoyant: 2.6); shuffle=\"chunk:16\" once "
                  "(mixing 0.94); cache_bytes=4 MiB once"));
}

TEST(ShuffleAdvice, predicts_what_then_happens) {
  const SampleSet set({.shape = {4000, 8, 8}, .chunk_shape = {20, 8, 8}, .gzip = 1});
  const Dataset dataset = Dataset::open({.files = {set.path()}, .data = "images"});
  const CapturedLog captured;
  DataLoader loader(dataset, {.batch_size = 16, .shuffle = "full", .cache_bytes = 50 * 1280});
  while (loader.next()) {
  }
  const std::uint64_t before = loader.stats().cache_misses;
  while (loader.next()) {
  }
  const double decodes = static_cast<double>(loader.stats().cache_misses - before) / 200;
  // A little below the model: chunks that have given all their rows make room first.
  EXPECT_NEAR(decodes, 15.2, 0.4);
}

TEST(ShuffleAdvice, is_silent_where_each_chunk_is_decoded_once) {
  const SampleSet set({.shape = {4000, 8, 8}, .chunk_shape = {20, 8, 8}, .gzip = 1});
  // Each loader with a cache of its own.
  const auto opened = [&set] { return Dataset::open({.files = {set.path()}, .data = "images"}); };
  const CapturedLog captured;
  const DataLoader fits(opened(), {.batch_size = 16, .shuffle = "full"});
  const DataLoader window(opened(), {.batch_size = 16, .shuffle = "chunk:16", .cache_bytes = 50 * 1280});
  const DataLoader sequential(opened(), {.batch_size = 16, .cache_bytes = 1280});
  EXPECT_THAT(captured.lines(), testing::IsEmpty());
}

TEST(AutomaticDevice, without_a_backend_is_the_cpu_and_one_warning_says_so) {
  const SampleSet set({.shape = {10, 8, 8}});
  const Dataset dataset = Dataset::open({.files = {set.path()}, .data = "images"});
  const CapturedLog captured;
  const DataLoader training(dataset, {.device = "auto"});
  const DataLoader validation(dataset, {.device = "auto"});
  EXPECT_THAT(captured.lines(),
              testing::ElementsAre(testing::AllOf(HasSubstr("device \"auto\": batches go to the CPU; "),
                                                  HasSubstr(", or set device \"cpu\""))));
  EXPECT_THAT(training.report(), HasSubstr(", device cpu\n"));
}

}  // namespace
}  // namespace h5feed::test
