// SPDX-License-Identifier: Apache-2.0
// Trains a linear classifier on the images and labels of an HDF5 file.
//   h5feed generate demo.h5 --samples 2000 --shape 3,64,64 && first demo.h5
#include <torch/torch.h>
#include <h5feed/torch.hpp>

#include <iostream>

int main(int argc, char** argv) try {
  const auto data = h5feed::Dataset::open({.files = {argc > 1 ? argv[1] : "demo.h5"}, .target = "labels"});
  h5feed::DataLoaderOptions options{.batch_size = 64, .shuffle = true, .seed = 1, .num_workers = 2};
  options.normalize.emplace();  // float32; uint8 becomes 0 … 1
  const auto loader = h5feed::make_data_loader(data, options);

  const auto& shape = data.sample_shape();  // channels, height, width
  torch::nn::Sequential net(torch::nn::Flatten(), torch::nn::Linear(shape[0] * shape[1] * shape[2], 10));
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  for (int epoch = 1; epoch <= 3; ++epoch) {
    double sum = 0;
    for (auto& [images, labels] : *loader) {
      const auto loss = torch::nn::functional::cross_entropy(net->forward(images), labels);
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
