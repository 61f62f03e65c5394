// SPDX-License-Identifier: Apache-2.0
// Named fields in addition to data and target: each with its own type, transform and collate.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "h5feed/sample_reader.hpp"
#include "support/files/field_file.hpp"

namespace h5feed::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// What belongs to a sample, from the file by libhdf5.
struct Expected {
  std::vector<std::vector<float>> boxes;
  std::vector<float> pose;
  std::vector<std::uint16_t> depth;
};

void expect_batch(const Batch& batch, const Expected& expected, bool batched) {
  ASSERT_EQ(batch.fields.size(), 4u);
  const auto samples = batch.indices.size();
  const BatchField& pose = batch.field("pose");
  const BatchField& depth = batch.field("depth");
  const BatchField& ragged = batch.field("boxes");
  const BatchField& padded = batch.field("padded");
  const auto offsets = ragged.offsets.as<std::int64_t>();
  const auto lengths = padded.lengths.as<std::int64_t>();
  ASSERT_EQ(offsets.size(), samples + 1);
  ASSERT_EQ(lengths.size(), samples);
  EXPECT_EQ(offsets.front(), 0);
  EXPECT_EQ(offsets.back(), ragged.values.shape.front());
  const auto longest = static_cast<std::size_t>(padded.values.shape[batched ? 1 : 0]);
  for (std::size_t i = 0; i < samples; ++i) {
    const auto sample = static_cast<std::size_t>(batch.indices[i]);
    for (std::size_t k = 0; k < 3; ++k)
      EXPECT_EQ(pose.values.as<double>()[i * 3 + k], expected.pose[sample * 3 + k]);
    for (std::size_t k = 0; k < 6; ++k) {
      const float scaled = static_cast<float>((expected.depth[sample * 6 + k] * 0.5 - 4) / 2);
      EXPECT_EQ(depth.values.as<float>()[i * 6 + k], scaled);
    }
    const std::vector<float>& boxes = expected.boxes[sample];
    ASSERT_EQ(static_cast<std::size_t>(offsets[i + 1] - offsets[i]), boxes.size());
    ASSERT_EQ(static_cast<std::size_t>(lengths[i]), boxes.size());
    for (std::size_t k = 0; k < longest; ++k) {
      if (k < boxes.size()) {
        EXPECT_EQ(ragged.values.as<float>()[static_cast<std::size_t>(offsets[i]) + k], boxes[k]);
        EXPECT_EQ(padded.values.as<std::int32_t>()[i * longest + k], static_cast<std::int32_t>(boxes[k]));
      } else {
        EXPECT_EQ(padded.values.as<std::int32_t>()[i * longest + k], 0);
      }
    }
  }
}

TEST_F(Fields, equal_a_loop_of_libhdf5_in_any_order_with_any_number_of_workers) {
  Expected expected{.boxes = read_vlen<float>(path(), "boxes", H5T_NATIVE_FLOAT), .pose = {}, .depth = {}};
  const std::vector<std::byte> pose = test::read_through_libhdf5(path(), "pose");
  const std::vector<std::byte> depth = test::read_through_libhdf5(path(), "depth");
  expected.pose.resize(pose.size() / sizeof(float));
  std::memcpy(expected.pose.data(), pose.data(), pose.size());
  expected.depth.resize(depth.size() / 2);
  std::memcpy(expected.depth.data(), depth.data(), depth.size());
  const Dataset dataset = Dataset::open(
      with({{.name = "pose", .dtype = DType::f64},
            {.name = "depth", .normalize = Normalize{.scale = 0.5, .mean = {4}, .std = {2}}},
            {.name = "boxes", .collate = Collate::ragged},
            {.name = "padded", .data = "boxes", .collate = Collate::pad, .dtype = DType::i32}}));
  for (const char* const order : {"sequential", "full", "chunk:2"}) {
    for (const std::int64_t workers : {0, 1, 4}) {
      for (const std::optional<std::int64_t> batch_size : {std::optional<std::int64_t>(5), {}}) {
        SCOPED_TRACE(order + std::to_string(workers));
        DataLoader loader(
            dataset, {.batch_size = batch_size, .shuffle = order, .num_workers = workers, .cache_bytes = 0});
        std::int64_t seen = 0;
        for (const Batch& batch : loader) {
          ASSERT_NO_FATAL_FAILURE(expect_batch(batch, expected, batch_size.has_value()));
          seen += batch.size();
          EXPECT_EQ(batch.target.as<std::int64_t>()[0], batch.indices[0] + 100);
        }
        EXPECT_EQ(seen, kSamples);  // the last batch has 3
      }
    }
  }
  const std::vector<std::int64_t> wanted = {22, 3, 3, 0};
  expect_batch(SampleReader(dataset).read(wanted), expected, true);
}

