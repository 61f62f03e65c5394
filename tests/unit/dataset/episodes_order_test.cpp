// SPDX-License-Identifier: Apache-2.0
// Samples in episodes: anchors that are drawn, orders, decodes, resuming and ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "h5feed/sample_reader.hpp"
#include "support/files/episode_files.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

// A file of 60 episodes of 1 to 12 rows.
class EpisodeOrderTest : public EpisodeTest {
 protected:
  void SetUp() override {
    for (std::uint64_t i = 0; i < 60; ++i) rows_.push_back(1 + i * 7 % 12);
    frames_ = make_episodes(rows_, 12, 1);
    H5TestFile file(dir_ / "a.h5");
    put_joined(file, "frames", frames_, {4, 12});
    std::vector<std::int64_t> lengths(rows_.begin(), rows_.end());
    put_table(file, "lengths", lengths);
    options_ = {.files = {dir_ / "a.h5"}, .data = "frames", .input_layout = InputLayout::none};
    options_.episodes = EpisodeOptions{.index = EpisodeOptions::Index::lengths, .table = "lengths"};
    options_.window = {-2, 0, 1};
    expect = {{"data", {&frames_, options_.window}}};
  }

  std::vector<std::uint64_t> rows_;
  FieldEpisodes frames_;
  DatasetOptions options_;
};

TEST_F(EpisodeOrderTest, draws_one_anchor_of_each_episode_in_every_epoch) {
  options_.episodes->anchors = EpisodeOptions::Anchors::one_random;
  const Dataset dataset = Dataset::open(options_);
  // Episodes of 4 rows and more have an anchor.
  EXPECT_EQ(dataset.size(), 45);
  check_windows(dataset);
  std::vector<std::map<std::int64_t, std::int64_t>> epochs;
  DataLoader loader(dataset,
                    {.batch_size = 9, .shuffle = "full", .seed = 4, .num_workers = 2, .provenance = true});
  std::set<std::int64_t> episodes;
  std::set<std::int64_t> of_the_longest;
  for (std::uint64_t epoch = 0; epoch < 40; ++epoch) {
    auto& frames = epochs.emplace_back();
    const SampleReader reader(dataset, {.seed = 4, .epoch = epoch});
    while (const auto batch = loader.next()) {
      check_batch(*batch);
      const Batch read = reader.read(batch->indices);
      EXPECT_EQ(std::memcmp(read.data.bytes.get(), batch->data.bytes.get(),
                            static_cast<std::size_t>(read.data.elements()) * 2),
                0);
      for (std::size_t i = 0; i < batch->origins.size(); ++i) {
        const SampleOrigin& origin = batch->origins[i];
        frames[batch->indices[i]] = origin.frame;
        episodes.insert(origin.episode);
        EXPECT_EQ(dataset.origin(batch->indices[i]).episode, origin.episode);
        EXPECT_EQ(dataset.origin(batch->indices[i]).frame, -1);
        if (rows_[static_cast<std::size_t>(origin.episode)] == 12) of_the_longest.insert(origin.frame);
      }
    }
    EXPECT_EQ(frames.size(), 45u);
  }
  EXPECT_EQ(episodes.size(), 45u);
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_THAT(of_the_longest, UnorderedElementsAre(2, 3, 4, 5, 6, 7, 8, 9, 10));
}

TEST_F(EpisodeOrderTest, names_episode_and_row_of_each_sample) {
  const Dataset dataset = Dataset::open(options_);
  std::int64_t sample = 0;
  std::int64_t first_row = 0;
  for (std::size_t episode = 0; episode < rows_.size(); ++episode) {
    for (std::int64_t frame = 2; frame + 1 < static_cast<std::int64_t>(rows_[episode]); ++frame, ++sample) {
      const SampleOrigin origin = dataset.origin(sample);
      EXPECT_EQ(origin.episode, static_cast<std::int64_t>(episode));
      EXPECT_EQ(origin.frame, frame);
      EXPECT_EQ(origin.row, first_row + frame);
    }
    first_row += static_cast<std::int64_t>(rows_[episode]);
  }
  EXPECT_EQ(dataset.size(), sample);
}

