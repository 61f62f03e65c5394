// SPDX-License-Identifier: Apache-2.0
// Bad data of every kind: samples of several chunks, tiles, fields, values of variable length, rows read
// directly, files cut short.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "store/read/stored_chunks.hpp"
#include "support/captured_log.hpp"
#include "support/files/field_file.hpp"
#include "support/files/flaky_source.hpp"
#include "support/files/image_tiles.hpp"
#include "support/loaders/planted_faults.hpp"

namespace h5feed::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::UnorderedElementsAre;

TEST(FaultKinds, samples_of_several_chunks_are_left_out_whole) {
  const CapturedLog log;
  const SampleSetSpec spec{.shape = {100, 8, 6}, .chunk_shape = {10, 4, 3}, .gzip = 1};
  const SampleSet set(spec), whole(spec);
  damage_chunks(set, {13, 30});  // pieces of chunks 3 and 7 of rows
  const auto is_bad = [](std::int64_t sample) { return sample / 10 == 3 || sample / 10 == 7; };
  for (const CachePolicy policy : {CachePolicy::lru, CachePolicy::clairvoyant}) {
    DataLoaderOptions options{.batch_size = 8, .shuffle = true, .seed = 4};
    options.cache_policy = policy;
    options.cache_bytes = 1500;
    expect_good_samples(open(set), options, is_bad, [&](const Batch& batch) {
      for (std::size_t i = 0; i < batch.indices.size(); ++i) {
        EXPECT_EQ(std::memcmp(batch.data.bytes.get() + i * 48, whole.sample(batch.indices[i]), 48), 0);
        EXPECT_EQ(batch.target.as<std::int64_t>()[i], whole.label(batch.indices[i]));
      }
    });
  }
}

TEST_F(Tiles, that_touch_a_bad_chunk_are_left_out_and_others_of_the_image_are_not) {
  const CapturedLog log;
  const StoredImages images = make({8, 20, 30});
  const std::filesystem::path path = write("a.h5", images, {1, 10, 10});
  std::uint64_t bad_chunk = 2 * 6 + 4;  // image 2, rows 10-19, columns 10-19
  {
    const auto file = H5File::open(path);
    damage(path, build_chunk_index(*file, file->describe("images")).locations.at(bad_chunk).address + 4, 12);
  }
  const Dataset dataset = Dataset::open({.files = {path},
                                         .data = "images",
                                         .input_layout = InputLayout::nhw,
                                         .tiles = TileOptions{.size = 8, .stride = 4}});
  const auto is_bad = [&](std::int64_t sample) {
    const SampleOrigin origin = dataset.origin(sample);
    return origin.image == 2 && origin.y + 8 > 10 && origin.x + 8 > 10 && origin.x < 20;
  };
  DataLoaderOptions options{.batch_size = 8, .shuffle = true, .seed = 4};
  options.provenance = true;
  expect_good_samples(dataset, options, is_bad, [&](const Batch& batch) {
    for (std::size_t i = 0; i < batch.indices.size(); ++i) {
      const SampleOrigin& origin = batch.origins[i];
      const auto tile =
          images.window(static_cast<std::uint64_t>(origin.image), static_cast<std::uint64_t>(origin.y),
                        static_cast<std::uint64_t>(origin.x), 8, 8);
      EXPECT_EQ(std::memcmp(batch.data.bytes.get() + i * 64, tile.data(), 64), 0);
    }
  });
}

