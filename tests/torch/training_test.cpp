// SPDX-License-Identifier: Apache-2.0
// Trainings fed by h5feed's loader and by LibTorch's from the same file; and programs that end within an
// epoch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/data/dataloader.h>
#include <torch/data/samplers/sequential.h>
#include <torch/data/transforms/tensor.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "examples/small_cnn.hpp"
#include "h5feed/torch.hpp"
#include "support/loaders/torch_sets.hpp"

namespace h5feed::test {
namespace {

namespace transforms = torch::data::transforms;
using torch::data::samplers::SequentialSampler;
using TorchOptions = torch::data::DataLoaderOptions;

constexpr int kEpochs = 5;

// The loss of every step.
template <typename Loader>
std::vector<float> losses_of_training(Loader& loader) {
  torch::manual_seed(1);
  example::SmallCnn net(1, 28, 28, 10);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.5));
  std::vector<float> losses;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    for (auto& batch : loader) {
      optimizer.zero_grad();
      const torch::Tensor loss = torch::nn::functional::cross_entropy(net->forward(batch.data), batch.target);
      loss.backward();
      optimizer.step();
      losses.push_back(loss.template item<float>());
    }
  }
  return losses;
}

class Training : public ::testing::Test {
 protected:
  TorchDataset scaled() const {
    return TorchDataset(test::open(set_),
                        {.normalize = Normalize{.scale = 1.0 / 255, .mean = {}, .std = {}}});
  }
  static auto normalize() { return transforms::Normalize<>(0.2860, 0.3530); }
  static TorchOptions options() { return TorchOptions(32).workers(2); }

  const test::SampleSet set_{{.shape = {160, 28, 28}, .chunk_shape = {16, 28, 28}, .gzip = 1}};
};

// What LibTorch's MNIST does with its bytes.
TEST_F(Training, scaled_bytes_have_the_bits_of_a_division_by_255) {
  for (std::int64_t sample = 0; sample < 160; ++sample) {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(set_.sample(sample));
    const torch::Tensor stored =
        torch::tensor(torch::ArrayRef<std::uint8_t>(bytes, set_.sample_bytes())).reshape({1, 28, 28});
    ASSERT_TRUE(torch::equal(scaled().get(static_cast<std::size_t>(sample)).data,
                             stored.to(torch::kFloat32).div_(255)));
  }
}

// A transform before it keeps Normalize from becoming part of the gathering: it is LibTorch's own arithmetic.
TEST_F(Training, has_the_same_loss_at_every_step_where_libtorchs_normalize_runs) {
  const auto identity = transforms::TensorLambda<>([](torch::Tensor image) { return image; });
  const auto ours = h5feed::make_data_loader<SequentialSampler>(
      scaled().map(identity).map(normalize()).map(transforms::Stack<>()), options());
  const auto theirs = torch::data::make_data_loader<SequentialSampler>(
      scaled().map(normalize()).map(transforms::Stack<>()), options());
  const std::vector<float> expected = losses_of_training(*theirs);
  ASSERT_EQ(expected.size(), 5U * kEpochs);
  EXPECT_LT(expected.back(), expected.front());
  EXPECT_EQ(losses_of_training(*ours), expected);
}

// A correctly rounded Normalize differs in the last bits, which every step of a training amplifies.
TEST_F(Training, begins_with_the_same_losses_where_normalize_is_part_of_the_gathering) {
  const auto chain = scaled().map(normalize()).map(transforms::Stack<>());
  const auto ours = h5feed::make_data_loader<SequentialSampler>(chain, options());
  const auto theirs = torch::data::make_data_loader<SequentialSampler>(chain, options());
  const std::vector<float> expected = losses_of_training(*theirs);
  const std::vector<float> losses = losses_of_training(*ours);
  ASSERT_EQ(losses.size(), expected.size());
  for (std::size_t step = 0; step < 5; ++step) EXPECT_NEAR(losses[step], expected[step], 1e-4);
}

// Destroyed at the end of the program, with workers that still prepare batches: AddressSanitizer and valgrind
// look at what that leaves.
TEST_F(Training, a_program_may_end_within_an_epoch) {
  static const test::SampleSet set({.shape = {160, 28, 28}, .chunk_shape = {16, 28, 28}, .gzip = 1});
  const auto identity = transforms::TensorLambda<>([](torch::Tensor image) { return image.clone(); });
  static const auto loader = h5feed::make_data_loader(
      TorchDataset(test::open(set)).map(identity).map(transforms::Stack<>()), TorchOptions(8).workers(2));
  static TorchDataLoader::Iterator place = loader->begin();
  static torch::Tensor kept = place->data;
  ++place;
  EXPECT_EQ(kept.size(0), 8);
  EXPECT_TRUE(place != loader->end());
}

}  // namespace
}  // namespace h5feed::test
