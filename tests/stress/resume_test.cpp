// SPDX-License-Identifier: Apache-2.0
// Stopping and going on at any point, with any number of workers and ranks: the same samples in the same
// global order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kEpochs = 2;
constexpr std::int64_t kGlobalBatch = 24;  // divisible by every world size below

// 103 samples in 11 chunks, the last one short.
const SampleSet& sample_set() {
  static const SampleSet set({.shape = {103, 4, 4}, .chunk_shape = {10, 4, 4}, .gzip = 1});
  return set;
}

const Dataset& dataset() {
  static const Dataset opened = open(sample_set());
  return opened;
}

struct Setting {
  std::int64_t workers = 0;
  std::int64_t world_size = 1;
};

// One training job on `world_size` ranks that all stop after the same batch.
class Job {
 public:
  explicit Job(Setting setting, const char* shuffle = "chunk:3") {
    for (std::int64_t rank = 0; rank < setting.world_size; ++rank) {
      ranks_.push_back(std::make_unique<DataLoader>(
          dataset(), DataLoaderOptions{.batch_size = kGlobalBatch / setting.world_size,
                                       .shuffle = shuffle,
                                       .seed = 9,
                                       .num_workers = setting.workers,
                                       .rank = rank,
                                       .world_size = setting.world_size,
                                       .cache_bytes = 4 * 160}));
    }
  }

  // Appends the samples of one global batch, in global order; false at the end of an epoch.
  bool step(std::vector<std::int64_t>& stream) {
    std::vector<std::vector<std::int64_t>> shares;
    for (const auto& rank : ranks_) {
      std::optional<Batch> batch = rank->next();
      if (!batch) continue;
      shares.push_back(batch->indices);
    }
    if (shares.empty()) return false;
    EXPECT_EQ(shares.size(), ranks_.size()) << "ranks have equally many batches";
    for (std::size_t i = 0; i < shares.front().size(); ++i) {
      for (const auto& share : shares) {
        if (i < share.size()) stream.push_back(share[i]);
      }
    }
    return true;
  }

  std::string save() const {
    std::string bytes = ranks_.front()->state().to_bytes();
    for (const auto& rank : ranks_) EXPECT_EQ(rank->state().to_bytes(), bytes) << "the same on every rank";
    return bytes;
  }

  void restore(const std::string& bytes) {
    for (const auto& rank : ranks_) rank->restore(LoaderState::from_bytes(bytes));
  }

 private:
  std::vector<std::unique_ptr<DataLoader>> ranks_;
};

// All samples of the epochs [from the job's state, kEpochs), without marks between epochs.
std::vector<std::int64_t> rest_of(Job& job) {
  std::vector<std::int64_t> stream;
  while (LoaderState::from_bytes(job.save()).epoch < kEpochs) job.step(stream);
  return stream;
}

std::pair<std::uint64_t, std::uint64_t> position(const Job& job) {
  const LoaderState state = LoaderState::from_bytes(job.save());
  return {state.epoch, state.position};
}

const std::vector<std::int64_t>& whole_stream() {
  static const std::vector<std::int64_t> stream = [] {
    Job job({});
    return rest_of(job);
  }();
  return stream;
}

class Resume : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  static Setting setting() { return {std::get<0>(GetParam()), std::get<1>(GetParam())}; }
};

TEST_P(Resume, delivers_one_global_stream) {
  ASSERT_EQ(whole_stream().size(), 103u * kEpochs);
  Job job(setting());
  EXPECT_EQ(rest_of(job), whole_stream());
}

TEST_P(Resume, goes_on_from_every_point_and_once_more) {
  for (std::size_t stop = 0; stop < 2 * 5; ++stop) {  // 5 global batches an epoch
    Job before({.workers = 1, .world_size = 2});
    std::vector<std::int64_t> stream;
    for (std::size_t taken = 0; taken < stop;) taken += before.step(stream) ? 1u : 0u;
    Job between(setting());
    between.restore(before.save());
    EXPECT_EQ(position(between), position(before)) << "nothing moved yet";
    if (LoaderState::from_bytes(between.save()).epoch < kEpochs) between.step(stream);
    Job after({.workers = 2, .world_size = 3});
    after.restore(between.save());
    const std::vector<std::int64_t> rest = rest_of(after);
    stream.insert(stream.end(), rest.begin(), rest.end());
    EXPECT_EQ(stream, whole_stream()) << "stopped after " << stop << " batches";
  }
}

