// SPDX-License-Identifier: Apache-2.0
// Encoded images that do not decode.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "support/files/image_file.hpp"
#include "support/loaders/planted_faults.hpp"

namespace h5feed::test {
namespace {

using testing::UnorderedElementsAre;

TEST_F(Images, that_do_not_decode_are_left_out_or_replaced_one_by_one) {
  const CapturedLog log;
  std::vector<Bytes> values;
  std::vector<Bytes> pixels;
  for (unsigned i = 0; i < 60; ++i) {
    values.push_back(encoded(picture(9, 7, 3, i), i % 2 == 0 ? ".png" : ".jpg"));
    pixels.push_back(planes(decoded(values.back())));
  }
  const std::set<std::int64_t> bad = {6, 21, 40};
  for (const std::int64_t sample : bad) {
    Bytes& value = values[static_cast<std::size_t>(sample)];
    std::fill(value.begin(), value.begin() + 10, std::byte{0x55});
  }
  write(values);
  DataLoaderOptions options{.batch_size = 8, .shuffle = true, .seed = 4};
  options.bad_list = dir_ / "bad.tsv";
  expect_good_samples(
      open(), options, [&](std::int64_t sample) { return bad.contains(sample); },
      [&](const Batch& batch) {
        for (std::size_t i = 0; i < batch.indices.size(); ++i) {
          const Bytes& image = pixels[static_cast<std::size_t>(batch.indices[i])];
          EXPECT_EQ(std::memcmp(batch.data.bytes.get() + i * image.size(), image.data(), image.size()), 0);
        }
      });
  EXPECT_THAT(listed_chunks(dir_ / "bad.tsv"), UnorderedElementsAre("6", "21", "40"));
}

}  // namespace
}  // namespace h5feed::test
