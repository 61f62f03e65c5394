// SPDX-License-Identifier: Apache-2.0
// Warnings about LibTorch's transforms that h5feed runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/data/dataloader_options.h>
#include <torch/data/samplers/sequential.h>
#include <torch/data/transforms/lambda.h>
#include <torch/data/transforms/stack.h>
#include <torch/data/transforms/tensor.h>

#include <utility>

#include "h5feed/torch.hpp"
#include "support/captured_log.hpp"
#include "support/files/sample_set.hpp"
#include "support/loaders/torch_sets.hpp"

namespace h5feed::test {
namespace {

namespace transforms = torch::data::transforms;
namespace samplers = torch::data::samplers;
using ::testing::AllOf;
using ::testing::HasSubstr;
using TorchOptions = torch::data::DataLoaderOptions;

// Transforms that cannot become part of the gathering: behind another transform, and where samples are not
// images.
TEST(TorchTransforms, warn_of_unscaled_integers_wherever_normalize_gets_them) {
  const test::SampleSet images({.shape = {20, 8, 6}});
  const auto dataset = [&] { return TorchDataset(test::open(images)); };
  const auto flip = transforms::TensorLambda<>([](torch::Tensor image) { return image.flip({2}); });
  const auto unit = transforms::TensorLambda<>([](torch::Tensor image) { return image / 255; });
  const transforms::Normalize<> normalize(0.1307, 0.3081);
  const auto run = [](auto chain) {
    const test::CapturedLog log;
    auto loader = h5feed::make_data_loader<samplers::SequentialSampler>(std::move(chain), TorchOptions(10));
    for (auto& batch : *loader) EXPECT_EQ(batch.data.scalar_type(), torch::kFloat32);
    return log.warnings();
  };
  const auto warned = ::testing::ElementsAre(
      AllOf(HasSubstr("Normalize: mean 0.1307 and std 0.3081 are for values in 0 … 1, but the data is u8 "),
            HasSubstr("open the dataset with .unit_range = true")));
  EXPECT_THAT(run(dataset().map(flip).map(normalize).map(transforms::Stack<>())), warned) << "once";
  const test::SampleSet vectors({.shape = {20, 6}});
  const auto features = [&] {
    return TorchDataset(
        Dataset::open({.files = {vectors.path()}, .data = "images", .input_layout = InputLayout::none}));
  };
  EXPECT_THAT(run(features().map(normalize).map(transforms::Stack<>())), warned);
  EXPECT_THAT(run(dataset().map(unit).map(normalize).map(transforms::Stack<>())), ::testing::IsEmpty());
  EXPECT_THAT(run(dataset().map(flip).map(transforms::Normalize<>(63.5, 36.7)).map(transforms::Stack<>())),
              ::testing::IsEmpty())
      << "made for the stored values";
}

}  // namespace
}  // namespace h5feed::test