TEST_F(EpisodeOrderTest, delivers_every_sample_once_when_resumed_and_over_ranks) {
  for (const auto anchors : {EpisodeOptions::Anchors::every, EpisodeOptions::Anchors::one_random}) {
    options_.episodes->anchors = anchors;
    const Dataset dataset = Dataset::open(options_);
    for (const char* const shuffle : {"full", "chunk:2"}) {
      std::map<std::int64_t, int> seen;
      std::vector<LoaderState> states;
      for (std::int64_t rank = 0; rank < 3; ++rank) {
        DataLoader loader(dataset, {.batch_size = 4,
                                    .shuffle = shuffle,
                                    .seed = 6,
                                    .num_workers = rank % 2,
                                    .rank = rank,
                                    .world_size = 3,
                                    .provenance = true});
        for (int i = 0; i < 3; ++i) {
          const auto batch = loader.next();
          check_batch(*batch);
          for (const std::int64_t index : batch->indices) ++seen[index];
        }
        states.push_back(loader.state());
      }
      // The rest of the epoch on one rank.
      DataLoader rest(dataset, {.batch_size = 7, .shuffle = shuffle, .seed = 6, .provenance = true});
      rest.restore(states.front());
      for (const auto& [index, count] : check_epoch(rest)) seen[index] += count;
      EXPECT_EQ(seen.size(), static_cast<std::size_t>(dataset.size())) << shuffle;
      EXPECT_TRUE(std::ranges::all_of(seen, [](const auto& one) { return one.second == 1; })) << shuffle;
    }
  }
}

TEST_F(EpisodeOrderTest, refuses_a_state_of_other_windows) {
  const DataLoaderOptions loading{.batch_size = 4, .shuffle = "full", .seed = 6};
  DataLoader loader(Dataset::open(options_), loading);
  loader.next();
  const LoaderState state = loader.state();
  DatasetOptions other = options_;
  other.window = {-1, 0, 2};  // as many samples
  DataLoader another(Dataset::open(other), loading);
  EXPECT_THAT(refusal_of<StateError>([&] { another.restore(state); }), HasSubstr("dataset"));
}

TEST_F(EpisodeOrderTest, takes_subsets) {
  const Dataset dataset = Dataset::open(options_);
  std::vector<std::int64_t> some;
  for (std::int64_t sample = 0; sample < dataset.size(); sample += 3) some.push_back(sample);
  const Dataset part = dataset.subset(some);
  for (const char* const shuffle : {"sequential", "full", "chunk:2"}) {
    DataLoader loader(part, {.batch_size = 5, .shuffle = shuffle, .num_workers = 2, .provenance = true});
    EXPECT_EQ(check_epoch(loader).size(), some.size());
  }
}

TEST_F(EpisodeOrderTest, leaves_out_or_replaces_windows_that_cannot_be_read) {
  {
    // Rows 40 to 43 do not decode.
    H5TestFile file(dir_ / "bad.h5");
    put_joined(file, "frames", frames_, {4, 12});
    put_table(file, "lengths", std::vector<std::int64_t>(rows_.begin(), rows_.end()));
    file.write_chunk("frames", std::vector<std::uint64_t>{40, 0},
                     std::vector<std::byte>(20, std::byte{0x55}));
  }
  options_.files = {dir_ / "bad.h5"};
  for (const auto anchors : {EpisodeOptions::Anchors::every, EpisodeOptions::Anchors::one_random}) {
    options_.episodes->anchors = anchors;
    const Dataset dataset = Dataset::open(options_);
    for (const OnError on_error : {OnError::skip, OnError::replace}) {
      for (const std::int64_t workers : {0, 2}) {
        DataLoader loader(dataset, {.batch_size = 5,
                                    .shuffle = "full",
                                    .seed = 3,
                                    .num_workers = workers,
                                    .on_error = on_error,
                                    .max_bad_share = 0.2,
                                    .provenance = true});
        std::set<std::int64_t> seen;
        std::int64_t delivered = 0;
        while (const auto batch = loader.next()) {
          check_batch(*batch);
          delivered += batch->size();
          for (std::size_t i = 0; i < batch->origins.size(); ++i) {
            seen.insert(batch->indices[i]);
            for (const std::int64_t offset : options_.window) {
              const std::int64_t row = batch->origins[i].row + offset;
              EXPECT_FALSE(row >= 40 && row < 44) << row;
            }
          }
        }
        if (on_error == OnError::replace) {
          EXPECT_EQ(delivered, dataset.size());
        } else if (anchors == EpisodeOptions::Anchors::every) {
          std::set<std::int64_t> readable;
          for (std::int64_t sample = 0; sample < dataset.size(); ++sample) {
            const std::int64_t row = dataset.origin(sample).row;
            const bool bad = std::ranges::any_of(options_.window, [&](std::int64_t offset) {
              return row + offset >= 40 && row + offset < 44;
            });
            if (!bad) readable.insert(sample);
          }
          EXPECT_EQ(seen, readable);
          EXPECT_LT(readable.size(), static_cast<std::size_t>(dataset.size()));
        }
      }
    }
  }
}

