// SPDX-License-Identifier: Apache-2.0
// Types, shapes and memory formats of the tensors that reach LibTorch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "h5feed/torch.hpp"
#include "support/loaders/torch_file.hpp"

namespace h5feed::test {
namespace {

using testing::HasSubstr;

TEST_F(TorchLoader, delivers_channels_last_images_as_channels_first) {
  const Dataset data = open<std::uint8_t, std::uint8_t>({6, 5, 7, 3}, {}, {});
  auto loader = make_data_loader(data, {.batch_size = 6});
  const auto batch = *loader->begin();
  const auto stored = torch::arange(6 * 5 * 7 * 3).to(torch::kUInt8).reshape({6, 5, 7, 3});
  EXPECT_TRUE(torch::equal(batch.data, stored.permute({0, 3, 1, 2})));
}

TEST_F(TorchLoader, normalizes_to_float32_in_the_stated_formula) {
  DataLoaderOptions options{.batch_size = 20};
  options.normalize = {.scale = {}, .mean = {0.25}, .std = {0.5}};
  auto loader = make_data_loader(open_images(), options);
  const auto batch = *loader->begin();
  EXPECT_EQ(batch.data.scalar_type(), torch::kFloat32);
  const auto stored = torch::arange(400).to(torch::kUInt8).reshape({20, 1, 4, 5}).to(torch::kFloat64);
  EXPECT_TRUE(torch::equal(batch.data, ((stored / 255 - 0.25) / 0.5).to(torch::kFloat32)));
}

TEST_F(TorchLoader, leaves_the_target_undefined_where_there_is_none) {
  auto loader = make_data_loader(open<std::uint8_t, std::uint8_t>({6, 4, 5}, {}, {}), {.batch_size = 6});
  EXPECT_FALSE(loader->begin()->target.defined());
}

TEST_F(TorchLoader, cross_entropy_takes_integer_labels_with_a_dimension_of_one) {
  const Dataset data = open<float, std::int32_t>({6, 10}, {6, 1}, {0, 9, 3, 1, 4, 2}, InputLayout::none);
  auto loader = make_data_loader(data, {.batch_size = 6});
  const auto batch = *loader->begin();
  const auto loss = torch::nn::functional::cross_entropy(batch.data.log_softmax(1), batch.target);
  EXPECT_TRUE(torch::isfinite(loss).item<bool>());
  EXPECT_EQ(batch.target.sizes(), (torch::IntArrayRef{6}));
}

TEST_F(TorchLoader, mse_loss_takes_float_targets_of_several_values) {
  const Dataset data = open<float, float>({6, 3}, {6, 3}, counting<float>(18), InputLayout::none);
  auto loader = make_data_loader(data, {.batch_size = 6});
  const auto batch = *loader->begin();
  EXPECT_EQ(batch.target.scalar_type(), torch::kFloat32);
  EXPECT_EQ(torch::mse_loss(batch.data, batch.target).item<float>(), 0.0F);
}

TEST_F(TorchLoader, float64_targets_keep_their_type) {
  const Dataset data = open<float, double>({6, 3}, {6}, {0, 1, 0, 1, 0.5, 1}, InputLayout::none);
  auto loader = make_data_loader(data, {.batch_size = 6});
  EXPECT_EQ(loader->begin()->target.scalar_type(), torch::kFloat64);
}

TEST_F(TorchLoader, binary_cross_entropy_takes_float_targets_with_a_dimension_of_one) {
  const Dataset data = open<float, float>({6, 3}, {6, 1}, {0, 1, 0, 1, 1, 0}, InputLayout::none);
  auto loader = make_data_loader(data, {.batch_size = 6});
  const auto batch = *loader->begin();
  const auto logits = batch.data.sum(1);
  const auto loss = torch::binary_cross_entropy_with_logits(logits, batch.target);
  EXPECT_TRUE(torch::isfinite(loss).item<bool>());
}

TEST_F(TorchLoader, refuses_types_that_libtorch_does_not_have) {
  const Dataset unsigned_data =
      open<std::uint16_t, std::uint8_t>({6, 3}, {6}, counting<std::uint8_t>(6), InputLayout::none);
  try {
    make_data_loader(unsigned_data, {});
    FAIL() << "u16 was accepted";
  } catch (const DatasetError& error) {
    EXPECT_STREQ(
        error.what(),
        "the data is u16, a type LibTorch does not have; set options.normalize = {.scale = 1.0} to get its "
        "values as float32");
  }
  DataLoaderOptions as_float;
  as_float.normalize = {.scale = 1.0, .mean = {}, .std = {}};
  EXPECT_EQ(make_data_loader(unsigned_data, as_float)->begin()->data.scalar_type(), torch::kFloat32);

  try {
    make_data_loader(open_images(), {.target_dtype = DType::u32});
    FAIL() << "target_dtype u32 was accepted";
  } catch (const OptionError& error) {
    EXPECT_THAT(error.what(), HasSubstr("target_dtype u32"));
  }
}

TEST_F(TorchLoader, gives_half_and_bfloat16_and_channels_last_tensors) {
  const Dataset dataset = open_images();
  DataLoaderOptions options{.batch_size = 4};
  options.normalize = Normalize{.mean = {0.5}, .std = {0.25}};
  auto plain = make_data_loader(dataset, options);
  const torch::Tensor expected = plain->begin()->data;
  options.output_layout = OutputLayout::channels_last;
  for (const auto& [dtype, torch_dtype] :
       {std::pair{DType::f16, torch::kFloat16}, std::pair{DType::bf16, torch::kBFloat16},
        std::pair{DType::f32, torch::kFloat32}}) {
    options.output_dtype = dtype;
    auto loader = make_data_loader(dataset, options);
    const torch::Tensor data = loader->begin()->data;
    EXPECT_EQ(data.scalar_type(), torch_dtype);
    EXPECT_EQ(data.sizes(), expected.sizes());
    EXPECT_TRUE(data.is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_TRUE(torch::allclose(data.to(torch::kFloat32), expected, 0.01, 0.01));
  }
}

TEST_F(TorchLoader, gives_stored_bfloat16_as_bfloat16) {
  const torch::Tensor values = torch::randn({6, 4}).to(torch::kBFloat16);
  const std::filesystem::path file = dir_ / "brain.h5";
  {
    H5Writer writer(file, true);
    writer.create_dataset({.path = "/data", .dtype = DType::bf16, .shape = {6, 4}});
    writer.create_dataset({.path = "/target", .dtype = DType::bf16, .shape = {6, 4}});
    const std::span bytes(static_cast<const std::byte*>(values.data_ptr()), 48);
    writer.write_rows("/data", 0, 6, bytes);
    writer.write_rows("/target", 0, 6, bytes);
    writer.commit();
  }
  const Dataset dataset = Dataset::open({.files = {file}, .data = "data", .target = "target"});
  auto loader = make_data_loader(dataset, DataLoaderOptions{.batch_size = 6});
  const auto batch = *loader->begin();
  EXPECT_TRUE(torch::equal(batch.data, values));
  EXPECT_TRUE(torch::equal(batch.target, values));
}

TEST_F(TorchLoader, delivers_named_fields_as_tensors_by_name) {
  const std::filesystem::path file = dir_ / "fields.h5";
  {
    H5Writer writer(file, true);
    for (std::uint64_t group = 0; group < 6; ++group) {
      const std::string prefix = "/sample_" + std::to_string(group);
      write(writer, prefix + "/image", {2, 3}, counting<float>(6));
      write(writer, prefix + "/points", {group + 1, 2}, counting<std::int32_t>((group + 1) * 2));
      write(writer, prefix + "/wide", {1}, counting<std::uint64_t>(1));
    }
    writer.commit();
  }
  DatasetOptions options{.files = {file},
                         .data = "sample_*/image",
                         .sample = SampleUnit::dataset,
                         .input_layout = InputLayout::none};
  options.fields = {
      {.name = "points", .data = "sample_*/points", .collate = Collate::ragged, .dtype = DType::f32},
      {.name = "padded", .data = "sample_*/points", .collate = Collate::pad}};
  const auto loader = make_data_loader(
      Dataset::open(options), DataLoaderOptions{.batch_size = 4, .num_workers = 2, .provenance = true});
  const TorchBatch batch = *loader->begin();
  const TorchField& points = batch.fields.at("points");
  EXPECT_EQ(points.values.sizes().vec(), (std::vector<std::int64_t>{10, 2}));
  EXPECT_EQ(points.values.scalar_type(), torch::kFloat32);
  EXPECT_TRUE(torch::equal(points.offsets, torch::tensor({0, 1, 3, 6, 10}, torch::kInt64)));
  EXPECT_FALSE(points.lengths.defined());
  const TorchField& padded = batch.fields.at("padded");
  EXPECT_EQ(padded.values.sizes().vec(), (std::vector<std::int64_t>{4, 4, 2}));
  EXPECT_TRUE(torch::equal(padded.lengths, torch::tensor({1, 2, 3, 4}, torch::kInt64)));
  EXPECT_EQ(padded.values[1].sum().item<std::int64_t>(), 0 + 1 + 2 + 3);
  EXPECT_TRUE(
      torch::equal(points.values.slice(0, 3, 6), padded.values[2].slice(0, 0, 3).to(torch::kFloat32)));
  ASSERT_EQ(batch.origins.size(), 4U);
  EXPECT_EQ(batch.origins[2].path, "/sample_2/image");

  options.fields = {{.name = "wide", .data = "sample_*/wide"}};
  const auto refused = make_data_loader(Dataset::open(options), DataLoaderOptions{});
  try {
    (void)*refused->begin();
    FAIL() << "u64 is delivered";
  } catch (const DatasetError& error) {
    EXPECT_THAT(error.what(), HasSubstr("field \"wide\" is u64, a type LibTorch does not have"));
  }
}

}  // namespace
}  // namespace h5feed::test
