// SPDX-License-Identifier: Apache-2.0
// Encoded images that are larger than the samples they become are decoded within the memory budget.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/byte_units.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/resolve/loader_group.hpp"
#include "h5feed/error.hpp"
#include "support/captured_log.hpp"
#include "support/files/image_bytes.hpp"
#include "support/files/image_file.hpp"
#include "support/loaders/loaded_rows.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

const ImageOptions kSmall = {.height = 16, .width = 16};

class LargeImages : public Images {
 protected:
  // An image of one color: its file is small, so that only decoding it takes memory.
  static Bytes plain(int height, int width, int color, const std::string& extension) {
    return encoded(cv::Mat(height, width, CV_8UC3, cv::Scalar(color, 2 * color, 9 * color)), extension);
  }
  // Photographs of 2.9 MiB and one of 5.7 MiB, and small images between them.
  void write_photographs() {
    std::vector<Bytes> images;
    for (int i = 0; i < 24; ++i) {
      const int height = i % 3 == 0 ? 1000 : 20;
      const int width = i == 12 ? 2000 : height;
      images.push_back(plain(height, width, i, i % 2 == 0 ? ".jpg" : ".png"));
    }
    write(images);
  }
  // Returns a JPEG whose header claims the largest size.
  static Bytes claiming_the_largest_size(Bytes jpeg) {
    for (std::size_t at = 2; at + 9 < jpeg.size(); ++at) {
      if (jpeg[at] != std::byte{0xFF} || jpeg[at + 1] != std::byte{0xC0}) continue;
      for (std::size_t i = 5; i < 9; ++i) jpeg[at + i] = std::byte{0xFF};
      break;
    }
    return jpeg;
  }
};

TEST_F(LargeImages, wait_for_memory_of_the_budget) {
  const CapturedLog quiet;
  write_photographs();
  const LoadedRows expected = load_rows(open(kSmall), {.batch_size = 4, .num_workers = 0});
  for (const std::int64_t workers : {0, 1, 2, 4, 8}) {
    for (const bool shuffle : {false, true}) {
      // Room for the largest photograph alone, or for two of the others.
      const LoadedRows rows = load_rows(open(kSmall), {.batch_size = 4,
                                                       .shuffle = shuffle,
                                                       .seed = 1,
                                                       .num_workers = workers,
                                                       .cache_bytes = 0,
                                                       .memory_budget_bytes = 8 * kMiB});
      EXPECT_EQ(rows.data, expected.data) << workers;
    }
  }
}

TEST_F(LargeImages, leave_the_default_cache_half_of_a_small_budget) {
  const CapturedLog quiet;
  write_photographs();
  const DataLoader loader(open(kSmall),
                          {.batch_size = 4, .num_workers = 2, .memory_budget_bytes = 16 * kMiB});
  EXPECT_LE(loader.options().cache_bytes, 8 * kMiB);
  EXPECT_GE(loader.options().cache_bytes, 6 * kMiB);
}

TEST_F(LargeImages, that_the_budget_cannot_hold_are_named) {
  const CapturedLog quiet;
  write({encoded(picture(20, 20, 3, 1), ".png"), plain(1000, 1000, 2, ".png")});
  const DataLoaderOptions options{.batch_size = 1, .cache_bytes = 0, .memory_budget_bytes = 2 * kMiB};
  const std::string refused = refusal_in<ChunkError>(dir_.path(), [&] { load_rows(open(kSmall), options); });
  EXPECT_THAT(refused,
              HasSubstr("x.h5:/encoded: sample 1 does not decode: its 1000×1000 pixels take 2.9 MiB, and "
                        "memory_budget_bytes 2 MiB leaves "));
  EXPECT_THAT(refused, HasSubstr("use at least "));
  EXPECT_THAT(refused, HasSubstr("or a smaller cache_bytes, or store smaller images"));
}

TEST_F(LargeImages, of_other_formats_are_named_too) {
  const CapturedLog quiet;
  for (const char* const extension : {".tiff", ".jp2", ".webp"}) {
    write({encoded(picture(20, 20, 3, 1), ".png"), plain(1000, 1000, 2, extension)});
    const DataLoaderOptions options{.batch_size = 1, .cache_bytes = 0, .memory_budget_bytes = 2 * kMiB};
    EXPECT_THAT(refusal_in<ChunkError>(dir_.path(), [&] { load_rows(open(kSmall), options); }),
                HasSubstr("sample 1 does not decode: its 1000×1000 pixels take "))
        << extension;
  }
}

TEST_F(LargeImages, fit_from_the_budget_that_the_refusal_names) {
  const CapturedLog quiet;
  write({encoded(picture(20, 20, 3, 1), ".png"), plain(1000, 1000, 2, ".png")});
  DataLoaderOptions options{.batch_size = 1, .cache_bytes = 0, .memory_budget_bytes = 2 * kMiB};
  const std::string refused = refusal_in<ChunkError>(dir_.path(), [&] { load_rows(open(kSmall), options); });
  const std::string before = "use at least ";
  const std::size_t begin = refused.find(before) + before.size();
  const std::optional<std::uint64_t> enough =
      parse_bytes(refused.substr(begin, refused.find(',', begin) - begin));
  ASSERT_TRUE(enough) << refused;
  options.memory_budget_bytes = *enough;
  EXPECT_EQ(load_rows(open(kSmall), options).data.size(), 2U);
}

TEST_F(LargeImages, that_only_claim_a_size_are_refused_before_memory_is_taken) {
  const CapturedLog quiet;
  const Bytes good = encoded(picture(20, 20, 3, 1), ".jpg");
  write({good, claiming_the_largest_size(good), good});
  const DataLoaderOptions budget{.batch_size = 3, .memory_budget_bytes = 64 * kMiB};
  EXPECT_THAT(refusal_in<ChunkError>(dir_.path(), [&] { load_rows(open(kSmall), budget); }),
              HasSubstr("sample 1 does not decode: its 65535×65535 pixels take 12"));
  for (const std::int64_t workers : {0, 3}) {
    DataLoaderOptions skipping = budget;
    skipping.num_workers = workers;
    skipping.on_error = OnError::skip;
    skipping.max_bad_share = 1;
    EXPECT_EQ(load_rows(open(kSmall), skipping).data.size(), 2U);
  }
  // Without a budget, OpenCV refuses it.
  write({claiming_the_largest_size(good)});
  EXPECT_THAT(refusal({}, false), HasSubstr("sample 0 does not decode"));
}

// Loads with a budget that has nothing to lend, and returns the number of samples.
std::int64_t samples_without_loans(const Dataset& dataset) {
  const std::shared_ptr<LoaderGroup> group = LoaderGroup::of(*DatasetAccess::state(dataset));
  DataLoader loader(dataset, {.batch_size = 1, .memory_budget_bytes = 8 * kMiB});
  group->spare().resize({.budget = 8 * kMiB, .spare = 0});
  std::int64_t samples = 0;
  while (const auto batch = loader.next()) samples += batch->size();
  return samples;
}

TEST_F(LargeImages, of_the_size_of_the_samples_borrow_nothing) {
  const CapturedLog quiet;
  write({encoded(picture(200, 200, 3, 1), ".jpg"), encoded(picture(200, 200, 3, 2), ".png")});
  EXPECT_EQ(samples_without_loans(open()), 2);
  EXPECT_THROW(samples_without_loans(open(kSmall)), ChunkError) << "larger than the samples";
}

}  // namespace
}  // namespace h5feed::test
