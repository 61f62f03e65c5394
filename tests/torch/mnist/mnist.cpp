// SPDX-License-Identifier: Apache-2.0
// Trains a small CNN on MNIST-like data with LibTorch alone: the program whose dataset and loader lines
// mnist_with_h5feed.patch changes.
//
//   mnist FOLDER STEPS [SEED]     FOLDER: the four idx files of MNIST, unpacked
#include <torch/data/dataloader.h>
#include <torch/data/datasets/map.h>
#include <torch/data/datasets/mnist.h>
#include <torch/data/samplers/random.h>
#include <torch/data/samplers/sequential.h>
#include <torch/data/transforms/stack.h>
#include <torch/data/transforms/tensor.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "examples/small_cnn.hpp"

namespace {

constexpr std::size_t kTrainBatch = 64;
constexpr std::size_t kTestBatch = 500;

template <typename Loader>
void train(example::SmallCnn& net, torch::optim::Optimizer& optimizer, Loader& loader, int steps) {
  net->train();
  for (int step = 0; step < steps;) {
    for (auto& batch : loader) {
      optimizer.zero_grad();
      auto loss = torch::nn::functional::cross_entropy(net->forward(batch.data), batch.target);
      loss.backward();
      optimizer.step();
      if (++step % 10 == 0) std::printf("step %d loss %.4f\n", step, loss.template item<double>());
      if (step == steps) break;
    }
  }
}

template <typename Loader>
void test(example::SmallCnn& net, Loader& loader) {
  torch::NoGradGuard no_grad;
  net->eval();
  std::int64_t correct = 0;
  std::int64_t samples = 0;
  for (auto& batch : loader) {
    correct += net->forward(batch.data).argmax(1).eq(batch.target).sum().template item<std::int64_t>();
    samples += batch.target.size(0);
  }
  std::printf("accuracy %.2f %%\n", 100.0 * static_cast<double>(correct) / static_cast<double>(samples));
}

// Tells initial weights apart.
double sum_of_weights(const example::SmallCnn& net) {
  double sum = 0;
  for (const torch::Tensor& parameter : net->parameters()) {
    sum += parameter.detach().to(torch::kFloat64).abs().sum().item<double>();
  }
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string path = argv[1];
  torch::manual_seed(argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1);
  example::SmallCnn net(1, 28, 28, 10);
  std::printf("initial weights %.6f\n", sum_of_weights(net));
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.5));

  auto train_set = torch::data::datasets::MNIST(path)
                       .map(torch::data::transforms::Normalize<>(0.2860, 0.3530))
                       .map(torch::data::transforms::Stack<>());
  auto train_loader = torch::data::make_data_loader(std::move(train_set),
                                                    torch::data::DataLoaderOptions(kTrainBatch).workers(2));

  auto test_set = torch::data::datasets::MNIST(path, torch::data::datasets::MNIST::Mode::kTest)
                      .map(torch::data::transforms::Normalize<>(0.2860, 0.3530))
                      .map(torch::data::transforms::Stack<>());
  auto test_loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      std::move(test_set), kTestBatch);

  train(net, optimizer, *train_loader, std::atoi(argv[2]));
  test(net, *test_loader);
  return 0;
}
