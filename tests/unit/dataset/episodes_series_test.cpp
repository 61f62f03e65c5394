// SPDX-License-Identifier: Apache-2.0
// Windows across the borders of files that continue one another, such as the years of a climate.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/files/episode_files.hpp"
#include "support/loaders/decode_bound.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;
using Index = EpisodeOptions::Index;

// A series of `years` files, each with one dataset of rows, and the same rows in one piece.
class SeriesTest : public EpisodeTest {
 protected:
  DatasetOptions write(const std::vector<std::uint64_t>& years, std::uint64_t chunk) {
    const FieldEpisodes pieces = make_episodes(years, 12, 1);
    whole_ = {FieldRows{0, 12, {}}};
    DatasetOptions options{.data = "fields", .input_layout = InputLayout::none};
    for (std::size_t year = 0; year < years.size(); ++year) {
      const auto path = dir_ / ("year_" + std::to_string(year) + ".h5");
      H5TestFile file(path);
      put(file, "fields", {years[year], 12}, {chunk, 12}, pieces[year].values);
      put(file, "mask", {2}, {}, {static_cast<std::uint16_t>(year), 9});
      options.files.push_back(path);
      whole_.front().rows += years[year];
      whole_.front().values.insert(whole_.front().values.end(), pieces[year].values.begin(),
                                   pieces[year].values.end());
    }
    options.episodes = EpisodeOptions{.index = Index::series};
    return options;
  }

  FieldEpisodes whole_;  // one episode
};

TEST_F(SeriesTest, loses_no_window_at_the_borders_of_files) {
  DatasetOptions options = write({9, 1, 14, 3, 6}, 4);
  options.target = "fields";
  options.window = {-3, -1, 0};
  options.target_window = {1, 2, 5};
  expect = {{"data", {&whole_, options.window}}, {"target", {&whole_, options.target_window}}};
  const Dataset dataset = Dataset::open(options);
  EXPECT_EQ(dataset.num_episodes(), 1);
  EXPECT_EQ(dataset.size(), 33 - 3 - 5);
  check_windows(dataset);
  // The same files as episodes of their own lose the windows at each border.
  options.episodes.reset();
  EXPECT_EQ(Dataset::open(options).size(), (9 - 8) + (14 - 8));
}

TEST_F(SeriesTest, misses_rows_at_its_two_ends_only) {
  DatasetOptions options = write({2, 5, 1, 4}, 2);
  options.window = {-2, 0, 3};
  options.fields = {{.name = "mask", .per = FieldUnit::file}};
  says_valid = true;
  expect = {{"data", {&whole_, options.window}}};
  for (const auto how : {EpisodeOptions::Fill::repeat, EpisodeOptions::Fill::zero}) {
    fill = how;
    options.episodes =
        EpisodeOptions{.index = Index::series, .missing_before = -1, .missing_after = -1, .fill = how};
    const Dataset dataset = Dataset::open(options);
    EXPECT_EQ(dataset.size(), 12);
    check_windows(dataset);
    DataLoader loader(dataset, {.batch_size = 5, .shuffle = "full", .seed = 1, .provenance = true});
    while (const auto batch = loader.next()) {
      for (std::size_t i = 0; i < batch->origins.size(); ++i) {
        // A field per file is that of the file of the anchor.
        const std::string year = std::to_string(batch->field("mask").values.as<std::uint16_t>()[2 * i]);
        EXPECT_EQ(batch->origins[i].file, (dir_ / ("year_" + year + ".h5")).string());
      }
    }
  }
}

TEST_F(SeriesTest, decodes_chunks_at_most_1_2_times_over_short_files) {
  DatasetOptions options = write(std::vector<std::uint64_t>(20, 10), 2);
  options.window = {-2, -1, 0, 1};
  expect = {{"data", {&whole_, options.window}}};
  const Dataset dataset = Dataset::open(options);
  for (const std::int64_t workers : {0, 2}) {
    DataLoaderOptions loading{
        .batch_size = 4, .shuffle = "chunk:2", .seed = 1, .num_workers = workers, .provenance = true};
    loading.cache_bytes = plan(dataset, loading).cache_bytes_decode_once;
    // Groups extend over the files, which are shorter than a group must be.
    EXPECT_EQ(plan(dataset, loading).chunks, 100u);
    EXPECT_GT(plan(dataset, loading).chunks_per_group, 5);
    EXPECT_LE(*plan(dataset, loading).decodes_per_chunk, 1.2);
    DataLoader loader(dataset, loading);
    EXPECT_EQ(check_epoch(loader).size(), static_cast<std::size_t>(dataset.size()));
    EXPECT_LE(static_cast<double>(loader.stats().chunk_loads), most_decodes(workers) * 100)
        << workers << " workers";
  }
}

TEST_F(SeriesTest, refuses_a_state_of_the_same_files_as_episodes_of_their_own) {
  DatasetOptions options = write({6, 6}, 2);
  const DataLoaderOptions loading{.batch_size = 4, .shuffle = "full", .seed = 6};
  DataLoader loader(Dataset::open(options), loading);
  loader.next();
  const LoaderState state = loader.state();
  options.episodes->index = Index::datasets;  // as many samples
  DataLoader another(Dataset::open(options), loading);
  EXPECT_THAT(refusal_of<StateError>([&] { another.restore(state); }), HasSubstr("dataset"));
}

TEST_F(SeriesTest, names_what_a_single_episode_cannot_have) {
  DatasetOptions options = write({6, 6}, 2);
  const Dataset dataset = Dataset::open(options);
  EXPECT_EQ(
      refusal_of<OptionError>([&] {
        dataset.split({0.5, 0.5}, 1);
      }),
      "episodes.index = series makes all rows one episode, which split() keeps together; open the files "
      "of each part as a dataset, or use SplitBy::sample, with which windows of one part may hold rows "
      "of another");
  EXPECT_EQ(dataset.split({0.5, 0.5}, 1, SplitBy::sample).front().size(), 6);
  options.fields = {{.name = "mask", .per = FieldUnit::episode}};
  EXPECT_EQ(refusal(options),
            "field \"mask\": all rows of episodes.index = series are one episode; use per file, or row");
  options.fields.clear();
  options.episodes->only = "mask";
  EXPECT_EQ(refusal(options),
            "episodes.only lists episodes, and all rows of episodes.index = series are one; leave it unset");
  options.episodes = EpisodeOptions{.index = Index::series, .table = "mask"};
  EXPECT_EQ(refusal(options), "episodes.table needs an index of lengths, ends or ids; set episodes.index");
}

}  // namespace
}  // namespace h5feed::test
