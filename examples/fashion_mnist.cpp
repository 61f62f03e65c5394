// Trains a small CNN on Fashion-MNIST from an HDF5 file, through h5feed's drop-in for LibTorch's data
// loader. The file is made by `h5feed pack` (tools/demo.sh does it all).
//
//   fashion_mnist fashion.h5 --epochs 3 --num-workers 2
#include <torch/torch.h>
#include <unistd.h>
#include <h5feed/torch.hpp>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>

namespace {

struct Settings {
  std::string file;
  int epochs = 3;
  std::int64_t batch_size = 64;
  std::int64_t num_workers = 2;
  std::uint64_t seed = 1;
  std::string device = "auto";
  double learning_rate = 1e-3;
};

struct NetImpl : torch::nn::Module {
  NetImpl() { register_module("layers", layers); }
  torch::Tensor forward(const torch::Tensor& images) { return layers->forward(images); }

  torch::nn::Sequential layers{torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 3).padding(1)),
                               torch::nn::ReLU(),
                               torch::nn::MaxPool2d(2),
                               torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 3).padding(1)),
                               torch::nn::ReLU(),
                               torch::nn::MaxPool2d(2),
                               torch::nn::Flatten(),
                               torch::nn::Linear(32 * 7 * 7, 128),
                               torch::nn::ReLU(),
                               torch::nn::Linear(128, 10)};
};
TORCH_MODULE(Net);

using Loader = std::unique_ptr<h5feed::TorchDataLoader>;

Loader open_loader(const Settings& settings, const std::string& part, bool shuffle) {
  auto data =
      h5feed::Dataset::open({.files = {settings.file}, .data = part + "/images", .target = part + "/labels"});
  h5feed::DataLoaderOptions options{
      .batch_size = settings.batch_size, .shuffle = shuffle, .num_workers = settings.num_workers};
  options.normalize = {.scale = 1.0 / 255, .mean = {0.2860}, .std = {0.3530}};
  return h5feed::make_data_loader(std::move(data), options);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Mean loss of one epoch.
double train(Net& net, torch::optim::Optimizer& optimizer, h5feed::TorchDataLoader& loader,
             torch::Device device) {
  net->train();
  const bool terminal = isatty(STDERR_FILENO) != 0;
  double loss_sum = 0;
  std::size_t batches = 0;
  for (auto& batch : loader) {
    const auto images = batch.data.to(device);
    const auto labels = batch.target.to(device);
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

// Share of the samples whose class is found, in percent.
double accuracy(Net& net, h5feed::TorchDataLoader& loader, torch::Device device) {
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

torch::Device choose_device(const std::string& name) {
  if (name != "auto") return torch::Device(name);
  return torch::cuda::is_available() ? torch::Device(torch::kCUDA) : torch::Device(torch::kCPU);
}

void run(const Settings& settings) {
  torch::manual_seed(settings.seed);
  const torch::Device device = choose_device(settings.device);
  const Loader training = open_loader(settings, "train", true);
  const Loader testing = open_loader(settings, "test", false);
  Net net;
  net->to(device);
  torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(settings.learning_rate));
  std::printf("training on %s, %lld workers, batches of %lld\n", device.str().c_str(),
              static_cast<long long>(settings.num_workers), static_cast<long long>(settings.batch_size));

  double test_accuracy = 0;
  for (int epoch = 1; epoch <= settings.epochs; ++epoch) {
    const h5feed::LoaderStats before = training->stats();
    const auto start = std::chrono::steady_clock::now();
    const double loss = train(net, optimizer, *training, device);
    const double seconds = seconds_since(start);
    const h5feed::LoaderStats after = training->stats();

    const double samples = static_cast<double>(after.samples - before.samples);
    const double waited = static_cast<double>(after.wait_ns - before.wait_ns) * 1e-9;
    h5feed::LoaderStats epoch_stats;
    epoch_stats.cache_hits = after.cache_hits - before.cache_hits;
    epoch_stats.cache_misses = after.cache_misses - before.cache_misses;
    test_accuracy = accuracy(net, *testing, device);
    std::printf(
        "epoch %d/%d: loss %.3f, test accuracy %.1f %%, %.0f samples/s, waited for data %.2f %% of the time, "
        "cache hit rate %.1f %%\n",
        epoch, settings.epochs, loss, test_accuracy, samples / seconds, 100 * waited / seconds,
        100 * epoch_stats.cache_hit_rate());
    std::fflush(stdout);
  }
  std::printf("%s\n", training->report().c_str());
  std::printf("test accuracy: %.1f %%\n", test_accuracy);
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Trains a small CNN on Fashion-MNIST, fed from an HDF5 file");
  app.add_option("FILE", settings.file, "HDF5 file with train/images, train/labels, test/images, test/labels")
      ->required();
  app.add_option("--epochs", settings.epochs, "Passes over the training data")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--batch-size", settings.batch_size, "Samples per batch")->capture_default_str();
  app.add_option("--num-workers", settings.num_workers,
                 "Threads that read and decode; 0: the training thread")
      ->capture_default_str();
  app.add_option("--learning-rate", settings.learning_rate, "Step size of Adam")->capture_default_str();
  app.add_option("--seed", settings.seed, "Governs initial weights and order")->capture_default_str();
  app.add_option("--device", settings.device, "auto, cpu, cuda or cuda:N")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    run(settings);
  } catch (const h5feed::OptionError& error) {
    std::fprintf(stderr, "fashion_mnist: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fashion_mnist: %s\n", error.what());
    return 1;
  }
  return 0;
}
