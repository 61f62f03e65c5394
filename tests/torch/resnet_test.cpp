// SPDX-License-Identifier: Apache-2.0
#include "examples/resnet.hpp"

#include <gtest/gtest.h>
#include <torch/utils.h>

#include <cstdint>
#include <vector>

namespace {

std::int64_t parameters_of(const example::ResNet& net) {
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : net->parameters()) count += parameter.numel();
  return count;
}

void expect_logits(example::ResNet net, std::int64_t classes, std::int64_t extent) {
  const torch::NoGradGuard no_grad;
  net->eval();
  const torch::Tensor logits = net->forward(torch::rand({2, 3, extent, extent}));
  EXPECT_EQ(logits.sizes().vec(), (std::vector<std::int64_t>{2, classes}));
  EXPECT_TRUE(logits.isfinite().all().item<bool>());
}

TEST(ResNet, has_the_parameters_of_the_published_networks) {
  EXPECT_EQ(parameters_of(example::resnet18()), 11'689'512);
  EXPECT_EQ(parameters_of(example::resnet50()), 25'557'032);
}

TEST(ResNet, names_its_layers_as_torchvision_does) {
  const auto names = example::resnet50()->named_parameters();
  EXPECT_TRUE(names.contains("layer1.0.conv3.weight"));
  EXPECT_TRUE(names.contains("layer1.0.downsample.0.weight"));
  EXPECT_TRUE(names.contains("layer4.2.bn3.bias"));
  EXPECT_FALSE(names.contains("layer1.1.downsample.0.weight"));
  EXPECT_TRUE(example::resnet18()->named_buffers().contains("layer2.0.downsample.1.running_mean"));
}

TEST(ResNet, gives_a_logit_for_each_class_and_image) {
  expect_logits(example::resnet18(10), 10, 224);
  expect_logits(example::resnet50(7), 7, 64);
}

TEST(ResNet, trains_every_parameter) {
  torch::manual_seed(1);
  example::ResNet net = example::resnet18(5);
  net->train();
  net->forward(torch::rand({2, 3, 64, 64})).pow(2).sum().backward();
  for (const auto& parameter : net->named_parameters()) {
    ASSERT_TRUE(parameter.value().grad().defined()) << parameter.key();
    EXPECT_TRUE(parameter.value().grad().abs().sum().item<float>() > 0) << parameter.key();
  }
}

}  // namespace
