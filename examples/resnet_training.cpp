// SPDX-License-Identifier: Apache-2.0
// Trains a ResNet-18 or ResNet-50 on images of an HDF5 file, and reports at the end what the loader did. On a
// file of synthetic images:
//
//   h5feed generate images.h5 --samples 2000 --shape 3,224,224 --dtype u8 --chunk 32 --filter gzip:4
//
//   resnet_training images.h5 --target labels
#include <torch/nn/functional/loss.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>
#include <h5feed/torch.hpp>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "examples/program.hpp"
#include "examples/resnet.hpp"
#include "examples/training_device.hpp"

namespace {

struct Settings {
  std::string file;
  std::string data;
  std::string target = "labels";
  int depth = 18;
  std::int64_t classes = 10;
  std::int64_t epochs = 1;
  std::int64_t steps = 0;
  std::int64_t batch_size = 32;
  std::int64_t num_workers = 2;
  std::string shuffle = "chunk:16";
  std::uint64_t seed = 1;
  double learning_rate = 0.05;
  std::string device = "auto";
};

void run(const Settings& settings) {
  torch::manual_seed(settings.seed);
  const torch::Device device = example::choose_device(settings.device);
  const auto data =
      h5feed::Dataset::open({.files = {settings.file}, .data = settings.data, .target = settings.target});
  h5feed::DataLoaderOptions options{.batch_size = settings.batch_size,
                                    .drop_last = true,
                                    .shuffle = settings.shuffle,
                                    .num_workers = settings.num_workers};
  // Mean and standard deviation of ImageNet, with which the published networks normalize.
  options.normalize = {.scale = 1.0 / 255, .mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}};
  options.device = example::loader_device(device);
  const auto loader = h5feed::make_data_loader(data, options);
  if (loader->size() == 0) {
    throw h5feed::OptionError("--batch-size " + std::to_string(settings.batch_size) + " is more than the " +
                              std::to_string(data.size()) + " images");
  }
  example::ResNet net =
      settings.depth == 18 ? example::resnet18(settings.classes) : example::resnet50(settings.classes);
  net->to(device);
  net->train();
  torch::optim::SGD optimizer(net->parameters(),
                              torch::optim::SGDOptions(settings.learning_rate).momentum(0.9));

  std::int64_t steps = 0;
  for (std::int64_t epoch = 1; epoch <= settings.epochs; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    std::int64_t samples = 0;
    double loss_sum = 0;
    std::int64_t batches = 0;
    for (auto& batch : *loader) {
      const torch::Tensor images = batch.data.to(device);
      const torch::Tensor labels = batch.target.to(device);
      optimizer.zero_grad();
      const torch::Tensor loss = torch::nn::functional::cross_entropy(net->forward(images), labels);
      loss.backward();
      optimizer.step();
      loss_sum += loss.item<double>();
      samples += images.size(0);
      ++batches;
      if (++steps == settings.steps) break;
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("epoch %lld: loss %.4f, %.1f images/s\n", static_cast<long long>(epoch),
                loss_sum / static_cast<double>(batches), static_cast<double>(samples) / seconds);
    std::fflush(stdout);
    if (steps == settings.steps) break;
  }
  std::printf("%s\n", loader->report().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Trains a ResNet on images of an HDF5 file");
  const auto option = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->capture_default_str();
  };
  app.add_option("FILE", settings.file, "HDF5 file")->required();
  option("--data", settings.data, "Dataset of the images; default: the only one that looks like images");
  option("--target", settings.target, "Dataset of the labels");
  option("--depth", settings.depth, "Layers of the network: 18 or 50")->check(CLI::IsMember({18, 50}));
  option("--classes", settings.classes, "Number of labels")->check(example::at_least(1));
  option("--epochs", settings.epochs, "Passes over the data")->check(example::at_least(1));
  option("--steps", settings.steps, "Stop after so many batches; 0: train all epochs")
      ->check(example::at_least(0));
  option("--batch-size", settings.batch_size, "Images per batch")->check(example::at_least(1));
  option("--num-workers", settings.num_workers, "Threads that read and decode; 0: the training thread");
  option("--shuffle", settings.shuffle, "sequential, full or chunk:K");
  option("--seed", settings.seed, "Governs initial weights and order");
  option("--learning-rate", settings.learning_rate, "Step size of SGD with momentum 0.9");
  option("--device", settings.device, "auto, cpu, cuda or cuda:N");
  return example::run_program(app, argc, argv, "resnet_training", [&] { run(settings); });
}
