// SPDX-License-Identifier: Apache-2.0
// Datasets of which some channels are read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/files/episode_files.hpp"

namespace h5feed::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ChannelsTest : public EpisodeTest {
 protected:
  static constexpr std::uint64_t kRows = 23, kChannels = 5, kPixels = 6;

  // Writes rows (C,H,W), or (H,W,C) with `last`, and returns the values of the chosen channels as one
  // episode.
  FieldEpisodes write(const char* name, const std::vector<std::uint64_t>& chunk, bool last,
                      const std::vector<std::int64_t>& channels) {
    const FieldEpisodes all = make_episodes({kRows}, kChannels * kPixels, 3);
    H5TestFile file(dir_ / name);
    std::vector<std::uint64_t> shape = {kRows, kChannels, 2, 3};
    if (last) shape = {kRows, 2, 3, kChannels};
    put(file, "frames", shape, chunk, all.front().values);
    FieldRows chosen{kRows, channels.size() * kPixels, {}};
    for (std::uint64_t row = 0; row < kRows; ++row) {
      for (const std::int64_t channel : channels) {
        for (std::uint64_t pixel = 0; pixel < kPixels; ++pixel) {
          const auto number = static_cast<std::uint64_t>(channel);
          chosen.values.push_back(
              all.front().row(row)[last ? pixel * kChannels + number : number * kPixels + pixel]);
        }
      }
    }
    return {chosen};
  }
};

TEST_F(ChannelsTest, equal_those_of_the_rows_whatever_their_chunks) {
  const std::vector<std::int64_t> channels = {4, 1, 2};
  int number = 0;
  for (const bool last : {false, true}) {
    const std::vector<std::vector<std::uint64_t>> chunks =
        last ? std::vector<std::vector<std::uint64_t>>{{1, 2, 3, 1}, {4, 1, 2, 2}, {3, 2, 3, 5}, {}}
             : std::vector<std::vector<std::uint64_t>>{
                   {1, 1, 2, 3}, {4, 1, 2, 3}, {4, 2, 1, 2}, {3, 5, 2, 3}, {}};
    for (const std::vector<std::uint64_t>& chunk : chunks) {
      const std::string name = std::to_string(number++) + ".h5";
      const FieldEpisodes chosen = write(name.c_str(), chunk, last, channels);
      DatasetOptions options{.files = {dir_ / name},
                             .data = "frames",
                             .input_layout = last ? InputLayout::nhwc : InputLayout::nchw};
      options.channels = channels;
      options.window = {-1, 0, 2};
      expect = {{"data", {&chosen, options.window}}};
      const Dataset dataset = Dataset::open(options);
      EXPECT_THAT(dataset.sample_shape(), ElementsAre(3, 3, 2, 3));
      check_windows(dataset);
      if (HasFailure()) return;
    }
  }
}

TEST_F(ChannelsTest, are_read_without_the_chunks_of_others) {
  const FieldEpisodes chosen = write("a.h5", {1, 1, 2, 3}, false, {3});
  const Dataset dataset = Dataset::open(
      {.files = {dir_ / "a.h5"}, .data = "frames", .input_layout = InputLayout::nchw, .channels = {3}});
  const Dataset all =
      Dataset::open({.files = {dir_ / "a.h5"}, .data = "frames", .input_layout = InputLayout::nchw});
  const auto bytes_read = [](const Dataset& of) {
    DataLoader loader(of, {.batch_size = 4});
    while (loader.next()) {
    }
    return loader.stats().bytes_read;
  };
  EXPECT_NEAR(static_cast<double>(bytes_read(dataset)), static_cast<double>(bytes_read(all)) / 5,
              static_cast<double>(bytes_read(all)) / 50);
}

TEST_F(ChannelsTest, that_do_not_exist_are_named) {
  write("a.h5", {1, 1, 2, 3}, false, {0});
  DatasetOptions options{.files = {dir_ / "a.h5"}, .data = "frames", .input_layout = InputLayout::nchw};
  options.channels = {5};
  EXPECT_EQ(refusal(options), "a.h5:/frames (23×5×2×3 u16): there is no channel 5; use 0 to 4");
  options.channels = {1, 1};
  EXPECT_EQ(refusal(options), "channels: channel 1 comes twice; name each once");
  options.channels = {1};
  options.tiles = TileOptions{.size = 2};
  EXPECT_EQ(refusal(options), "channels cannot be chosen with tiles; leave one of the two out");
}

}  // namespace
}  // namespace h5feed::test
