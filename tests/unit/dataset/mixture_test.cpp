// SPDX-License-Identifier: Apache-2.0
// Mixtures of datasets, through the loader.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "h5feed/mixture.hpp"
#include "h5feed/sample_reader.hpp"
#include "support/captured_log.hpp"
#include "support/files/field_file.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/deliveries.hpp"
#include "support/loaders/loader_cases.hpp"
#include "support/loaders/planted_faults.hpp"

namespace h5feed::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Two files of images: 100 samples in 10 chunks, and 45 samples in 7 chunks of another height. Their labels
// tell them apart.
class Mixtures : public testing::Test {
 protected:
  static SampleSetSpec small_set() {
    return {.shape = {45, 8, 6}, .chunk_shape = {7, 8, 6}, .gzip = 4, .first_label = 100, .label_count = 45};
  }

  Dataset mixed(const MixOptions& options = {.epoch_size = "longest"}) const {
    return mix({{open(large_), 0.4}, {open(small_), 0.6}}, options);
  }

  // Fails the test unless the batch has the stored bytes and labels of its samples, and names their sets.
  void expect_mixed(const Batch& batch) const {
    ASSERT_EQ(batch.sets.size(), batch.indices.size());
    for (std::size_t i = 0; i < batch.indices.size(); ++i) {
      const bool second = batch.indices[i] >= 100;
      const SampleSet& set = second ? small_ : large_;
      const std::int64_t sample = batch.indices[i] - (second ? 100 : 0);
      EXPECT_EQ(batch.sets[i], second ? 1 : 0);
      EXPECT_EQ(batch.target.as<std::int64_t>()[i], set.label(sample));
      const std::size_t bytes = set.sample_bytes();
      ASSERT_EQ(std::memcmp(batch.data.bytes.get() + i * bytes, set.sample(sample), bytes), 0) << sample;
      if (batch.origins.empty()) continue;
      EXPECT_EQ(batch.origins[i].file, set.path().string());
      EXPECT_EQ(batch.origins[i].row, sample);
      EXPECT_EQ(batch.origins[i].set, batch.sets[i]);
    }
  }

  std::vector<std::int64_t> delivered(DataLoader& loader) const {
    std::vector<std::int64_t> samples;
    while (const auto batch = loader.next()) {
      expect_mixed(*batch);
      samples.insert(samples.end(), batch->indices.begin(), batch->indices.end());
    }
    return samples;
  }

  const SampleSet large_ = SampleSet(gzip_set());
  const SampleSet small_ = SampleSet(small_set());
};

TEST_F(Mixtures, do_not_warn_of_decodes_if_all_sets_fit_the_cache) {
  const CapturedLog log;
  const DataLoader loader(mixed({.epoch_size = 3000}), {.batch_size = 10, .shuffle = "chunk:2", .seed = 1});
  EXPECT_THAT(log.warnings(), testing::IsEmpty());
}

TEST_F(Mixtures, deliver_the_stored_samples_of_each_set_for_any_workers_and_cache) {
  const Dataset data = mixed();
  EXPECT_EQ(data.size(), 145);
  for (const char* shuffle : {"sequential", "full", "chunk:3"}) {
    std::vector<std::int64_t> expected;
    for (const std::int64_t workers : {0, 1, 2, 4}) {
      for (const std::uint64_t cache : {0u, 3000u, 1'000'000u}) {
        for (const CachePolicy policy : {CachePolicy::lru, CachePolicy::keep_first}) {
          DataLoader loader(data, {.batch_size = 16,
                                   .shuffle = shuffle,
                                   .seed = 3,
                                   .num_workers = workers,
                                   .cache_bytes = cache,
                                   .cache_policy = policy,
                                   .provenance = workers == 2});
          EXPECT_EQ(loader.size(), 16u);
          const std::vector<std::int64_t> first = delivered(loader);
          EXPECT_EQ(first.size(), 251u);  // 100 samples are 1638/4096 of them
          if (expected.empty()) expected = first;
          EXPECT_EQ(first, expected) << shuffle << " " << workers << " " << cache;
          EXPECT_NE(delivered(loader), first) << "another epoch";
        }
      }
    }
    EXPECT_EQ(std::ranges::count_if(expected, [](std::int64_t sample) { return sample < 100; }), 100);
    EXPECT_EQ(std::set<std::int64_t>(expected.begin(), expected.end()).size(), 145u) << "all of both sets";
  }
}