TEST_F(Fields, have_the_shapes_that_their_collate_says) {
  const Dataset dataset =
      Dataset::open(with({{.name = "depth", .collate = Collate::ragged},
                          {.name = "again", .data = "depth", .collate = Collate::pad},
                          {.name = "camera", .input_layout = InputLayout::nhwc, .normalize = Normalize{}},
                          {.name = "stored", .data = "camera"},
                          {.name = "words"},
                          {.name = "boxes", .collate = Collate::pad}}));
  DataLoader loader(dataset, {.batch_size = 3, .num_workers = 2});
  const auto batch = loader.next();
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(batch->field("depth").values.shape, (Shape{6, 3}));
  EXPECT_THAT(batch->field("depth").offsets.as<std::int64_t>(), ElementsAre(0, 2, 4, 6));
  EXPECT_EQ(batch->field("again").values.shape, (Shape{3, 2, 3}));
  EXPECT_THAT(batch->field("again").lengths.as<std::int64_t>(), ElementsAre(2, 2, 2));
  EXPECT_EQ(batch->field("camera").values.shape, (Shape{3, 3, 2, 2}));
  EXPECT_EQ(batch->field("camera").values.dtype, DType::f32);
  EXPECT_EQ(batch->field("camera").values.as<float>()[1],
            static_cast<float>(batch->field("stored").values.as<std::uint8_t>()[3] / 255.0));
  EXPECT_EQ(batch->field("stored").values.shape, (Shape{3, 2, 2, 3}));
  EXPECT_EQ(batch->field("words").values.shape, (Shape{3, 2}));
  EXPECT_THAT(batch->field("words").values.as<std::int16_t>(), ElementsAre(0, 1, 1, 2, 2, 3));
  EXPECT_FALSE(batch->field("words").offsets.defined());
  // Lengths 0, 2 and 4: filled up to the longest of this batch.
  EXPECT_EQ(batch->field("boxes").values.shape, (Shape{3, 4}));
  EXPECT_THROW(batch->field("nothing"), std::out_of_range);
}

TEST_F(Fields, come_in_files_of_their_own_and_from_lists) {
  const auto write_part = [&](const std::string& name, std::int64_t first, std::int64_t count) {
    const Hid file(H5Fcreate((dir_ / name).c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT));
    std::vector<std::vector<std::int64_t>> rows;
    for (std::int64_t sample = first; sample < first + count; ++sample)
      rows.push_back(counted<std::int64_t>(length_of(sample), sample));
    put_vlen(file.get(), "tokens", H5T_STD_I64LE, H5T_NATIVE_INT64, rows);
    put(file.get(), "weight", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, {static_cast<hsize_t>(count)},
        counted<double>(static_cast<std::size_t>(count), static_cast<double>(first)).data());
  };
  write_part("part_0.h5", 0, 10);
  write_part("part_1.h5", 10, 13);
  const std::vector<std::filesystem::path> files = {dir_ / "part_*.h5"};
  const Dataset dataset = Dataset::open(with({{.name = "tokens", .files = files, .collate = Collate::ragged},
                                              {.name = "weight", .files = files, .dtype = DType::f32}}));
  DataLoader loader(dataset, {.batch_size = 4, .shuffle = true, .num_workers = 2, .provenance = true});
  for (const Batch& batch : loader) {
    const auto offsets = batch.field("tokens").offsets.as<std::int64_t>();
    for (std::size_t i = 0; i < batch.indices.size(); ++i) {
      EXPECT_EQ(batch.field("weight").values.as<float>()[i], static_cast<float>(batch.indices[i]));
      ASSERT_EQ(static_cast<std::size_t>(offsets[i + 1] - offsets[i]), length_of(batch.indices[i]));
      if (offsets[i + 1] > offsets[i]) {
        EXPECT_EQ(batch.field("tokens").values.as<std::int64_t>()[static_cast<std::size_t>(offsets[i])],
                  batch.indices[i]);
      }
      EXPECT_EQ(batch.origins[i].path, "/images");
      EXPECT_EQ(batch.origins[i].row, batch.indices[i]);
    }
  }
}

