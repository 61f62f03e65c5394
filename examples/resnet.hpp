// SPDX-License-Identifier: Apache-2.0
// ResNet-18 and ResNet-50 for LibTorch: He, Zhang, Ren, Sun, "Deep residual learning for image recognition",
// CVPR 2016 (arXiv 1512.03385), table 1. Stride 2 of a bottleneck is on its 3x3 convolution. Layers, names
// and initial weights are torchvision's, so that its saved weights can be loaded by name.
#pragma once

#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace example {

/// One convolution without bias, padded so that only `stride` changes height and width.
struct ResNetConvolution {
  std::int64_t in_channels;
  std::int64_t out_channels;
  std::int64_t kernel;
  std::int64_t stride;

  torch::nn::Conv2d make() const {
    return torch::nn::Conv2d(torch::nn::Conv2dOptions(in_channels, out_channels, kernel)
                                 .stride(stride)
                                 .padding(kernel / 2)
                                 .bias(false));
  }
};

/// Computes relu(path(x) + shortcut(x)), (B,C,H,W) to (B,C',H/stride,W/stride): `path` is convolutions, each
/// with batch normalization; the shortcut is a projection if the path changes the shape.
class ResidualBlockImpl : public torch::nn::Module {
 public:
  explicit ResidualBlockImpl(const std::vector<ResNetConvolution>& path) {
    std::int64_t stride = 1;
    for (std::size_t i = 0; i < path.size(); ++i) {
      const std::string number = std::to_string(i + 1);
      convolutions_.push_back(register_module("conv" + number, path[i].make()));
      norms_.push_back(register_module("bn" + number, torch::nn::BatchNorm2d(path[i].out_channels)));
      stride *= path[i].stride;
    }
    const std::int64_t in_channels = path.front().in_channels;
    const std::int64_t out_channels = path.back().out_channels;
    if (stride != 1 || in_channels != out_channels) {
      const ResNetConvolution projection{in_channels, out_channels, 1, stride};
      shortcut_ = register_module(
          "downsample", torch::nn::Sequential(projection.make(), torch::nn::BatchNorm2d(out_channels)));
    }
  }

  torch::Tensor forward(const torch::Tensor& input) {
    torch::Tensor x = input;
    for (std::size_t i = 0; i < convolutions_.size(); ++i) {
      x = norms_[i]->forward(convolutions_[i]->forward(x));
      if (i + 1 < convolutions_.size()) x = x.relu_();
    }
    return x.add_(shortcut_.is_empty() ? input : shortcut_->forward(input)).relu_();
  }

 private:
  std::vector<torch::nn::Conv2d> convolutions_;
  std::vector<torch::nn::BatchNorm2d> norms_;
  torch::nn::Sequential shortcut_ = nullptr;
};
TORCH_MODULE(ResidualBlock);

/// Parameters by which the networks of the paper's table 1 differ.
struct ResNetShape {
  std::array<std::int64_t, 4> depths;  ///< blocks in each of the four stages
  bool bottleneck;                     ///< 1x1, 3x3, 1x1 with four times as many channels; else 3x3, 3x3
};

/// Network from (B,3,H,W) in a floating type to logits (B,classes); designed for 224 x 224, works for any H
/// and W from 32.
class ResNetImpl : public torch::nn::Module {
 public:
  ResNetImpl(const ResNetShape& shape, std::int64_t classes)
      : stem_(register_module(
            "conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 64, 7).stride(2).padding(3).bias(false)))),
        stem_norm_(register_module("bn1", torch::nn::BatchNorm2d(64))) {
    std::int64_t channels = 64;
    std::int64_t width = 64;
    for (std::size_t i = 0; i < shape.depths.size(); ++i) {
      torch::nn::Sequential stage;
      for (std::int64_t block = 0; block < shape.depths[i]; ++block) {
        const std::int64_t stride = i > 0 && block == 0 ? 2 : 1;
        const auto path = make_path(channels, width, stride, shape.bottleneck);
        stage->push_back(ResidualBlock(path));
        channels = path.back().out_channels;
      }
      stages_.push_back(register_module("layer" + std::to_string(i + 1), stage));
      width *= 2;
    }
    classifier_ = register_module("fc", torch::nn::Linear(channels, classes));
    for (const auto& module : modules(false)) {
      if (const auto* convolution = module->as<torch::nn::Conv2d>()) {
        torch::nn::init::kaiming_normal_(convolution->weight, 0, torch::kFanOut, torch::kReLU);
      }
    }
  }

  torch::Tensor forward(torch::Tensor x) {
    x = stem_norm_->forward(stem_->forward(x)).relu_();
    x = torch::max_pool2d(x, 3, 2, 1);
    for (torch::nn::Sequential& stage : stages_) x = stage->forward(x);
    return classifier_->forward(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

 private:
  static std::vector<ResNetConvolution> make_path(std::int64_t channels, std::int64_t width,
                                                  std::int64_t stride, bool bottleneck) {
    if (!bottleneck) return {{channels, width, 3, stride}, {width, width, 3, 1}};
    return {{channels, width, 1, 1}, {width, width, 3, stride}, {width, 4 * width, 1, 1}};
  }

  torch::nn::Conv2d stem_;
  torch::nn::BatchNorm2d stem_norm_;
  std::vector<torch::nn::Sequential> stages_;
  torch::nn::Linear classifier_ = nullptr;
};
TORCH_MODULE(ResNet);

/// Returns a ResNet-18: 11,689,512 parameters with 1000 classes.
inline ResNet resnet18(std::int64_t classes = 1000) {
  return ResNet(ResNetShape{{2, 2, 2, 2}, false}, classes);
}

/// Returns a ResNet-50: 25,557,032 parameters with 1000 classes.
inline ResNet resnet50(std::int64_t classes = 1000) {
  return ResNet(ResNetShape{{3, 4, 6, 3}, true}, classes);
}

}  // namespace example