TEST_F(Mixtures, repeat_batches_and_read_rows_directly_as_other_datasets_do) {
  const SampleSet plain({.shape = {30, 8, 6}});
  const Dataset data = mix({{open(plain), 1}, {open(plain), 1}}, {.epoch_size = 50});
  DataLoader loader(data, {.batch_size = 8,
                           .echo = {.factor = 2},
                           .shuffle = true,
                           .num_workers = 2,
                           .row_reads = RowReads::always});
  std::int64_t repeats = 0;
  while (const auto batch = loader.next()) {
    ASSERT_EQ(batch->sets.size(), batch->indices.size());
    repeats += batch->repeat;
    for (std::size_t i = 0; i < batch->indices.size(); ++i) {
      EXPECT_EQ(batch->sets[i], batch->indices[i] / 30);
      EXPECT_EQ(batch->target.as<std::int64_t>()[i], plain.label(batch->indices[i] % 30));
    }
  }
  EXPECT_EQ(repeats, 7);
  EXPECT_GE(loader.stats().rows_direct, 50u);
}

TEST_F(Mixtures, resume_at_any_batch_with_other_workers_batches_and_ranks) {
  const Dataset data = mixed({.epoch_size = 300});
  const DataLoaderOptions options{.batch_size = 10, .shuffle = "chunk:2", .seed = 9};
  DataLoader whole(data, options);
  delivered(whole);
  const std::vector<std::int64_t> second_epoch = delivered(whole);

  for (const std::int64_t batches : {1, 13, 29}) {
    DataLoader first(data, options);
    first.set_epoch(1);
    for (std::int64_t i = 0; i < batches; ++i) first.next();
    const std::string saved = first.state().to_bytes();
    const std::vector<std::int64_t> expected(second_epoch.begin() + batches * 10, second_epoch.end());
    DataLoaderOptions other = options;
    other.num_workers = 2;
    DataLoader resumed(data, other);
    resumed.restore(LoaderState::from_bytes(saved));
    EXPECT_EQ(delivered(resumed), expected);

    other.batch_size = 7;
    other.world_size = 2;
    std::vector<std::int64_t> together(expected.size());
    for (other.rank = 0; other.rank < 2; ++other.rank) {
      DataLoader part(data, other);
      part.restore(LoaderState::from_bytes(saved));
      const std::vector<std::int64_t> own = delivered(part);
      for (std::size_t i = 0; i < own.size(); ++i)
        together.at(i * 2 + static_cast<std::size_t>(other.rank)) = own[i];
    }
    EXPECT_EQ(together, expected);
  }
}

TEST_F(Mixtures, refuse_the_state_of_another_mixture) {
  const DataLoaderOptions options{.shuffle = true, .seed = 1};
  DataLoader loader(mixed(), options);
  loader.next();
  const LoaderState saved = loader.state();
  DataLoader same(mixed(), options);
  same.restore(saved);
  const Dataset large = open(large_);
  const Dataset small = open(small_);
  const std::vector<std::int64_t> half = {0, 1, 2, 3, 4};
  for (const Dataset& other :
       {mix({{large, 0.41}, {small, 0.59}}, {.epoch_size = "longest"}), mixed({.epoch_size = "shortest"}),
        mix({{large, 0.4}, {small, 0.6, "chunk:2"}}, {.epoch_size = "longest"}),
        mix({{large, 0.4}, {small.subset(half), 0.6}}, {.epoch_size = "longest"}),
        mix({{large, 0.4}, {large, 0.6}}, {.epoch_size = "longest"}), large}) {
    DataLoader refusing(other, options);
    EXPECT_THROW(refusing.restore(saved), StateError);
  }
}

