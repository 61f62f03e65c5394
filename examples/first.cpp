// SPDX-License-Identifier: Apache-2.0
// Trains a linear classifier: h5feed generate demo.h5 --samples 2000 --shape 3,64,64 && first demo.h5
#include <torch/torch.h>
#include <h5feed/torch.hpp>
#include <iostream>
int main(int argc, char** argv) try {
  auto data = h5feed::Dataset::open({.files = {argv + 1, argv + argc}, .target = "labels"});
  auto loader =
      h5feed::make_data_loader(data, {.batch_size = 64, .shuffle = true, .num_workers = h5feed::kAuto});
  torch::nn::Linear net(c10::multiply_integers(data.sample_shape()), 10);
  torch::optim::SGD optimizer(net->parameters(), 0.003);
  for (int epoch = 1; epoch <= 3; ++epoch) {
    double sum = 0;
    for (auto& [images, labels] : *loader) {
      const auto loss = torch::nn::functional::cross_entropy(net(images.flatten(1) / 255.0), labels);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      sum += loss.item<double>();
    }
    std::cout << "epoch " << epoch << ": mean loss " << sum / static_cast<double>(loader->size()) << "\n";
  }
} catch (const h5feed::Error& error) {
  std::cerr << "first: " << error.what() << "\n";
  return 1;
}
