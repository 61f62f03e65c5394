// SPDX-License-Identifier: Apache-2.0
// Trains a small CNN on Fashion-MNIST from an HDF5 file, through h5feed's drop-in for LibTorch's data
// loader. `h5feed pack` makes the file; tools/demo.sh does both.
//
//   fashion_mnist fashion.h5 --epochs 3 --num-workers 2
//
// Several batch sizes are trained one after the other, each from the same initial weights, with the learning
// rate scaled with the batch size and warmed up (Goyal et al., "Accurate, large minibatch SGD: training
// ImageNet in 1 hour", 2017, arXiv 1706.02677, sections 2.1 and 2.2):
//
//   fashion_mnist fashion.h5 --batch-size 32,64,128,512 --lr-scaling linear --warmup-epochs 1
#include <sys/resource.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/adam.h>
#include <torch/utils.h>
#include <unistd.h>
#include <h5feed/gpu_monitor.hpp>
#include <h5feed/torch.hpp>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "examples/learning_rate.hpp"
#include "examples/program.hpp"
#include "examples/small_cnn.hpp"
#include "examples/training_device.hpp"

namespace {

struct Settings {
  std::string file;
  int epochs = 3;
  std::vector<std::int64_t> batch_sizes = {64};
  std::string lr_scaling = "none";
  double warmup_epochs = 0;
  std::int64_t num_workers = 2;
  std::uint64_t seed = 1;
  std::string device = "auto";
  double learning_rate = 1e-3;
};

using Loader = std::unique_ptr<h5feed::TorchDataLoader>;

Loader open_loader(const Settings& settings, std::int64_t batch_size, const std::string& part, bool shuffle,
                   torch::Device device, std::shared_ptr<const h5feed::GpuProbe> probe) {
  auto data =
      h5feed::Dataset::open({.files = {settings.file}, .data = part + "/images", .target = part + "/labels"});
  h5feed::DataLoaderOptions options{
      .batch_size = batch_size, .shuffle = shuffle, .num_workers = settings.num_workers};
  options.normalize = {.scale = 1.0 / 255, .mean = {0.2860}, .std = {0.3530}};
  options.device = example::loader_device(device);
  options.gpu_probe = std::move(probe);
  return h5feed::make_data_loader(std::move(data), options);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Trains one epoch; returns its mean loss.
double train(example::SmallCnn& net, torch::optim::Adam& optimizer, const example::LearningRate& rate,
             h5feed::TorchDataLoader& loader, std::size_t first_step, torch::Device device) {
  net->train();
  const bool terminal = isatty(STDERR_FILENO) != 0;
  double loss_sum = 0;
  std::size_t batches = 0;
  for (auto& batch : loader) {
    const auto images = batch.data.to(device);
    const auto labels = batch.target.to(device);
    rate.set(optimizer, static_cast<double>(first_step + batches));
    optimizer.zero_grad();
    const auto loss = torch::nn::functional::cross_entropy(net->forward(images), labels);
    loss.backward();
    optimizer.step();
    loss_sum += loss.item<double>();
    ++batches;
    if (terminal && batches % 20 == 0) {
      std::fprintf(stderr, "\r%3zu %%  loss %.3f ", 100 * batches / loader.size(),
                   loss_sum / static_cast<double>(batches));
    }
  }
  if (terminal) std::fprintf(stderr, "\r                    \r");
  return loss_sum / static_cast<double>(batches);
}

// Returns the share of correctly classified samples, in percent.
double accuracy(example::SmallCnn& net, h5feed::TorchDataLoader& loader, torch::Device device) {
  const torch::NoGradGuard no_grad;
  net->eval();
  std::int64_t correct = 0;
  std::int64_t samples = 0;
  for (auto& batch : loader) {
    const auto predicted = net->forward(batch.data.to(device)).argmax(1);
    correct += predicted.eq(batch.target.to(device)).sum().item<std::int64_t>();
    samples += batch.target.size(0);
  }
  return 100.0 * static_cast<double>(correct) / static_cast<double>(samples);
}

double mebibytes(double bytes) { return bytes / (1024.0 * 1024.0); }

double peak_memory_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

// Returns a probe of the GPU; null if there is none, or several to choose from.
std::shared_ptr<const h5feed::GpuProbe> watch_gpu(torch::Device device) {
  if (!device.is_cuda()) return nullptr;
  try {
    return h5feed::gpu::monitor();
  } catch (const h5feed::DeviceError& error) {
    std::fprintf(stderr, "fashion_mnist: GPU use is not shown: %s\n", error.what());
    return nullptr;
  }
}

// Formats the known values as ", GPU busy 41 %, device memory 612 MiB".
std::string gpu_columns(const h5feed::GpuUse& use, const std::optional<h5feed::GpuMemory>& memory) {
  std::string text;
  char column[64];
  if (const auto busy = use.busy.mean()) {
    std::snprintf(column, sizeof column, ", GPU busy %.0f %%", 100 * *busy);
    text += column;
  }
  if (memory) {
    std::snprintf(column, sizeof column, ", device memory %.0f MiB",
                  mebibytes(static_cast<double>(memory->total - memory->free)));
    text += column;
  }
  return text.empty() ? ", no GPU" : text;
}

// Trains with one batch size; returns the final accuracy.
double run_batch_size(const Settings& settings, std::int64_t batch_size, torch::Device device) {
  torch::manual_seed(settings.seed);
  const Loader training = open_loader(settings, batch_size, "train", true, device, watch_gpu(device));
  const Loader testing = open_loader(settings, batch_size, "test", false, device, nullptr);
  example::SmallCnn net(1, 28, 28, 10);
  net->to(device);
  const double full_rate = settings.lr_scaling == "linear"
                               ? example::LearningRate::linearly_scaled(settings.learning_rate, batch_size)
                               : settings.learning_rate;
  const example::LearningRate rate(settings.learning_rate, full_rate,
                                   settings.warmup_epochs * static_cast<double>(training->size()));
  torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(rate.full()));
  std::printf("training on %s, %lld workers, batches of %lld, learning rate %g%s\n", device.str().c_str(),
              static_cast<long long>(settings.num_workers), static_cast<long long>(batch_size), rate.full(),
              settings.warmup_epochs > 0 ? " after the warm-up" : "");

  double test_accuracy = 0;
  for (int epoch = 1; epoch <= settings.epochs; ++epoch) {
    const h5feed::LoaderStats before = training->stats();
    const auto start = std::chrono::steady_clock::now();
    const std::size_t first_step = static_cast<std::size_t>(epoch - 1) * training->size();
    const double loss = train(net, optimizer, rate, *training, first_step, device);
    const double seconds = seconds_since(start);
    const h5feed::LoaderStats after = training->stats();

    const double samples = static_cast<double>(after.samples - before.samples);
    const double waited = static_cast<double>(after.wait_ns - before.wait_ns) * 1e-9;
    h5feed::LoaderStats epoch_stats;
    epoch_stats.cache_hits = after.cache_hits - before.cache_hits;
    epoch_stats.cache_misses = after.cache_misses - before.cache_misses;
    test_accuracy = accuracy(net, *testing, device);
    std::printf(
        "epoch %d/%d: batch size %lld, learning rate %g, loss %.3f, test accuracy %.1f %%, %.0f samples/s, "
        "%.2f s, waited for data %.2f %% of the time, cache hit rate %.1f %%%s, peak host memory %.0f MiB\n",
        epoch, settings.epochs, static_cast<long long>(batch_size),
        rate.at(static_cast<double>(first_step + training->size() - 1)), loss, test_accuracy,
        samples / seconds, seconds, 100 * waited / seconds, 100 * epoch_stats.cache_hit_rate(),
        gpu_columns(after.gpu - before.gpu, after.gpu_memory).c_str(), mebibytes(peak_memory_bytes()));
    std::fflush(stdout);
  }
  std::printf("%s\n", training->report().c_str());
  return test_accuracy;
}

void run(const Settings& settings) {
  const torch::Device device = example::choose_device(settings.device);
  std::string summary;
  for (const std::int64_t batch_size : settings.batch_sizes) {
    const double test_accuracy = run_batch_size(settings, batch_size, device);
    char line[80];
    std::snprintf(line, sizeof line, "batch size %lld, test accuracy: %.1f %%\n",
                  static_cast<long long>(batch_size), test_accuracy);
    summary += line;
  }
  if (settings.batch_sizes.size() > 1) std::printf("%s", summary.c_str());
  std::printf("%s", summary.substr(summary.rfind("test accuracy")).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Trains a small CNN on Fashion-MNIST, fed from an HDF5 file");
  app.add_option("FILE", settings.file, "HDF5 file with train/images, train/labels, test/images, test/labels")
      ->required();
  app.add_option("--epochs", settings.epochs, "Passes over the training data")
      ->check(example::at_least(1))
      ->capture_default_str();
  app.add_option("--batch-size", settings.batch_sizes, "Samples per batch; several are trained in turn")
      ->delimiter(',')
      ->check(example::at_least(1))
      ->capture_default_str();
  app.add_option("--lr-scaling", settings.lr_scaling,
                 "none, or linear: the learning rate is for batches of 64 and grows with the batch size")
      ->check(CLI::IsMember({"none", "linear"}))
      ->capture_default_str();
  app.add_option("--warmup-epochs", settings.warmup_epochs,
                 "Epochs, or parts of one, over which a scaled rate is reached")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--num-workers", settings.num_workers,
                 "Threads that read and decode; 0: the training thread")
      ->capture_default_str();
  app.add_option("--learning-rate", settings.learning_rate, "Step size of Adam")->capture_default_str();
  app.add_option("--seed", settings.seed, "Governs initial weights and order")->capture_default_str();
  app.add_option("--device", settings.device, "auto, cpu, cuda or cuda:N")->capture_default_str();
  return example::run_program(app, argc, argv, "fashion_mnist", [&] { run(settings); });
}