INSTANTIATE_TEST_SUITE_P(WorkersAndRanks, Resume,
                         testing::Combine(testing::Values(0, 1, 2, 8, static_cast<int>(kAuto)),
                                          testing::Values(1, 2, 3, 8)));

DataLoaderOptions options_with(std::int64_t batch_size) {
  return {.batch_size = batch_size, .shuffle = "full", .seed = 9, .num_workers = 2};
}

std::vector<std::int64_t> take(DataLoader& loader, int batches) {
  std::vector<std::int64_t> samples;
  for (int i = 0; i < batches; ++i) {
    const std::optional<Batch> batch = loader.next();
    if (!batch) break;
    samples.insert(samples.end(), batch->indices.begin(), batch->indices.end());
  }
  return samples;
}

TEST(ResumedLoader, takes_another_batch_size) {
  DataLoader whole(dataset(), options_with(103));
  const std::vector<std::int64_t> all = take(whole, 1);
  DataLoader first(dataset(), options_with(7));
  std::vector<std::int64_t> samples = take(first, 4);
  DataLoader second(dataset(), options_with(30));
  second.restore(first.state());
  EXPECT_EQ(second.next().value().number, 1u) << "batches of 30, the first of them begins in the second";
  second.restore(first.state());
  const std::vector<std::int64_t> rest = take(second, 100);
  samples.insert(samples.end(), rest.begin(), rest.end());
  EXPECT_EQ(samples, all);
}

TEST(ResumedLoader, goes_on_in_a_range_for_loop) {
  DataLoader first(dataset(), options_with(20));
  LoaderState saved;
  std::vector<std::int64_t> samples;
  for (Batch& batch : first) {
    samples.insert(samples.end(), batch.indices.begin(), batch.indices.end());
    if (batch.number == 2) {
      saved = first.state();  // the batch in hand counts as done
      break;
    }
  }
  DataLoader second(dataset(), options_with(20));
  second.restore(saved);
  for (Batch& batch : second) {
    EXPECT_EQ(batch.epoch, 0u);
    samples.insert(samples.end(), batch.indices.begin(), batch.indices.end());
  }
  DataLoader whole(dataset(), options_with(103));
  EXPECT_EQ(samples, take(whole, 1));
  EXPECT_EQ((*second.begin()).epoch, 1u) << "and then the next epoch";
}

TEST(ResumedLoader, at_the_end_of_an_epoch_begins_the_next_epoch) {
  DataLoader first(dataset(), options_with(103));
  take(first, 1);
  const LoaderState saved = first.state();
  EXPECT_EQ(saved.epoch, 1u);
  EXPECT_EQ(saved.position, 0u);
  DataLoader second(dataset(), options_with(103));
  second.restore(saved);
  EXPECT_EQ(second.next().value().epoch, 1u);
}

TEST(ResumedLoader, takes_over_the_seed) {
  DataLoader first(dataset(), options_with(50));
  take(first, 1);
  DataLoaderOptions other = options_with(53);
  other.seed = 1234;
  DataLoader second(dataset(), other);
  take(second, 1);
  second.restore(first.state());
  EXPECT_EQ(second.options().seed, 9u);
  EXPECT_EQ(take(second, 1), take(first, 2)) << "batches of 53 and of 50 + 3 samples";
}

TEST(ResumedLoader, in_the_middle_of_an_epoch_drops_what_was_prepared) {
  DataLoader loader(dataset(), options_with(10));
  const LoaderState begin = loader.state();
  const std::vector<std::int64_t> first = take(loader, 3);
  loader.restore(begin);
  EXPECT_EQ(take(loader, 3), first);
}

TEST(ResumedLoader, warmed_up_delivers_the_same) {
  DataLoader first(dataset(), options_with(10));
  take(first, 3);
  DataLoader second(dataset(), options_with(10));
  second.restore(first.state());
  second.warm_up();
  second.warm_up();
  EXPECT_EQ(take(second, 100), take(first, 100));
}