TEST_F(EpisodeOrderTest, keeps_episodes_together_when_the_dataset_is_split) {
  const Dataset dataset = Dataset::open(options_);
  std::map<std::int64_t, std::size_t> part_of_episode;
  const std::vector<Dataset> parts = dataset.split({0.8, 0.2}, 3);
  EXPECT_EQ(parts[0].size() + parts[1].size(), dataset.size());
  for (std::size_t part = 0; part < 2; ++part) {
    DataLoader loader(parts[part], {.batch_size = 10, .shuffle = "chunk:2", .provenance = true});
    while (const auto batch = loader.next()) {
      check_batch(*batch);
      for (const SampleOrigin& origin : batch->origins)
        EXPECT_EQ(part_of_episode.emplace(origin.episode, part).first->second, part);
    }
  }
  EXPECT_EQ(part_of_episode.size(), 45u);
  EXPECT_EQ(std::ranges::count(part_of_episode, std::size_t{1}, [](const auto& one) { return one.second; }),
            9);
  const Dataset frames = Dataset::open({.files = {dir_ / "a.h5"}, .data = "frames"});
  EXPECT_THAT(refusal_of<OptionError>([&] {
                frames.split({0.5, 0.5}, 1, SplitBy::part);
              }),
              HasSubstr("use SplitBy::automatic"));
  EXPECT_EQ(frames.split({0.5, 0.5}, 1).front().size(), (frames.size() + 1) / 2);
}

// Rows of one long recording, one or a few in a chunk.
class RecordingTest : public EpisodeTest {
 protected:
  Dataset open(std::uint64_t rows, std::uint64_t chunk, const std::vector<std::int64_t>& window,
               const std::vector<std::int64_t>& ahead) {
    const auto path = dir_ / ("rows_" + std::to_string(files_++) + ".h5");
    const FieldEpisodes frames = make_episodes({rows}, 64, 1);
    {
      H5TestFile file(path);
      put_joined(file, "frames", frames, {chunk, 64});
    }
    DatasetOptions options{.files = {path}, .data = "frames", .input_layout = InputLayout::none};
    options.window = window;
    options.fields = {{.name = "next", .data = "frames", .window = ahead}};
    return Dataset::open(options);
  }

  int files_ = 0;
};

TEST_F(RecordingTest, decodes_a_chunk_at_most_1_2_times_with_the_cache_that_the_plan_says) {
  struct Case {
    std::uint64_t rows, chunk;
    std::vector<std::int64_t> window;
  };
  for (const Case& one : std::vector<Case>{{1500, 1, {-2, -1, 0, 1, 2, 3, 4, 5, 6}},
                                           {2000, 5, {-7, 0}},
                                           {4000, 8, {-16, -8, 0, 4}},
                                           {1000, 3, {0, 1, 2}}}) {
    const Dataset dataset = open(one.rows, one.chunk, one.window, {0});
    for (const std::int64_t workers : {0, 2}) {
      DataLoaderOptions options{.batch_size = 16, .shuffle = "chunk:4", .seed = 3, .num_workers = workers};
      const PlanReport foretold = plan(dataset, options);
      options.cache_bytes = foretold.cache_bytes_decode_once;
      const PlanReport report = plan(dataset, options);
      EXPECT_LE(*report.decodes_per_chunk, 1.2);
      EXPECT_GT(report.chunks_per_group, 1);
      DataLoader loader(dataset, options);
      std::uint64_t samples = 0;
      while (const auto batch = loader.next()) samples += static_cast<std::uint64_t>(batch->size());
      EXPECT_EQ(samples, static_cast<std::uint64_t>(dataset.size()));
      const double chunks = static_cast<double>((one.rows + one.chunk - 1) / one.chunk);
      EXPECT_LE(static_cast<double>(loader.stats().chunk_loads) / chunks, 1.2)
          << "chunks of " << one.chunk << ", " << workers << " workers";
      EXPECT_LT(options.cache_bytes.value(), one.rows * 64 * 2);
    }
  }
}

TEST_F(RecordingTest, decodes_each_chunk_once_in_order) {
  struct Case {
    std::uint64_t chunk;
    std::vector<std::int64_t> window;
    std::int64_t batch;
  };
  // A row is needed again when the window has passed over those between its offsets.
  for (const Case& one :
       std::vector<Case>{{4, {-9, 0, 3}, 16}, {1, {-9, 0}, 8}, {1, {-30, 5}, 2}, {2, {-3, 4}, 8}}) {
    for (const std::int64_t workers : {0, 3}) {
      const Dataset dataset = open(1000, one.chunk, one.window, {0});
      DataLoaderOptions options{.batch_size = one.batch, .num_workers = workers};
      options.cache_bytes = plan(dataset, options).cache_bytes_decode_once;
      EXPECT_LT(options.cache_bytes.value(), std::uint64_t{1000} * 64);
      DataLoader loader(dataset, options);
      while (loader.next()) {
      }
      const std::uint64_t chunks = 1000 / one.chunk;
      EXPECT_LE(loader.stats().chunk_loads, workers == 0 ? chunks : chunks * 6 / 5)
          << "chunks of " << one.chunk << ", " << workers << " workers";
    }
  }
}

}  // namespace
}  // namespace h5feed::test
