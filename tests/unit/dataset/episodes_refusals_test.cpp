// SPDX-License-Identifier: Apache-2.0
// Episodes and windows that are refused when a dataset is opened, or by a loader.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/files/episode_files.hpp"

namespace h5feed::test {
namespace {

using Index = EpisodeOptions::Index;

class EpisodeRefusalsTest : public EpisodeTest {
 protected:
  void SetUp() override {
    const FieldEpisodes frames = make_episodes({4, 3}, 2, 1);
    H5TestFile file(dir_ / "a.h5");
    put_groups(file, "frames", frames, {2, 2});
    put_joined(file, "flat", frames, {2, 2});
    put(file, "half", {7}, {}, {1, 2, 3, 4, 5, 6, 7});
    put_table(file, "lengths", {4, 3});
    put_table(file, "short", {4, 2});
    put_table(file, "negative", {8, -1});
    put_table(file, "ends", {4, 7});
    put_table(file, "falling", {7, 4});
    put_table(file, "ids", {1, 1, 2, 1, 3, 3, 3});
    put_table(file, "few_ids", {1, 1, 2});
    put_table(file, "beyond", {0, 5});
    put_table(file, "twice", {1, 1});
    put_table(file, "none", {});
    file.create({.path = "real", .file_type = H5T_IEEE_F32LE, .shape = {2}});
    const Hid text(H5Tcopy(H5T_C_S1));
    require(H5Tset_size(text.get(), 8), "H5Tset_size");
    file.create({.path = "names", .file_type = text.get(), .shape = {1}});
    const std::string name("demo_9\0\0", 8);
    write_text(file, "names", text.get(), name);
    file.create({.path = "train", .file_type = text.get(), .shape = {1}});
    write_text(file, "train", text.get(), std::string("demo_1\0\0", 8));
  }

  static void write_text(H5TestFile& file, const char* path, hid_t type, const std::string& text) {
    const hid_t dataset = H5Dopen2(file.id(), path, H5P_DEFAULT);
    require(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()), "H5Dwrite");
    require(H5Dclose(dataset), "H5Dclose");
  }