TEST(FaultKinds, a_bad_chunk_of_a_field_spoils_its_samples) {
  const CapturedLog log;
  const TempDir dir;
  const std::filesystem::path path = dir / "a.h5";
  constexpr std::uint64_t kRows = 200, kDepth = 350'000;  // 70 MB: above what is read at open
  {
    H5TestFile file(path);
    file.create({.path = "images", .shape = {kRows, 4, 4}, .chunk = {10, 4, 4}, .filters = {gzip_filter(1)}});
    file.write("images", patterned_bytes(kRows * 16));
    file.create(
        {.path = "depth", .shape = {kRows, kDepth}, .chunk = {20, kDepth}, .filters = {gzip_filter(1)}});
    std::vector<std::byte> depth(kRows * kDepth);
    for (std::uint64_t row = 0; row < kRows; ++row)
      std::fill_n(depth.begin() + static_cast<std::ptrdiff_t>(row * kDepth), kDepth,
                  static_cast<std::byte>(row));
    file.write("depth", depth);
  }
  {
    const auto file = H5File::open(path);
    damage(path, build_chunk_index(*file, file->describe("images")).locations.at(2).address + 4, 12);
    damage(path, build_chunk_index(*file, file->describe("depth")).locations.at(3).address + 40, 12);
  }
  const Dataset dataset = Dataset::open({.files = {path}, .data = "images", .fields = {{.name = "depth"}}});
  const auto is_bad = [](std::int64_t sample) { return sample / 10 == 2 || sample / 20 == 3; };
  const std::vector<std::byte> pixels = patterned_bytes(kRows * 16);
  DataLoaderOptions options{.batch_size = 8, .shuffle = "chunk:4", .seed = 4};
  options.cache_bytes = std::uint64_t{16} << 20;
  expect_good_samples(dataset, options, is_bad, [&](const Batch& batch) {
    for (std::size_t i = 0; i < batch.indices.size(); ++i) {
      const auto sample = static_cast<std::size_t>(batch.indices[i]);
      EXPECT_EQ(std::memcmp(batch.data.bytes.get() + i * 16, pixels.data() + sample * 16, 16), 0);
      EXPECT_EQ(batch.fields[0].values.bytes.get()[i * kDepth + 5], static_cast<std::byte>(sample));
    }
  });
}

