// The small convolutional network that the examples train.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <cstdint>

namespace example {

/// Two convolutions with pooling and two linear layers. Maps images (B,C,H,W) in a floating type, H and W at
/// least 4, to logits (B,classes). Has 206,922 parameters for 28 × 28 grey images in 10 classes.
class SmallCnnImpl : public torch::nn::Module {
 public:
  SmallCnnImpl(std::int64_t channels, std::int64_t height, std::int64_t width, std::int64_t classes)
      : first_(register_module("conv1",
                               torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, 16, 3).padding(1)))),
        second_(register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 3).padding(1)))),
        hidden_(register_module("fc1", torch::nn::Linear(32 * (height / 4) * (width / 4), 128))),
        classifier_(register_module("fc2", torch::nn::Linear(128, classes))) {}

  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(first_->forward(x).relu_(), 2);
    x = torch::max_pool2d(second_->forward(x).relu_(), 2);
    return classifier_->forward(hidden_->forward(x.flatten(1)).relu_());
  }

 private:
  torch::nn::Conv2d first_;
  torch::nn::Conv2d second_;
  torch::nn::Linear hidden_;
  torch::nn::Linear classifier_;
};
TORCH_MODULE(SmallCnn);

}  // namespace example
