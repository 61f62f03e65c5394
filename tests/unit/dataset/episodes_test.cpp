// SPDX-License-Identifier: Apache-2.0
// Windows in time within episodes: values of every mode compared with the rows that were written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/files/episode_files.hpp"

namespace h5feed::test {
namespace {

using testing::ElementsAre;
using Index = EpisodeOptions::Index;
using Fill = EpisodeOptions::Fill;

const std::vector<std::uint64_t> kRows = {9, 1, 14, 3, 1, 6};

// Returns the values of the table of `index` for episodes of these numbers of rows.
std::vector<std::int64_t> table_of(Index index, const std::vector<std::uint64_t>& rows) {
  std::vector<std::int64_t> table;
  std::int64_t end = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    end += static_cast<std::int64_t>(rows[i]);
    if (index == Index::lengths) table.push_back(static_cast<std::int64_t>(rows[i]));
    if (index == Index::ends) table.push_back(end);
    if (index == Index::ids) table.insert(table.end(), rows[i], static_cast<std::int64_t>(100 - i));
  }
  return table;
}

TEST_F(EpisodeTest, of_groups_equal_their_rows_with_every_fill_and_border) {
  const FieldEpisodes frames = make_episodes(kRows, 12, 1);
  const FieldEpisodes actions = make_episodes(kRows, 3, 50);
  {
    H5TestFile file(dir_ / "demos.h5");
    put_groups(file, "frames", frames, {4, 12});
    put_groups(file, "actions", actions, {});
  }
  DatasetOptions options{.files = {dir_ / "demos.h5"},
                         .data = "data/demo_*/frames",
                         .target = "data/demo_*/actions",
                         .input_layout = InputLayout::none};
  options.window = {-3, -1, 0};
  options.target_window = {0, 1, 2, 3, 4};
  options.fields = {{.name = "now", .data = "data/demo_*/actions"}};
  expect = {{"data", {&frames, options.window}},
            {"target", {&actions, options.target_window}},
            {"now", {&actions}}};
  for (const auto& [before, after, samples] : std::vector<std::array<std::int64_t, 3>>{
           {0, 0, 9}, {1, 0, 14}, {2, 4, 34}, {-1, 0, 17}, {0, -1, 20}, {-1, -1, 34}, {9, 9, 34}}) {
    for (const Fill how : {Fill::repeat, Fill::zero}) {
      fill = how;
      says_valid = before != 0 || after != 0;
      options.episodes = EpisodeOptions{.missing_before = before, .missing_after = after, .fill = how};
      const Dataset dataset = Dataset::open(options);
      EXPECT_EQ(dataset.size(), samples) << before << " before, " << after << " after";
      EXPECT_EQ(dataset.num_episodes(), 6);
      EXPECT_THAT(dataset.sample_shape(), ElementsAre(3, 12));
      check_windows(dataset);
      if (HasFailure()) return;
    }
  }
}

TEST_F(EpisodeTest, of_tables_equal_their_rows_in_several_files) {
  const FieldEpisodes frames = make_episodes(kRows, 12, 1);
  const FieldEpisodes more = make_episodes({5, 7}, 12, 90);
  FieldEpisodes all = frames;
  all.insert(all.end(), more.begin(), more.end());
  {
    H5TestFile first(dir_ / "a.h5");
    H5TestFile second(dir_ / "b.h5");
    put_joined(first, "frames", frames, {4, 5});  // three chunks hold parts of the same rows
    put_joined(second, "frames", more, {3, 12});
    for (const auto& [index, name] : {std::pair(Index::lengths, "lengths"), std::pair(Index::ends, "ends"),
                                      std::pair(Index::ids, "ids")}) {
      put_table(first, name, table_of(index, kRows));
      put_table(second, name, table_of(index, {5, 7}));
    }
  }
  expect = {{"data", {&all, {-2, 0, 1}}}, {"frames_then", {&all, {2}}}};
  for (const auto& [index, name] :
       {std::pair(Index::lengths, "lengths"), std::pair(Index::ends, "ends"), std::pair(Index::ids, "ids")}) {
    DatasetOptions options{
        .files = {dir_ / "a.h5", dir_ / "b.h5"}, .data = "frames", .input_layout = InputLayout::none};
    options.episodes = EpisodeOptions{.index = index, .table = name, .missing_before = 1};
    options.window = {-2, 0, 1};
    options.fields = {{.name = "frames_then", .data = "frames", .window = {2}}};
    says_valid = true;
    const Dataset dataset = Dataset::open(options);
    EXPECT_EQ(dataset.num_episodes(), 8);
    check_windows(dataset);
    if (HasFailure()) return;
  }
}

TEST_F(EpisodeTest, of_uncompressed_rows_are_read_past_the_cache) {
  const FieldEpisodes frames = make_episodes(kRows, 12, 1);
  {
    H5TestFile file(dir_ / "a.h5");
    put_joined(file, "frames", frames, {});
    put_table(file, "ends", table_of(Index::ends, kRows));
  }
  DatasetOptions options{.files = {dir_ / "a.h5"}, .data = "frames", .input_layout = InputLayout::none};
  options.window = {-1, 0, 1};
  expect = {{"data", {&frames, options.window}}};
  says_valid = true;
  for (const Fill how : {Fill::repeat, Fill::zero}) {
    fill = how;
    options.episodes = EpisodeOptions{
        .index = Index::ends, .table = "ends", .missing_before = -1, .missing_after = -1, .fill = how};
    for (const std::int64_t workers : {0, 2}) {
      DataLoader loader(Dataset::open(options), {.batch_size = 7,
                                                 .shuffle = "full",
                                                 .seed = 2,
                                                 .num_workers = workers,
                                                 .row_reads = RowReads::always,
                                                 .provenance = true});
      EXPECT_EQ(check_epoch(loader).size(), 34u);
    }
  }
}

TEST_F(EpisodeTest, have_observations_after_the_last_action) {
  FieldEpisodes frames = make_episodes(kRows, 12, 1);
  std::vector<std::uint64_t> one_more = kRows;
  for (std::uint64_t& rows : one_more) ++rows;
  const FieldEpisodes observations = make_episodes(one_more, 2, 70);
  {
    H5TestFile file(dir_ / "a.h5");
    put_groups(file, "actions", frames, {5, 12}, "traj_");
    put_groups(file, "obs", observations, {4, 2}, "traj_");
  }
  DatasetOptions options{
      .files = {dir_ / "a.h5"}, .data = "traj_*/actions", .input_layout = InputLayout::none};
  options.fields = {{.name = "obs", .data = "traj_*/obs", .window = {0, 1}}};
  expect = {{"data", {&frames}}, {"obs", {&observations, {0, 1}}}};
  const Dataset dataset = Dataset::open(options);
  EXPECT_EQ(dataset.size(), 34);
  check_windows(dataset);
  options.fields.front().window.clear();
  EXPECT_EQ(refusal(options),
            "a.h5: /traj_0/obs has 10 rows, /traj_0/actions has 9; a field needs one row per sample");
}

TEST_F(EpisodeTest, take_fields_of_episodes_and_files) {
  const FieldEpisodes frames = make_episodes(kRows, 12, 1);
  for (const char* const name : {"a.h5", "b.h5"}) {
    H5TestFile file(dir_ / name);
    put_groups(file, "frames", frames, {4, 12});
    for (std::size_t i = 0; i < kRows.size(); ++i)
      put(file, "data/demo_" + std::to_string(i) + "/task", {2}, {},
          {static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(name[0])});
    put(file, "mask", {3}, {}, {static_cast<std::uint16_t>(name[0]), 1, 2});
    put(file, "trace", {name[0] == 'a' ? 2u : 4u}, {}, std::vector<std::uint16_t>(name[0] == 'a' ? 2 : 4, 7));
    put(file, "scale", {}, {}, {static_cast<std::uint16_t>(name[0])});
  }
  DatasetOptions options{.files = {dir_ / "a.h5", dir_ / "b.h5"},
                         .data = "data/demo_*/frames",
                         .input_layout = InputLayout::none};
  options.fields = {{.name = "task", .data = "data/demo_*/task", .per = FieldUnit::episode},
                    {.name = "mask", .per = FieldUnit::file},
                    {.name = "scale", .per = FieldUnit::file},
                    {.name = "trace", .collate = Collate::pad, .per = FieldUnit::file}};
  options.window = {0, 1};
  const Dataset dataset = Dataset::open(options);
  EXPECT_EQ(dataset.size(), 2 * 28);
  for (const std::int64_t workers : {0, 2}) {
    DataLoader loader(dataset,
                      {.batch_size = 8, .shuffle = "full", .num_workers = workers, .provenance = true});
    while (const auto batch = loader.next()) {
      EXPECT_THAT(batch->field("mask").values.shape, ElementsAre(batch->size(), 3));
      EXPECT_THAT(batch->field("scale").values.shape, ElementsAre(batch->size()));
      for (std::size_t i = 0; i < batch->origins.size(); ++i) {
        const bool first = batch->origins[i].file == (dir_ / "a.h5").string();
        const auto letter = static_cast<std::uint16_t>(first ? 'a' : 'b');
        const auto task = batch->field("task").values.as<std::uint16_t>();
        EXPECT_EQ(task[2 * i], batch->origins[i].episode % 6);
        EXPECT_EQ(task[2 * i + 1], letter);
        EXPECT_EQ(batch->field("mask").values.as<std::uint16_t>()[3 * i], letter);
        EXPECT_EQ(batch->field("scale").values.as<std::uint16_t>()[i], letter);
        EXPECT_EQ(batch->field("trace").lengths.as<std::int64_t>()[i], first ? 2 : 4);
      }
    }
  }
}

TEST_F(EpisodeTest, take_fields_with_a_row_for_each_episode_of_a_table) {
  const FieldEpisodes frames = make_episodes(kRows, 12, 1);
  {
    H5TestFile file(dir_ / "a.h5");
    put_joined(file, "frames", frames, {4, 12});
    put_table(file, "ids", table_of(Index::ids, kRows));
    put_table(file, "chosen", {98, 95});
    put(file, "task", {6, 1}, {}, {10, 11, 12, 13, 14, 15});
  }
  DatasetOptions options{.files = {dir_ / "a.h5"}, .data = "frames", .input_layout = InputLayout::none};
  options.fields = {{.name = "task", .per = FieldUnit::episode}};
  options.episodes = EpisodeOptions{.index = Index::ids, .table = "ids", .only = "chosen"};
  options.window = {-1, 0};
  expect = {{"data", {&frames, options.window}}};
  numbers = {2, 5};
  const Dataset dataset = Dataset::open(options);
  EXPECT_EQ(dataset.size(), 13 + 5);
  check_windows(dataset);
  DataLoader loader(dataset, {.batch_size = 18, .provenance = true});
  const auto batch = loader.next();
  for (std::size_t i = 0; i < 18; ++i)
    EXPECT_EQ(batch->field("task").values.as<std::uint16_t>()[i], batch->origins[i].episode == 0 ? 12 : 15);
}

TEST_F(EpisodeTest, of_large_fields_come_from_their_chunks) {
  // More than 64 MiB, so that the field is not read at open; one value of each row is written.
  constexpr std::uint64_t kWidth = 1 << 20;
  const FieldEpisodes frames = make_episodes({20, 20}, 4, 1);
  {
    H5TestFile file(dir_ / "a.h5");
    put_joined(file, "frames", frames, {3, 4});
    put_table(file, "lengths", {20, 20});
    file.create({.path = "wide", .file_type = H5T_STD_U16LE, .shape = {40, kWidth}, .chunk = {2, kWidth}});
    for (std::uint16_t row = 0; row < 40; ++row)
      file.write_box("wide", std::vector<std::uint64_t>{row, 5}, std::vector<std::uint64_t>{1, 1},
                     bytes_of({static_cast<std::uint16_t>(row + 1)}));
  }
  DatasetOptions options{.files = {dir_ / "a.h5"}, .data = "frames", .input_layout = InputLayout::none};
  options.episodes =
      EpisodeOptions{.index = Index::lengths, .table = "lengths", .missing_before = 1, .fill = Fill::zero};
  options.fields = {{.name = "wide", .window = {-1, 0, 2}}};
  DataLoader loader(Dataset::open(options), {.batch_size = 4, .num_workers = 2, .provenance = true});
  std::size_t samples = 0;
  while (const auto batch = loader.next()) {
    const auto values = batch->field("wide").values.as<std::uint16_t>();
    for (std::size_t i = 0; i < batch->origins.size(); ++i, ++samples) {
      const SampleOrigin& origin = batch->origins[i];
      const auto value = [&](std::size_t row) { return values[(i * 3 + row) * kWidth + 5]; };
      EXPECT_EQ(value(0), origin.frame == 0 ? 0 : origin.row);
      EXPECT_EQ(value(1), origin.row + 1);
      EXPECT_EQ(value(2), origin.row + 3);
      EXPECT_EQ(values[(i * 3) * kWidth + 6], 0);
    }
  }
  EXPECT_EQ(samples, 36u);
}

}  // namespace
}  // namespace h5feed::test