TEST_F(Fields, of_variable_length_spoil_only_their_own_sample) {
  const CapturedLog log;
  std::uint64_t offset = 0;
  {
    const Hid file(H5Fopen(path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
    const Hid set(H5Dopen2(file.get(), "words", H5P_DEFAULT));
    offset = H5Dget_offset(set.get());
  }
  std::vector<std::byte> bytes = file_bytes(path());
  const std::uint32_t length = 100;  // more than the heap has
  for (const std::size_t row : {std::size_t{3}, std::size_t{19}})
    std::memcpy(bytes.data() + offset + row * 16, &length, sizeof length);
  replace_file(path(), bytes);
  const Dataset dataset = Dataset::open(with({{.name = "words", .collate = Collate::ragged}}));
  DataLoaderOptions options{.batch_size = 5, .shuffle = true, .seed = 4};
  options.bad_list = dir_ / "bad.tsv";
  expect_good_samples(
      dataset, options, [](std::int64_t sample) { return sample == 3 || sample == 19; },
      [&](const Batch& batch) {
        const BatchField& words = batch.fields[0];
        for (std::size_t i = 0; i < batch.indices.size(); ++i) {
          const auto at = static_cast<std::size_t>(words.offsets.as<std::int64_t>()[i]);
          EXPECT_EQ(words.values.as<std::int16_t>()[at], batch.indices[i]);
          EXPECT_EQ(batch.target.as<std::int64_t>()[i], 100 + batch.indices[i]);
        }
      });
  EXPECT_THAT(listed_chunks(dir_ / "bad.tsv"), UnorderedElementsAre("3", "19"));
  for (const std::string& line : lines_of(text_of(dir_ / "bad.tsv"))) {
    if (line.starts_with("file")) continue;
    EXPECT_THAT(line, testing::StartsWith(path().string() + "\t/words\t"));
    EXPECT_THAT(line, HasSubstr("\tis corrupt: "));
  }
}

TEST(FaultKinds, rows_read_directly_are_left_out_one_by_one) {
  const CapturedLog log;
  const TempDir dir;
  const SampleSet set({.shape = {300, 8, 6}});
  const Dataset intact = Dataset::open({.files = {set.path()}, .data = "images"});
  const std::uint64_t begin = *place_of(*DatasetAccess::state(intact)->data.reader, 0).address;
  const Dataset dataset = DatasetAccess::open(
      {.files = {set.path()}, .data = "images"}, [&](std::shared_ptr<const ByteSource> source) {
        return std::make_shared<HoleSource>(std::move(source), begin + 100 * 48 + 10, begin + 102 * 48 + 10);
      });
  DataLoaderOptions options{.batch_size = 8, .shuffle = true, .seed = 4};
  options.row_reads = RowReads::always;
  options.bad_list = dir / "bad.tsv";
  expect_good_samples(
      dataset, options, [](std::int64_t sample) { return sample >= 100 && sample <= 102; },
      [&](const Batch& batch) {
        for (std::size_t i = 0; i < batch.indices.size(); ++i)
          EXPECT_EQ(std::memcmp(batch.data.bytes.get() + i * 48, set.sample(batch.indices[i]), 48), 0);
      });
  EXPECT_THAT(listed_chunks(dir / "bad.tsv"), ElementsAre("0,0,0")) << "the chunk is named once";
}

TEST(FaultKinds, a_file_that_is_cut_short_loses_its_last_samples) {
  const CapturedLog log;
  const TempDir dir;
  const SampleSet set(gzip_set());
  const Dataset dataset = open(set);
  std::uint64_t end = 0, last_chunk = 0;
  for (std::uint64_t chunk = 0; chunk < 10; ++chunk) {
    if (chunk_offset(set, chunk) < end) continue;
    end = chunk_offset(set, chunk);
    last_chunk = chunk;
  }
  std::filesystem::resize_file(set.path(), end + 3);
  DataLoaderOptions options{.batch_size = 8, .shuffle = true, .seed = 4};
  options.bad_list = dir / "bad.tsv";
  expect_good_samples(
      dataset, options,
      [&](std::int64_t sample) { return static_cast<std::uint64_t>(sample) / 10 == last_chunk; },
      [](const Batch&) {});
  EXPECT_THAT(listed_chunks(dir / "bad.tsv"), ElementsAre(std::to_string(last_chunk) + ",0,0"));
  EXPECT_THAT(text_of(dir / "bad.tsv"), HasSubstr("\tcannot be read: the file ended while reading "));
}

TEST(FaultKinds, the_list_names_the_file_of_several_that_a_chunk_is_in) {
  const CapturedLog log;
  const TempDir dir;
  const SampleSet first(gzip_set()), second(gzip_set());
  damage_chunks(second, {4});
  const Dataset dataset = Dataset::open({.files = {first.path(), second.path()}, .data = "images"});
  DataLoaderOptions options{.batch_size = 8, .shuffle = true, .seed = 4};
  options.bad_list = dir / "bad.tsv";
  expect_good_samples(
      dataset, options, [&](std::int64_t sample) { return sample / 10 == 14; }, [](const Batch&) {});
  EXPECT_THAT(listed_chunks(dir / "bad.tsv"), ElementsAre("4,0,0"));
  EXPECT_THAT(text_of(dir / "bad.tsv"),
              HasSubstr("\n" + second.path().string() + "\t/images\t4,0,0\t" +
                        std::to_string(chunk_offset(second, 4)) + "\tgzip\t40-49\tis corrupt: "));
}

// A chunk that could not be read may come back; one that is corrupt does not.
TEST(FaultKinds, chunks_that_could_not_be_read_are_tried_again_in_each_epoch) {
  const CapturedLog log;
  const SampleSet set(gzip_set());
  std::shared_ptr<FlakySource> flaky;
  const Dataset dataset = DatasetAccess::open({.files = {set.path()}, .data = "images"},
                                              [&](std::shared_ptr<const ByteSource> source) {
                                                flaky = std::make_shared<FlakySource>(std::move(source), 0);
                                                return flaky;
                                              });
  DataLoaderOptions options{.batch_size = 10};
  options.on_error = OnError::skip;
  options.max_bad_share = 0.1;
  options.cache_bytes = 0;
  flaky->fail_next(1);
  DataLoader loader(dataset, options);
  EXPECT_THAT(samples_of(rest_of_epoch(loader)), SizeIs(90));
  EXPECT_THAT(samples_of(rest_of_epoch(loader)), SizeIs(100));
}

}  // namespace
}  // namespace h5feed::test