TEST(ResumedLoader, keeps_a_sampler_s_place) {
  DataLoaderOptions options{.batch_size = 10, .seed = 3};
  const std::vector<double> weights(103, 1.0);
  options.sampler = std::make_shared<WeightedRandomSampler>(weights, 200);
  DataLoader first(dataset(), options);
  take(first, 7);
  options.num_workers = 2;
  DataLoader second(dataset(), options);
  second.restore(first.state());
  EXPECT_EQ(take(second, 100), take(first, 100));
  options.sampler = std::make_shared<WeightedRandomSampler>(weights, 201);
  DataLoader other(dataset(), options);
  EXPECT_THROW(other.restore(first.state()), StateError);
}

template <typename Change>
std::string refusal(const LoaderState& state, const Change& change) {
  DataLoaderOptions options = options_with(10);
  Dataset data = dataset();
  change(options, data);
  DataLoader loader(data, options);
  try {
    loader.restore(state);
  } catch (const StateError& error) {
    EXPECT_EQ(loader.next().value().number, 0u) << "the loader is as before";
    return error.what();
  }
  return "accepted";
}

TEST(ResumedLoader, refuses_another_dataset_order_or_sharding) {
  DataLoader loader(dataset(), options_with(10));
  take(loader, 2);
  const LoaderState state = loader.state();
  const std::string other = "of another dataset, order or sharding";
  EXPECT_EQ(refusal(state, [](DataLoaderOptions&, Dataset&) {}), "accepted");
  EXPECT_THAT(refusal(state, [](DataLoaderOptions& o, Dataset&) { o.shuffle = "chunk:2"; }),
              HasSubstr(other));
  EXPECT_THAT(refusal(state, [](DataLoaderOptions& o, Dataset&) { o.uneven = Uneven::pad; }),
              HasSubstr(other));
  EXPECT_THAT(refusal(state,
                      [](DataLoaderOptions&, Dataset& d) {
                        d = d.split({0.5, 0.5}, 1)[0];
                      }),
              HasSubstr(other));
  EXPECT_THAT(refusal(state,
                      [](DataLoaderOptions&, Dataset& d) {
                        d = Dataset::open({.files = {sample_set().path()}, .data = "images"});
                      }),
              HasSubstr(other))
      << "without the target";
  const SampleSet same_shape({.shape = {103, 4, 4}, .chunk_shape = {10, 4, 4}, .first_label = 1});
  EXPECT_THAT(refusal(state, [&](DataLoaderOptions&, Dataset& d) { d = open(same_shape); }), HasSubstr(other))
      << "other labels";
  const SampleSet rechunked({.shape = {103, 4, 4}, .chunk_shape = {25, 4, 4}});
  EXPECT_EQ(refusal(state, [&](DataLoaderOptions&, Dataset& d) { d = open(rechunked); }), "accepted")
      << "a repacked file";
  LoaderState beyond = state;
  beyond.position = 104;
  EXPECT_THAT(refusal(beyond, [](DataLoaderOptions&, Dataset&) {}),
              HasSubstr("position 104 of an epoch that has 103"));
}

TEST(ResumedLoader, takes_another_world_size_in_other_modes_only_at_the_end_of_an_epoch) {
  for (const Uneven uneven : {Uneven::pad, Uneven::drop}) {
    DataLoaderOptions options = options_with(5);
    options.uneven = uneven;
    options.world_size = 2;
    DataLoader two(dataset(), options);
    const LoaderState edge = two.state();
    take(two, 3);
    options.world_size = 4;
    DataLoader four(dataset(), options);
    EXPECT_THROW(four.restore(two.state()), StateError);
    four.restore(edge);
    options.world_size = 2;
    options.batch_size = 9;
    DataLoader again(dataset(), options);
    again.restore(two.state());
    EXPECT_EQ(take(again, 100), take(two, 100)) << "another batch size is fine";
  }
  DataLoaderOptions options = options_with(1);
  options.uneven = Uneven::pad;
  DataLoader one(dataset(), options);
  take(one, 1);
  EXPECT_THAT(refusal(one.state(),
                      [](DataLoaderOptions& other, Dataset&) {
                        other.uneven = Uneven::pad;
                        other.world_size = 2;
                      }),
              HasSubstr("within an epoch with world_size 1; this loader has world_size 2"));
}

TEST(ResumedLoader, needs_batches_in_order) {
  DataLoaderOptions options = options_with(10);
  options.in_order = false;
  DataLoader loader(dataset(), options);
  EXPECT_THROW((void)loader.state(), OptionError);
  EXPECT_THROW(loader.restore({}), OptionError);
}

}  // namespace
}  // namespace h5feed::test
