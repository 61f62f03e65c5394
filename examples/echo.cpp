// SPDX-License-Identifier: Apache-2.0
// Cost of data echoing: trains a small CNN on Fashion-MNIST with every batch delivered 1, 2 and 4 times,
// for the same number of steps, and prints accuracy and time over several seeds (Choi et al., "Faster neural
// network training with data echoing", 2019, arXiv 1907.05550). `h5feed pack` makes the file.
//
//   echo fashion.h5 --factors 1,2,4 --seeds 3 --epochs 3
//
// Each repeat is cropped and flipped anew. A factor pays where reading and decoding take longer than a step:
// then the time falls with it. Where the training is the slow side, as here on most machines, only its price
// is left: fewer fresh samples in as many steps.
#include <torch/nn/functional/loss.h>
#include <torch/optim/adam.h>
#include <torch/utils.h>
#include <h5feed/torch.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "examples/program.hpp"
#include "examples/small_cnn.hpp"

namespace {

struct Settings {
  std::string file;
  std::vector<std::int64_t> factors = {1, 2, 4};
  int seeds = 3;
  std::int64_t epochs = 3;
  std::int64_t batch_size = 64;
  double learning_rate = 1e-3;
};

struct Run {
  double accuracy = 0;  // percent
  double seconds = 0;
  double waited = 0;        // share of the time
  std::uint64_t fresh = 0;  // samples, repeats excluded
};

h5feed::DataLoaderOptions loader_options(const Settings& settings) {
  return {.batch_size = settings.batch_size,
          .num_workers = h5feed::kAuto,
          .normalize = h5feed::Normalize{.scale = 1.0 / 255, .mean = {0.2860}, .std = {0.3530}}};
}

double accuracy(example::SmallCnn& net, const Settings& settings) {
  const torch::NoGradGuard no_grad;
  net->eval();
  auto loader = h5feed::make_data_loader(
      h5feed::Dataset::open({.files = {settings.file}, .data = "test/images", .target = "test/labels"}),
      loader_options(settings));
  std::int64_t correct = 0, samples = 0;
  for (auto& batch : *loader) {
    correct += net->forward(batch.data).argmax(1).eq(batch.target).sum().item<std::int64_t>();
    samples += batch.target.size(0);
  }
  return 100.0 * static_cast<double>(correct) / static_cast<double>(samples);
}

Run train(const Settings& settings, std::int64_t factor, int seed) {
  torch::manual_seed(static_cast<std::uint64_t>(seed));
  example::SmallCnn net(1, 28, 28, 10);
  torch::optim::Adam optimizer(net->parameters(), settings.learning_rate);
  auto data =
      h5feed::Dataset::open({.files = {settings.file}, .data = "train/images", .target = "train/labels"});
  h5feed::DataLoaderOptions options = loader_options(settings);
  options.shuffle = true;
  options.seed = static_cast<std::uint64_t>(seed);
  options.echo = {.factor = factor};
  options.augment =
      h5feed::Augment{.horizontal_flip = 0.5, .random_crop = h5feed::Augment::RandomCrop{28, 28, 2}};
  auto loader = h5feed::make_data_loader(std::move(data), options);
  // size() counts the repeats.
  const std::uint64_t steps =
      static_cast<std::uint64_t>(settings.epochs) * loader->size() / static_cast<std::uint64_t>(factor);

  net->train();
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t step = 0; step < steps;) {
    for (auto& batch : *loader) {
      optimizer.zero_grad();
      torch::nn::functional::cross_entropy(net->forward(batch.data), batch.target).backward();
      optimizer.step();
      if (++step == steps) break;
    }
  }
  Run run;
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const h5feed::LoaderStats stats = loader->stats();
  run.waited = stats.wait_fraction();
  run.fresh = stats.samples - stats.samples_echoed;
  run.accuracy = accuracy(net, settings);
  return run;
}

void compare(const Settings& settings) {
  std::puts("echo.factor  fresh samples  accuracy %  of the seeds      seconds  waited");
  for (const std::int64_t factor : settings.factors) {
    std::vector<double> accuracies;
    Run sum;
    for (int seed = 1; seed <= settings.seeds; ++seed) {
      const Run run = train(settings, factor, seed);
      accuracies.push_back(run.accuracy);
      sum.seconds += run.seconds / settings.seeds;
      sum.waited += run.waited / settings.seeds;
      sum.fresh = run.fresh;
    }
    const auto [low, high] = std::ranges::minmax(accuracies);
    const double mean =
        std::accumulate(accuracies.begin(), accuracies.end(), 0.0) / static_cast<double>(accuracies.size());
    std::printf("%11lld  %13llu  %10.2f  %5.2f ... %5.2f  %9.1f  %4.1f %%\n", static_cast<long long>(factor),
                static_cast<unsigned long long>(sum.fresh), mean, low, high, sum.seconds, sum.waited * 100);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Compares factors of data echoing: accuracy and time for the same number of steps.");
  app.add_option("FILE", settings.file, "HDF5 file with train/images, train/labels, test/images, test/labels")
      ->required();
  app.add_option("--factors", settings.factors, "Deliveries of each batch; several are compared")
      ->delimiter(',')
      ->check(example::at_least(1))
      ->capture_default_str();
  app.add_option("--seeds", settings.seeds, "Runs of each factor, with seeds 1, 2, …")
      ->check(example::at_least(1))
      ->capture_default_str();
  app.add_option("--epochs", settings.epochs, "Steps of each run, in epochs without repeats")
      ->check(example::at_least(1))
      ->capture_default_str();
  app.add_option("--batch-size", settings.batch_size, "Samples per batch")
      ->check(example::at_least(1))
      ->capture_default_str();
  app.add_option("--learning-rate", settings.learning_rate, "Step size of Adam")->capture_default_str();
  return example::run_program(app, argc, argv, "echo", [&] { compare(settings); });
}