TEST_F(Fields, of_groups_differ_in_length_from_group_to_group) {
  const std::filesystem::path groups = dir_ / "groups.h5";
  {
    const Hid file(H5Fcreate(groups.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT));
    for (int group = 0; group < 12; ++group) {
      const std::string prefix = "sample_" + std::to_string(group);
      put(file.get(), prefix + "/image", H5T_STD_U8LE, H5T_NATIVE_UINT8, {6, 4},
          counted<std::uint8_t>(24, static_cast<std::uint8_t>(group)).data());
      const auto length = static_cast<hsize_t>(group % 4);
      put(file.get(), prefix + "/points", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {length, 3},
          length == 0 ? nullptr : counted<float>(length * 3, static_cast<float>(group * 10)).data());
      put(file.get(), prefix + "/mass", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, {1},
          counted<double>(1, group + 0.5).data());
    }
  }
  const Dataset dataset =
      Dataset::open({.files = {groups},
                     .data = "sample_*/image",
                     .sample = SampleUnit::dataset,
                     .input_layout = InputLayout::none,
                     .fields = {{.name = "points", .data = "sample_*/points", .collate = Collate::ragged},
                                {.name = "padded", .data = "sample_*/points", .collate = Collate::pad},
                                {.name = "mass", .data = "sample_*/mass"}}});
  for (const std::int64_t workers : {0, 2}) {
    DataLoader loader(dataset,
                      {.batch_size = 5, .shuffle = true, .num_workers = workers, .provenance = true});
    for (const Batch& batch : loader) {
      const BatchField& points = batch.field("points");
      const auto offsets = points.offsets.as<std::int64_t>();
      EXPECT_EQ(points.values.shape, (std::vector<std::int64_t>{offsets.back(), 3}));
      const BatchField& padded = batch.field("padded");
      const auto longest = static_cast<std::size_t>(padded.values.shape[1]);
      for (std::size_t i = 0; i < batch.indices.size(); ++i) {
        const std::int64_t group = batch.indices[i];
        EXPECT_EQ(batch.origins[i].path, "/sample_" + std::to_string(group) + "/image");
        ASSERT_EQ(offsets[i + 1] - offsets[i], group % 4);
        for (std::size_t k = 0; k < static_cast<std::size_t>(group % 4) * 3; ++k) {
          const auto value = static_cast<float>(group * 10 + static_cast<std::int64_t>(k));
          EXPECT_EQ(points.values.as<float>()[static_cast<std::size_t>(offsets[i]) * 3 + k], value);
          EXPECT_EQ(padded.values.as<float>()[i * longest * 3 + k], value);
        }
        EXPECT_EQ(batch.field("mass").values.as<double>()[i], static_cast<double>(group) + 0.5);
      }
    }
  }
}

TEST_F(Fields, belong_to_all_tiles_of_an_image_or_are_cut_with_it) {
  DatasetOptions options = with(
      {{.name = "mask", .data = "images"}, {.name = "pose"}, {.name = "boxes", .collate = Collate::ragged}});
  options.tiles = TileOptions{.size = {2, 5}};
  const Dataset dataset = Dataset::open(options);
  EXPECT_EQ(dataset.size(), 2 * kSamples);
  DataLoader loader(dataset, {.batch_size = 7, .shuffle = true, .num_workers = 2, .provenance = true});
  for (const Batch& batch : loader) {
    const auto offsets = batch.field("boxes").offsets.as<std::int64_t>();
    for (std::size_t i = 0; i < batch.indices.size(); ++i) {
      const std::int64_t image = batch.origins[i].image;
      EXPECT_EQ(image, batch.indices[i] / 2);
      EXPECT_EQ(
          std::memcmp(batch.field("mask").values.bytes.get() + i * 10, batch.data.bytes.get() + i * 10, 10),
          0);
      EXPECT_EQ(batch.field("pose").values.as<float>()[i * 3], static_cast<float>(image * 3 - 10));
      EXPECT_EQ(static_cast<std::size_t>(offsets[i + 1] - offsets[i]), length_of(image));
    }
  }
}