TEST_F(Mixtures, take_subsets_and_parts_of_one_file) {
  const Dataset large = open(large_);
  const std::vector<Dataset> parts = large.split({0.2, 0.8}, 1);
  const Dataset data = mix({{parts[0], 1}, {parts[1], 1}}, {.epoch_size = 400});
  EXPECT_EQ(data.size(), 100);
  DataLoader loader(data, {.batch_size = 16, .shuffle = "chunk:4", .num_workers = 2});
  DataLoader first(parts[0], {.batch_size = 100});
  const std::vector<std::int64_t> of_first = first.next().value().indices;
  std::int64_t from_first = 0;
  while (const auto batch = loader.next()) {
    for (std::size_t i = 0; i < batch->indices.size(); ++i) {
      const std::int64_t sample = batch->indices[i] % 100;
      const bool in_first = std::ranges::find(of_first, sample) != of_first.end();
      EXPECT_EQ(batch->sets[i], in_first ? 0 : 1);
      EXPECT_EQ(batch->target.as<std::int64_t>()[i], large_.label(sample));
      from_first += in_first ? 1 : 0;
    }
  }
  EXPECT_EQ(from_first, 200);
  // The samples of the mixture are those of the parts, one part after the other.
  const SampleReader reader(data);
  const std::vector<std::int64_t> numbers = {0, 19, 20, 99};
  const Batch read = reader.read(numbers);
  EXPECT_EQ(read.indices[0], of_first[0]);
  EXPECT_THAT(read.sets, ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(data.origin(read.indices[3]).set, 1);
}

TEST_F(Mixtures, join_the_fields_of_their_sets) {
  TempDir dir;
  const auto write = [&](const char* name, std::int64_t samples, std::int64_t first) {
    const Hid file(H5Fcreate((dir / name).c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT));
    const auto count = static_cast<std::size_t>(samples);
    put(file.get(), "images", H5T_STD_U8LE, H5T_NATIVE_UINT8, {count, 4, 5},
        counted<std::uint8_t>(count * 20, 0).data(), {5, 4, 5});
    put(file.get(), "pose", H5T_IEEE_F32BE, H5T_NATIVE_FLOAT, {count, 3},
        counted<float>(count * 3, static_cast<float>(first)).data(), {4, 2});
    std::vector<std::vector<float>> boxes;
    for (std::int64_t sample = 0; sample < samples; ++sample)
      boxes.push_back(counted<float>(length_of(sample), static_cast<float>(first + sample * 100)));
    put_vlen(file.get(), "boxes", H5T_IEEE_F32BE, H5T_NATIVE_FLOAT, boxes);
  };
  const auto opened = [&](const char* name) {
    return Dataset::open({.files = {dir / name},
                          .data = "images",
                          .fields = {{.name = "pose"}, {.name = "boxes", .collate = Collate::ragged}}});
  };
  write("a.h5", 11, 1000);
  write("b.h5", 6, -9000);
  const Dataset data = mix({{opened("a.h5"), 1}, {opened("b.h5"), 2}}, {.epoch_size = 60});
  DataLoader loader(data, {.batch_size = 13, .shuffle = true, .num_workers = 2});
  while (const auto batch = loader.next()) {
    const auto pose = batch->field("pose").values.as<float>();
    const BatchField& boxes = batch->field("boxes");
    for (std::size_t i = 0; i < batch->indices.size(); ++i) {
      const std::int64_t sample = batch->indices[i] - (batch->sets[i] == 1 ? 11 : 0);
      const float first = batch->sets[i] == 1 ? -9000 : 1000;
      EXPECT_EQ(pose[i * 3], first + static_cast<float>(sample * 3));
      const auto begin = static_cast<std::size_t>(boxes.offsets.as<std::int64_t>()[i]);
      ASSERT_EQ(static_cast<std::size_t>(boxes.offsets.as<std::int64_t>()[i + 1]) - begin, length_of(sample));
      if (length_of(sample) > 0) {
        EXPECT_EQ(boxes.values.as<float>()[begin], first + static_cast<float>(sample * 100));
      }
    }
  }
}

TEST_F(Mixtures, replace_bad_samples_by_others_of_the_same_set) {
  damage_chunks(large_, {2, 5});
  const Dataset data = mixed({.epoch_size = 1000});
  for (const OnError on_error : {OnError::replace, OnError::skip}) {
    DataLoader loader(
        data,
        {.batch_size = 50, .shuffle = "chunk:3", .num_workers = 2, .on_error = on_error, .max_bad_share = 1});
    std::int64_t from_large = 0;
    std::int64_t from_small = 0;
    while (const auto batch = loader.next()) {
      expect_mixed(*batch);
      for (const std::int64_t set : batch->sets) ++(set == 0 ? from_large : from_small);
    }
    EXPECT_EQ(from_small, 600);
    EXPECT_EQ(from_large, on_error == OnError::replace ? 400 : 320) << "a fifth of the chunks is damaged";
  }
}

TEST_F(Mixtures, see_the_samples_appended_after_refresh) {
  Dataset data = mixed();
  data.refresh();
  EXPECT_EQ(data.size(), 145);
  DataLoader loader(data, {.batch_size = 50, .shuffle = true});
  EXPECT_EQ(delivered(loader).size(), 251u);
}

TEST_F(Mixtures, decode_each_chunk_about_once_with_the_cache_that_the_plan_names) {
  const SampleSet one({.shape = {2000, 8, 6}, .chunk_shape = {20, 8, 6}, .gzip = 1});
  const SampleSet two({.shape = {1000, 8, 6}, .chunk_shape = {20, 8, 6}, .gzip = 1});
  const Dataset data = mix({{open(one), 0.4}, {open(two), 0.6}}, {.epoch_size = "longest"});
  DataLoaderOptions options{.batch_size = 32, .shuffle = "chunk:5", .num_workers = 0};
  const PlanReport plan = h5feed::plan(data, options);
  EXPECT_EQ(plan.cache_bytes_decode_once, 3u * 5 * 20 * 48) << "a window of each set, and the next of one";
  ASSERT_EQ(plan.sets.size(), 2u);
  EXPECT_EQ(plan.sets[0].samples, 2000);
  EXPECT_NEAR(plan.sets[1].passes(), 3.0, 0.01);
  EXPECT_NEAR(plan.sets[0].share, 0.4, 1e-3);
  EXPECT_GT(plan.mixing, 0.5);

  options.cache_bytes = plan.cache_bytes_decode_once;
  const double expected = h5feed::plan(data, options).decodes_per_chunk.value();
  EXPECT_NEAR(expected, (100 * 1.0 + 50 * 3.0) / 150, 0.02) << "once in each pass";
  DataLoader loader(data, options);
  while (loader.next()) continue;
  EXPECT_LE(static_cast<double>(loader.stats().chunk_loads), 1.2 * expected * 150);
}

TEST_F(Mixtures, say_their_shares_and_passes) {
  const Dataset data = mixed();
  EXPECT_THAT(
      plan(data, {.batch_size = 10, .shuffle = "chunk:2", .cache_bytes = 2880}).to_string(),
      AllOf(HasSubstr("an epoch: 251 samples in 26 batches from 17 chunks; mixing 0."),
            HasSubstr("\nset 0: 40.0 % of the samples, 100 of 100 (1.00 passes) from 10 chunks, each decoded "
                      "about 1.0 times\n"
                      "set 1: 60.0 % of the samples, 151 of 45 (3.36 passes) from 7 chunks, each decoded "
                      "about 3.4 times\n")));
  DataLoader loader(data, {.batch_size = 10, .shuffle = "chunk:2"});
  while (loader.next()) continue;
  EXPECT_THAT(loader.report(),
              HasSubstr("\nmixture, per epoch: set 0 40.0 %, 1.00 passes; set 1 60.0 %, 3.36 passes\n"));
}

TEST_F(Mixtures, refuse_sets_that_differ) {
  const SampleSet floats({.shape = {10, 8, 6}, .dtype = DType::f32});
  const SampleSet smaller({.shape = {10, 8, 5}});
  const Dataset large = open(large_);
  const auto refusal = [&](const Dataset& other) {
    return refusal_of<DatasetError>([&] { mix({{large, 1}, {other, 1}}); });
  };
  const Dataset other_type = Dataset::open(
      {.files = {floats.path()}, .data = "images", .target = "labels", .input_layout = InputLayout::nhw});
  EXPECT_EQ(
      refusal(other_type),
      "mix(): set 0, " + large_.path().string() +
          ":/images, has samples: 8×6 u8, delivered as 1×8×6; set 1, " + floats.path().string() +
          ":/images, has samples: 8×6 f32, delivered as 1×8×6; the sets of a mixture need the same; open "
          "them alike, or convert one");
  EXPECT_THAT(refusal(open(smaller)), HasSubstr("has samples: 8×5 u8, delivered as 1×8×5"));
  EXPECT_THAT(refusal(Dataset::open({.files = {large_.path()}, .data = "images"})),
              HasSubstr("has targets: none"));
  EXPECT_THAT(refusal(Dataset::open(
                  {.files = {large_.path()}, .data = "images", .target = "labels", .unit_range = true})),
              AllOf(HasSubstr("has unit_range: false"), HasSubstr("has unit_range: true")));
  EXPECT_THAT(
      refusal(Dataset::open(
          {.files = {large_.path()}, .data = "images", .target = "labels", .fields = {{.name = "labels"}}})),
      HasSubstr("has fields: labels"));
}

TEST_F(Mixtures, refuse_options_that_have_no_meaning_for_them) {
  const Dataset data = mixed();
  const auto refusal_by_mix = [](const auto& make) { return refusal_of<OptionError>(make); };
  EXPECT_THAT(refusal_by_mix([&] {
                mix({{open(large_), 1}, {open(small_), 0}});
              }),
              HasSubstr("the weight of set 1 is 0"));
  EXPECT_EQ(refusal_by_mix([] { mix(std::vector<MixedSet>()); }),
            "mix() needs at least one set; the list is empty");
  EXPECT_THAT(refusal_by_mix([&] {
                mix({{data, 1}});
              }),
              HasSubstr("set 0 is a mixture; list its sets instead"));
  EXPECT_EQ(
      refusal_by_mix([&] {
        mix({{open(large_), 1}, {open(small_), 1, "chunk:8"}});
      }),
      "mix(): the shuffle of set 1 is \"chunk:8\", and the set has 7 chunks; use \"chunk:7\" or less, or "
      "\"full\"");
  const Dataset tiles =
      Dataset::open({.files = {large_.path()}, .data = "images", .tiles = TileOptions{.size = {4, 4}}});
  EXPECT_THAT(refusal_by_mix([&] { mix({{tiles, 1}}); }), HasSubstr("set 0 is cut into tiles"));
  for (const char* text : {"", "all", "-3"})
    EXPECT_THAT(refusal_by_mix([&] { EpochSize{text}; }),
                HasSubstr("\"shortest\", \"longest\", or a number"));
  EXPECT_THAT(refusal_by_mix([] { EpochSize{0}; }), HasSubstr("must be at least 1"));
  EXPECT_THAT(refusal_by_mix([] { EpochSize{~std::uint64_t{0}}; }), HasSubstr("below 2^63"));
  EXPECT_EQ(refusal_by_mix([&] { data.subset(std::vector<std::int64_t>{1}); }),
            "subset() of a mixture is not supported; call it for each set, before mix()");
  EXPECT_THAT(refusal_by_mix([&] { data.split({0.5, 0.5}, 1); }), HasSubstr("split() of a mixture"));

  const auto by_loader = [&](DataLoaderOptions options) { return refusal<OptionError>(data, options); };
  EXPECT_THAT(by_loader({.sampler = std::make_shared<SubsetRandomSampler>(std::vector<std::int64_t>{1})}),
              HasSubstr("a mixture has an order of its own; leave sampler unset"));
  EXPECT_THAT(by_loader({.batch_sampler = make_batch_sampler(
                             [](std::uint64_t) { return std::vector<std::vector<std::int64_t>>(); }, 2)}),
              HasSubstr("leave batch_sampler unset"));
  EXPECT_THAT(by_loader({.seed = 1, .world_size = 2, .shard = Shard::by_chunk}),
              HasSubstr("use strided or contiguous"));
  EXPECT_THAT(by_loader({.shuffle = "chunk:11"}),
              HasSubstr("the largest set of the mixture has 10 chunks; use \"chunk:10\""));
  EXPECT_EQ(by_loader({.shuffle = "chunk:10"}), "accepted") << "the small set is then fully shuffled";
  EXPECT_THAT(by_loader({.shuffle = true, .cache_bytes = 2000, .cache_policy = CachePolicy::clairvoyant}),
              HasSubstr("expects each sample once per epoch"));
}

}  // namespace
}  // namespace h5feed::test
