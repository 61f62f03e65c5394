// SPDX-License-Identifier: Apache-2.0
#include "ladder/training.hpp"

#include <torch/cuda.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/container/any.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "examples/learning_rate.hpp"
#include "examples/resnet.hpp"
#include "examples/small_cnn.hpp"
#include "examples/training_device.hpp"
#include "h5feed/config.hpp"
#include "h5feed/error.hpp"
#include "ladder/feed.hpp"
#include "ladder/gpu_watch.hpp"
#include "tools/program/resources.hpp"

namespace h5feed::ladder {
namespace {

using Clock = std::chrono::steady_clock;
using torch::data::Example;

constexpr int kWarmUpSteps = 3;        // LibTorch chooses algorithms and allocates
constexpr std::int64_t kChecked = 16;  // values of each sample that the check sum covers

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double cpu_seconds() {
  const cli::ResourceUsage usage = cli::resource_usage();
  return usage.user_s + usage.system_s;
}

torch::nn::AnyModule make_network(const Settings& settings, const std::vector<std::int64_t>& shape) {
  if (shape.size() != 3) throw OptionError("--data " + settings.data + ": samples of (C,H,W) are needed");
  if (settings.model == "resnet18") return torch::nn::AnyModule(example::resnet18(settings.classes));
  if (settings.model == "resnet50") return torch::nn::AnyModule(example::resnet50(settings.classes));
  return torch::nn::AnyModule(example::SmallCnn(shape[0], shape[1], shape[2], settings.classes));
}

/// Network and optimizer. Sums stay on the device, so that no step waits for them.
class Trainer {
 public:
  Trainer(const Settings& settings, const std::vector<std::int64_t>& shape, torch::Device device)
      : device_(device),
        network_(make_network(settings, shape)),
        optimizer_(prepared(network_, device),
                   torch::optim::SGDOptions(settings.learning_rate).momentum(0.9)) {
    reset_sums();
  }

  /// Computes gradients. Normalizes uint8 images here, on the device.
  void compute(const Example<>& batch) {
    torch::Tensor images = batch.data.to(device_);
    if (images.scalar_type() == torch::kUInt8)
      images = images.to(torch::kFloat32).mul_(1 / (255 * kStd)).sub_(kMean / kStd);
    const torch::Tensor labels = batch.target.to(device_);
    optimizer_.zero_grad();
    const torch::Tensor loss =
        torch::nn::functional::cross_entropy(network_.forward<torch::Tensor>(images), labels);
    loss.backward();
    losses_ += loss.detach();
    const torch::Tensor some = images.flatten(1).narrow(1, 0, kChecked).sum(1, false, torch::kFloat64);
    check_sum_ += (some * (labels + 1)).sum();
  }

  void step(const Example<>& batch) {
    compute(batch);
    optimizer_.step();
  }

  void reset_sums() {
    const auto on_device = torch::TensorOptions(torch::kFloat64).device(device_);
    losses_ = torch::zeros({}, on_device);
    check_sum_ = torch::zeros({}, on_device);
  }

  /// Blocks until the device has finished all steps.
  void wait() const {
    if (device_.is_cuda()) torch::cuda::synchronize(device_.index());
  }

  torch::optim::Optimizer& optimizer() noexcept { return optimizer_; }
  double losses() const { return losses_.item<double>(); }
  double check_sum() const { return check_sum_.item<double>(); }

 private:
  static std::vector<torch::Tensor> prepared(torch::nn::AnyModule& network, torch::Device device) {
    network.ptr()->to(device);
    network.ptr()->train();
    return network.ptr()->parameters();
  }

  torch::Device device_;
  torch::nn::AnyModule network_;
  torch::optim::SGD optimizer_;
  torch::Tensor losses_;
  torch::Tensor check_sum_;
};

// Computes gradients of a batch of zeros, and leaves the weights as the seed made them.
void warm_up(Trainer& trainer, const Settings& settings, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> batch_shape = shape;
  batch_shape.insert(batch_shape.begin(), settings.batch_size);
  const Example<> batch(torch::zeros(batch_shape, torch::kUInt8),
                        torch::zeros({settings.batch_size}, torch::kInt64));
  for (int i = 0; i < kWarmUpSteps; ++i) trainer.compute(batch);
  trainer.wait();
  trainer.reset_sums();
}

void run_epoch(Feed& feed, std::uint64_t epoch, Trainer& trainer, const example::LearningRate& rate,
               Result& result) {
  Clock::time_point asked = Clock::now();
  feed.start_epoch(epoch);
  for (bool first = true;; first = false) {
    const std::optional<Example<>> batch = feed.next();
    const double waited = seconds_since(asked);
    result.wait_seconds += waited;
    if (first) result.first_waits.push_back(waited);
    if (!batch) return;
    rate.set(trainer.optimizer(), static_cast<double>(result.steps++));
    trainer.step(*batch);
    result.samples += batch->target.size(0);
    asked = Clock::now();
  }
}

}  // namespace

std::string why_not(Rung rung, const Settings& settings) {
  if (rung != Rung::pinned) return {};
  const torch::Device device = example::choose_device(settings.device);
  if (!device.is_cuda()) return "needs a GPU: on a CPU no batch is copied to another memory";
  if (!H5FEED_HAS_CUDA) return "needs an h5feed that is built with CUDA";
  return {};
}

Result train(Rung rung, const Settings& settings) {
  if (settings.training_threads > 0) torch::set_num_threads(settings.training_threads);
  torch::manual_seed(settings.seed);
  const torch::Device device = example::choose_device(settings.device);
  const std::int64_t repeats = rung >= Rung::echo ? kEchoFactor : 1;

  const std::vector<std::int64_t> shape = make_feed(Rung::h5feed, settings, device)->sample_shape();
  Trainer trainer(settings, shape, device);
  warm_up(trainer, settings, shape);
  Result result{.device = device.str()};
  cli::reset_peak_rss();
  result.host_idle_bytes = cli::peak_rss_bytes();
  std::optional<GpuWatch> gpu;
  if (device.is_cuda()) gpu.emplace();

  const double cpu_before = cpu_seconds();
  const Clock::time_point start = Clock::now();
  const std::unique_ptr<Feed> feed = make_feed(rung, settings, device);
  const std::int64_t batches = (feed->size() + settings.batch_size - 1) / settings.batch_size * repeats;
  const example::LearningRate rate(
      settings.learning_rate,
      example::LearningRate::linearly_scaled(settings.learning_rate, settings.batch_size),
      settings.warmup_epochs * static_cast<double>(batches));
  for (std::int64_t epoch = 0; epoch < settings.epochs; ++epoch) {
    trainer.reset_sums();
    run_epoch(*feed, static_cast<std::uint64_t>(epoch), trainer, rate, result);
  }
  trainer.wait();
  result.seconds = seconds_since(start);
  result.cpu_seconds = cpu_seconds() - cpu_before;
  result.host_peak_bytes = cli::peak_rss_bytes();
  if (gpu) {
    result.gpu_busy = gpu->busy();
    result.device_peak_bytes = gpu->peak_memory_bytes();
  }
  result.gpu_why_not = gpu ? gpu->why_not() : "trained on the CPU";
  result.fresh = result.samples / repeats;
  result.learning_rate = rate.full();
  result.loss = trainer.losses() / static_cast<double>(batches);
  result.check_sum = trainer.check_sum() / static_cast<double>(repeats);
  return result;
}

}  // namespace h5feed::ladder