TEST_F(Fields, travel_with_every_echo_in_memory_of_its_own) {
  const Dataset dataset =
      Dataset::open(with({{.name = "pose"}, {.name = "boxes", .collate = Collate::ragged}}));
  DataLoader loader(dataset, {.batch_size = 4, .echo = {.factor = 2}, .num_workers = 2});
  std::vector<float> first;
  for (Batch& batch : loader) {
    const auto pose = batch.field("pose").values.as<float>();
    const auto boxes = batch.field("boxes").values.as<float>();
    std::vector<float> values(pose.begin(), pose.end());
    values.insert(values.end(), boxes.begin(), boxes.end());
    if (batch.repeat == 0) {
      first = values;
    } else {
      EXPECT_EQ(values, first);
    }
    std::ranges::fill(pose, -1.0F);  // which no repeat may see
    std::ranges::fill(boxes, -1.0F);
  }
}

// As NumPy and PyTorch round, and as data and targets do.
TEST_F(Fields, too_large_for_their_float_type_are_infinite) {
  {
    const Hid file(H5Fopen(path().c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    put(file.get(), "large", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, {kSamples},
        std::vector<double>(kSamples, 1e300).data());
    put_vlen(file.get(), "larger", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE,
             std::vector<std::vector<double>>(kSamples, {-1e300, 2}));
  }
  DatasetOptions options = with({{.name = "large", .dtype = DType::f32},
                                 {.name = "half", .data = "large", .dtype = DType::f16},
                                 {.name = "larger", .collate = Collate::ragged, .dtype = DType::f32}});
  options.target = "large";
  DataLoader loader(Dataset::open(options), {.batch_size = 1, .target_dtype = DType::f32});
  const auto batch = loader.next();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(batch->field("large").values.as<float>()[0], kInfinity);
  EXPECT_EQ(std::to_integer<unsigned>(batch->field("half").values.bytes.get()[1]), 0x7CU);
  EXPECT_THAT(batch->field("larger").values.as<float>(), ElementsAre(-kInfinity, 2.0F));
  EXPECT_EQ(batch->target.as<float>()[0], kInfinity);
}

TEST_F(Fields, without_any_element_are_delivered_as_such) {
  {
    const Hid file(H5Fopen(path().c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    put(file.get(), "nothing", H5T_STD_I32LE, H5T_NATIVE_INT, {kSamples, 0}, nullptr);
    const Hid type(H5Tvlen_create(H5T_NATIVE_DOUBLE));
    put(file.get(), "unwritten", type.get(), type.get(), {kSamples}, nullptr);
  }
  const Dataset dataset =
      Dataset::open(with({{.name = "nothing"},
                          {.name = "none", .data = "nothing", .collate = Collate::ragged},
                          {.name = "unwritten", .collate = Collate::ragged},
                          {.name = "padded", .data = "unwritten", .collate = Collate::pad}}));
  for (const std::int64_t workers : {0, 2}) {
    DataLoader loader(dataset, {.batch_size = 4, .shuffle = true, .num_workers = workers, .preload = true});
    std::int64_t seen = 0;
    for (const Batch& batch : loader) {
      seen += batch.size();
      for (const BatchField& field : batch.fields) EXPECT_TRUE(field.values.defined()) << field.name;
      EXPECT_EQ(batch.field("nothing").values.dtype, DType::i32);
      EXPECT_EQ(batch.field("unwritten").values.dtype, DType::f64);
      EXPECT_EQ(batch.field("unwritten").values.shape, (std::vector<std::int64_t>{0}));
      EXPECT_EQ(batch.field("nothing").values.shape, (std::vector<std::int64_t>{batch.size(), 0}));
      EXPECT_EQ(batch.field("none").values.elements(), 0);
      EXPECT_EQ(batch.field("unwritten").values.elements(), 0);
      EXPECT_EQ(batch.field("padded").values.shape, (std::vector<std::int64_t>{batch.size(), 0}));
    }
    EXPECT_EQ(seen, kSamples);
  }
  EXPECT_EQ(SampleReader(dataset).read(std::vector<std::int64_t>{4, 4}).field("nothing").values.elements(),
            0);
}

}  // namespace
}  // namespace h5feed::test
