// SPDX-License-Identifier: Apache-2.0
// Values in 0 … 1 by one word, and the warning where mean and std are meant for them and the data is not
// scaled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "h5feed/sample_reader.hpp"
#include "support/captured_log.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Dataset open_scaled(const SampleSet& set) {
  return Dataset::open({.files = {set.path()},
                        .data = "images",
                        .target = "labels",
                        .input_layout = InputLayout::nhw,
                        .unit_range = true});
}

Dataset open_as_stored(const SampleSet& set) {
  return Dataset::open({.files = {set.path()}, .data = "images", .input_layout = InputLayout::none});
}

template <typename T>
std::vector<double> stored_values(const SampleSet& set) {
  const auto* const values = reinterpret_cast<const T*>(set.sample(0));
  return {values, values + set.sample_bytes() / sizeof(T)};
}

std::vector<float> first_sample(const Dataset& dataset, DataLoaderOptions options = {}) {
  DataLoader loader(dataset, std::move(options));
  const Batch batch = loader.next().value();
  const auto values = batch.data.as<float>();
  return {values.begin(), values.end()};
}

template <typename T>
void expect_scaled(DType dtype, double largest) {
  const SampleSet set({.shape = {4, 8, 6}, .dtype = dtype});
  const std::vector<double> stored = stored_values<T>(set);
  const std::vector<float> plain = first_sample(open_scaled(set));
  const std::vector<float> normalized =
      first_sample(open_scaled(set), {.normalize = Normalize{.mean = {0.25}, .std = {0.5}}});
  const Dataset unscaled = open_as_stored(set);
  const SampleReader reader(unscaled, {.unit_range = true});
  const Batch read = reader.read(std::vector<std::int64_t>{0});
  ASSERT_EQ(plain.size(), stored.size());
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const double scaled = stored[i] * (1 / largest);
    EXPECT_EQ(plain[i], static_cast<float>(scaled));
    EXPECT_EQ(normalized[i], static_cast<float>((scaled - 0.25) / 0.5));
    EXPECT_EQ(read.data.as<float>()[i], plain[i]);
  }
}

TEST(UnitRange, divides_uint8_by_255_and_uint16_by_65535) {
  expect_scaled<std::uint8_t>(DType::u8, 255);
  expect_scaled<std::uint16_t>(DType::u16, 65535);
}

TEST(UnitRange, leaves_floats_as_they_are_and_refuses_other_integers) {
  const SampleSet floats({.shape = {4, 8, 6}, .dtype = DType::f32});
  const std::vector<double> stored = stored_values<float>(floats);
  EXPECT_EQ(first_sample(open_scaled(floats)), std::vector<float>(stored.begin(), stored.end()));
  const SampleSet shorts({.shape = {4, 8, 6}, .dtype = DType::i16});
  EXPECT_THAT(
      refusal_of<OptionError>([&] { open_scaled(shorts); }),
      HasSubstr("images: unit_range scales u8 and u16 to 0 … 1, and takes floats as they are; the data "
                "is i16. Leave it unset, and set normalize.scale"));
  EXPECT_THAT(refusal_of<OptionError>(
                  [&] { const SampleReader reader(open_as_stored(shorts), {.unit_range = true}); }),
              HasSubstr("the data is i16"));
}

TEST(UnitRange, takes_the_same_scale_beside_it_and_no_other) {
  const SampleSet set(gzip_set());
  DataLoader same(open_scaled(set), {.normalize = Normalize{.scale = 1.0 / 255}});
  EXPECT_THAT(refusal<OptionError>(open_scaled(set), {.normalize = Normalize{.scale = 2}}),
              HasSubstr("normalize.scale 2 contradicts unit_range, which scales u8 by 0.0039"));
}

TEST(UnitRange, is_missed_once_where_mean_and_std_expect_it) {
  const SampleSet set(gzip_set());
  const CapturedLog log;
  DataLoader loader(open(set), {.normalize = Normalize{.scale = 1.0, .mean = {0.1307}, .std = {0.3081}}});
  loader.next();
  ASSERT_THAT(log.lines(), SizeIs(1));
  EXPECT_THAT(log.lines()[0],
              HasSubstr("normalize: mean 0.1307 and std 0.3081 are for values in 0 … 1, but "));
  EXPECT_THAT(log.lines()[0],
              HasSubstr("/images is u8 and is not scaled; open the dataset with .unit_range = true (a "
                        "TorchDataset may set it too), or set normalize.scale = 1.0 / 255"));
}

TEST(UnitRange, is_missed_for_named_fields_and_other_integers_too) {
  const SampleSet set({.shape = {10, 8, 6}, .dtype = DType::i16});
  const CapturedLog log;
  const Normalize expecting{.scale = {}, .mean = {0.5}, .std = {0.25}};
  const Dataset dataset =
      Dataset::open({.files = {set.path()},
                     .data = "images",
                     .input_layout = InputLayout::nhw,
                     .fields = {{.name = "more", .data = "images", .normalize = expecting}}});
  DataLoader fields(dataset, {});
  ASSERT_THAT(log.lines(), SizeIs(1));
  EXPECT_THAT(log.lines()[0], HasSubstr("normalize of field \"more\": mean 0.5 and std 0.25"));
  EXPECT_THAT(log.lines()[0], HasSubstr("is i16 and is not scaled; set normalize.scale"));
}

TEST(UnitRange, is_not_missed_where_values_are_scaled_floats_or_left_alone) {
  const SampleSet set(gzip_set());
  const SampleSet floats({.shape = {4, 8, 6}, .dtype = DType::f32});
  const Dataset float_data = open_as_stored(floats);
  const Normalize mnist{.scale = {}, .mean = {0.1307}, .std = {0.3081}};
  const CapturedLog log;
  DataLoader by_default(open(set), {.normalize = mnist});
  DataLoader by_dataset(open_scaled(set), {.normalize = mnist});
  DataLoader in_range(float_data, {.normalize = mnist});
  DataLoader cast(open(set), {.normalize = Normalize{.scale = 1.0}});
  DataLoader of_bytes(open(set), {.normalize = Normalize{.scale = 1.0, .mean = {33.3}, .std = {78.6}}});
  EXPECT_THAT(log.lines(), IsEmpty());
}

}  // namespace
}  // namespace h5feed::test