  DatasetOptions of_groups() const {
    return {.files = {dir_ / "a.h5"}, .data = "data/demo_*/frames", .input_layout = InputLayout::none};
  }
  std::string table_refusal(Index index, const char* table, const char* only = "") const {
    DatasetOptions options{.files = {dir_ / "a.h5"}, .data = "flat", .input_layout = InputLayout::none};
    options.episodes = EpisodeOptions{.index = index, .table = table, .only = only};
    return refusal(options);
  }
};

TEST_F(EpisodeRefusalsTest, names_tables_that_do_not_add_up) {
  EXPECT_EQ(table_refusal(Index::lengths, "lengths"), "accepted");
  EXPECT_EQ(table_refusal(Index::lengths, "short"),
            "a.h5: short says that the episodes have 6 rows together, the data has 7; name the table of this "
            "data");
  EXPECT_EQ(table_refusal(Index::lengths, "negative"),
            "a.h5: negative gives episode 1 the length -1; lengths must be 0 or more: name another table");
  EXPECT_EQ(
      table_refusal(Index::ends, "falling"),
      "a.h5: falling ends episode 1 at row 4, before its first row 7; with lengths of episodes, set index "
      "= lengths");
  EXPECT_EQ(
      table_refusal(Index::ends, "short"),
      "a.h5: short ends episode 1 at row 2, before its first row 4; with lengths of episodes, set index = "
      "lengths");
  EXPECT_EQ(
      table_refusal(Index::ids, "ids"),
      "a.h5: ids continues episode 1 at row 3, after another one; the rows of an episode must follow each "
      "other: sort them");
  EXPECT_EQ(table_refusal(Index::ids, "few_ids"),
            "a.h5: few_ids has 3 rows, the data has 7; a table of ids has one for each row");
  EXPECT_EQ(table_refusal(Index::ends, "none"),
            "a.h5: none says that the episodes have 0 rows together, the data has 7; name the table of this "
            "data");
  EXPECT_EQ(table_refusal(Index::ends, "real"),
            "a.h5:/real (2 f32): episodes.table must be one-dimensional, of integers; name another dataset");
  EXPECT_EQ(table_refusal(Index::ends, ""),
            "episodes.table is not set; name the dataset that tells the episodes, or use episodes.index = "
            "datasets");
  EXPECT_EQ(table_refusal(Index::datasets, "ends"),
            "episodes.table needs an index of lengths, ends or ids; set episodes.index");
}

TEST_F(EpisodeRefusalsTest, names_entries_of_the_list_that_do_not_exist) {
  EXPECT_EQ(table_refusal(Index::ends, "ends", "beyond"),
            "a.h5: beyond lists 5, which is none of the episodes of the data");
  EXPECT_EQ(table_refusal(Index::ends, "ends", "twice"),
            "a.h5: twice lists 1, which comes twice; list each episode once");
  EXPECT_EQ(
      table_refusal(Index::ends, "ends", "names"),
      "a.h5: names lists \"demo_9\", and the episodes have no names: they are not groups that wildcards "
      "match; list numbers");
  EXPECT_EQ(table_refusal(Index::ends, "ends", "none"),
            "a.h5: flat: no episode takes part; leave episodes.only unset for all of them");
  DatasetOptions options = of_groups();
  options.episodes = EpisodeOptions{.only = "names"};
  EXPECT_EQ(refusal(options), "a.h5: names lists \"demo_9\", which is none of the episodes of the data");
  options.episodes->only = "train";
  const Dataset dataset = Dataset::open(options);
  EXPECT_EQ(dataset.size(), 3);
  EXPECT_EQ(dataset.origin(0).path, "/data/demo_1/frames");
}

TEST_F(EpisodeRefusalsTest, says_when_windows_are_longer_than_every_episode) {
  DatasetOptions options = of_groups();
  options.window = {-3, 0};
  options.fields = {{.name = "frames", .data = "data/demo_*/frames", .window = {0, 1, 2}}};
  EXPECT_EQ(
      refusal(options),
      "a.h5: data/demo_*/frames: the windows reach 3 rows back and 2 ahead, and the longest episode has 4; "
      "use shorter windows, or let rows be missing with episodes.missing_before and "
      "episodes.missing_after");
  options.episodes = EpisodeOptions{.missing_before = 1};
  EXPECT_EQ(Dataset::open(options).size(), 3);
}

TEST_F(EpisodeRefusalsTest, names_options_that_contradict_each_other) {
  DatasetOptions options = of_groups();
  options.window = {0, 0};
  EXPECT_EQ(refusal(options), "window: offset 0 comes after 0; offsets must ascend, each once");
  options.window = {-3'000'000'000};
  EXPECT_EQ(refusal(options),
            "window: offset -3000000000 is out of range; use -2147483647 to 2147483647 rows");
  options.window.assign(70'000, 0);
  EXPECT_EQ(refusal(options), "window has 70,000 offsets; it may have 65536 at most");
  options.window = {0, 1};
  options.target_window = {1};
  EXPECT_EQ(refusal(options), "target_window needs a target; set target");
  options.target_window.clear();
  options.episodes = EpisodeOptions{.missing_after = -2};
  EXPECT_EQ(refusal(options), "episodes.missing_after must be 0 or more, or -1 for any number; got -2");
  options.episodes = EpisodeOptions{.missing_after = 1};
  options.fields = {{.name = "data.valid", .data = "data/demo_*/frames"}};
  EXPECT_EQ(
      refusal(options),
      "field \"data.valid\" has the name of the field that tells which rows of a window exist; use another "
      "name");
  options.fields = {{.name = "x", .window = {0}, .per = FieldUnit::file}};
  EXPECT_EQ(refusal(options),
            "field \"x\": window needs a row of the field for each row of the data; leave per unset, or the "
            "window");
  options.fields.clear();
  options.sample = SampleUnit::dataset;
  EXPECT_EQ(
      refusal(options),
      "sample = dataset makes a sample of a whole dataset, and windows and episodes are made of rows; use "
      "sample = row");
  options.sample = SampleUnit::row;
  options.tiles = TileOptions{.size = 2};
  EXPECT_EQ(refusal(options), "tiles exclude windows and episodes; leave one of them out");
}

TEST_F(EpisodeRefusalsTest, names_fields_with_other_rows) {
  DatasetOptions options = of_groups();
  options.fields = {{.name = "half", .sample = SampleUnit::row, .per = FieldUnit::episode}};
  EXPECT_EQ(refusal(options),
            "half has 7 rows, data/demo_*/frames has 2 episodes; a field per episode needs one for each");
  options.fields = {{.name = "half", .sample = SampleUnit::row, .per = FieldUnit::file}};
  EXPECT_EQ(refusal(options), "half has 7 rows in 1 file; a field per file needs one in each");
}

TEST_F(EpisodeRefusalsTest, of_loaders_name_what_does_not_fit) {
  DatasetOptions options = of_groups();
  options.window = {0, 1};
  const Dataset dataset = Dataset::open(options);
  const auto loading = [&](const DataLoaderOptions& loader) {
    return refusal_of<OptionError>([&] { DataLoader(dataset, loader); });
  };
  EXPECT_EQ(
      loading({.shuffle = "full", .cache_bytes = 8, .cache_policy = CachePolicy::clairvoyant}),
      "cache_policy = clairvoyant counts on one use of a row in each epoch, and the samples of episodes "
      "share rows or draw them; use cache_policy = lru");
  EXPECT_EQ(loading({.shuffle = "chunk:9"}),
            "shuffle \"chunk:9\": the data has 2 groups of chunks, large enough for the windows; use "
            "\"chunk:2\" or less, or \"full\"");
}

}  // namespace
}  // namespace h5feed::test
