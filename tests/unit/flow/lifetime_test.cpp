// SPDX-License-Identifier: Apache-2.0
// What a temporary batch lends: nothing that would outlive it. Wrong uses do not compile, right ones are
// safe.
#include <gtest/gtest.h>

#include <concepts>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

template <typename L>
concept LooksIntoTheResultOfNext = requires(L& loader) {
  loader.next()->indices;
};
template <typename L>
concept LooksIntoATemporaryIterator = requires(L& loader) {
  loader.begin()->indices;
};
template <typename B>
concept ViewsElements = requires(B&& batch) {
  std::forward<B>(batch).data.template as<std::uint8_t>();
};

template <typename L>
concept Begins = requires(L&& loader) {
  std::forward<L>(loader).begin();
};
template <typename L>
concept Ends = requires(L&& loader) {
  std::forward<L>(loader).end();
};

static_assert(!LooksIntoTheResultOfNext<DataLoader>);
static_assert(Begins<DataLoader&> && Ends<DataLoader&>);
static_assert(!Begins<DataLoader> && !Ends<DataLoader>);
static_assert(!LooksIntoATemporaryIterator<DataLoader>);
static_assert(ViewsElements<Batch&> && ViewsElements<const Batch&>);
static_assert(!ViewsElements<Batch> && !ViewsElements<const Batch>);

static_assert(std::same_as<decltype(std::declval<DataLoader&>().next().value()), Batch>);
static_assert(std::same_as<decltype(*std::declval<DataLoader&>().next()), Batch>);
static_assert(std::same_as<decltype(*std::declval<DataLoader&>().begin()), Batch>);
static_assert(std::same_as<decltype(*std::declval<DataLoader::Iterator&>()), Batch&>);
static_assert(std::same_as<decltype(std::declval<Batch>().field("")), BatchField>);
static_assert(std::same_as<decltype(std::declval<Batch&>().field("")), const BatchField&>);
static_assert(std::same_as<decltype(std::declval<Dataset>().sample_shape()), std::vector<std::int64_t>>);

TEST(Lifetime, of_a_batch_that_has_no_name_lasts_for_a_loop_over_it) {
  const SampleSet set(gzip_set());
  DataLoader loader(open(set), {.batch_size = 4});
  std::vector<std::int64_t> seen;
  for (const std::int64_t sample : loader.next().value().indices) seen.push_back(sample);
  for (const std::int64_t sample : (*loader.next()).indices) seen.push_back(sample);
  EXPECT_EQ(seen, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  seen.clear();
  for (const std::int64_t sample : (*loader.begin()).indices) seen.push_back(sample);
  EXPECT_EQ(seen, (std::vector<std::int64_t>{0, 1, 2, 3}));
  for (const std::int64_t extent : open(set).sample_shape()) seen.push_back(extent);
  EXPECT_EQ(seen, (std::vector<std::int64_t>{0, 1, 2, 3, 1, 8, 6}));
}

TEST(Lifetime, of_a_loader_that_has_no_name_lasts_for_a_loop_over_it) {
  const SampleSet set(gzip_set());
  std::int64_t samples = 0;
  for (Batch& batch : DataLoader(open(set), {.batch_size = 40})) samples += batch.size();
  EXPECT_EQ(samples, 100);
}

TEST(Lifetime, the_result_of_next_is_an_optional) {
  const SampleSet set(gzip_set());
  DataLoader loader(open(set), {.batch_size = 100});
  std::optional<Batch> batch = loader.next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->size(), 100);
  EXPECT_EQ(loader.next(), std::nullopt);
  auto again = loader.next();
  EXPECT_EQ(again->data.bytes.use_count(), 1);
  const Batch taken = *std::move(again);
  EXPECT_EQ(taken.data.bytes.use_count(), 1) << "moved out";
  EXPECT_THROW(static_cast<void>(loader.next().value()), std::bad_optional_access);
}

}  // namespace
}  // namespace h5feed::test
