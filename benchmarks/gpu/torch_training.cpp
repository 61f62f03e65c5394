// SPDX-License-Identifier: Apache-2.0
// Trains residual networks on batches from the loader, on batches that are already on the GPU, and with a
// naive loop.
#include <ATen/Context.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "cuda/device_choice.hpp"
#include "cuda/runtime/handles.hpp"
#include "examples/resnet.hpp"
#include "gpu/torch_benches.hpp"
#include "h5feed/gpu_monitor.hpp"
#include "h5feed/torch.hpp"

namespace h5feed::bench {
namespace {

using gpu::check;

constexpr int kWarmUpSteps = 10;  // during which cuDNN chooses its algorithms
constexpr std::int64_t kClasses = 1000;

torch::ScalarType torch_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return torch::kFloat32;
    case DType::f16:
      return torch::kFloat16;
    case DType::bf16:
      return torch::kBFloat16;
    case DType::i64:
      return torch::kInt64;
    default:
      throw std::logic_error("a type that training does not use");
  }
}

/// Batches of images (B,3,H,W) and labels (B), in GPU memory.
struct Example {
  torch::Tensor images;
  torch::Tensor labels;
};

/// Trains in bfloat16 with batch norm in float32, channels last, SGD with momentum: the usual fast settings
/// for ResNets.
class Trainer {
 public:
  Trainer(example::ResNet network, torch::Device device)
      : network_(std::move(network)), optimizer_(prepared(network_, device)), device_(device) {
    at::globalContext().setBenchmarkCuDNN(true);
  }

  /// Enqueues one step on the current stream. Images of another type or layout are converted on the GPU.
  void step(const Example& example) {
    const torch::Tensor images = example.images.to(torch::kBFloat16, /*non_blocking=*/true)
                                     .contiguous(torch::MemoryFormat::ChannelsLast);
    optimizer_.zero_grad();
    const torch::Tensor logits = network_->forward(images).to(torch::kFloat32);
    torch::nn::functional::cross_entropy(logits, example.labels).backward();
    optimizer_.step();
  }

  cudaStream_t stream() const { return c10::cuda::getCurrentCUDAStream(device_.index()).stream(); }
  void wait() const { check(cudaStreamSynchronize(stream()), "cudaStreamSynchronize", {device_.index()}); }
  torch::Device device() const noexcept { return device_; }

 private:
  static torch::optim::SGD prepared(example::ResNet& network, torch::Device device) {
    network->to(device, torch::kBFloat16);
    for (const auto& module : network->modules()) {
      // cuDNN's batch norm accepts 16-bit images with statistics and weights in float32.
      if (auto* const norm = module->as<torch::nn::BatchNorm2d>()) norm->to(torch::kFloat32);
    }
    for (torch::Tensor& parameter : network->parameters()) {
      if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(torch::MemoryFormat::ChannelsLast));
    }
    network->train();
    return torch::optim::SGD(network->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  }

  example::ResNet network_;
  torch::optim::SGD optimizer_;
  torch::Device device_;
};

Dataset training_data(Bench& bench) {
  const auto file = bench.file({.samples = bench.sizes.train_samples, .side = bench.sizes.train_side});
  return Dataset::open({.files = {file}, .data = "images", .target = "labels"});
}

DataLoaderOptions training_options(const Bench& bench) {
  DataLoaderOptions options = bench.decoding_options(bench.sizes.train_batch_size);
  options.shuffle = bench.window();
  options.drop_last = true;
  options.cache_bytes = std::uint64_t{256}
                        << 20;  // holds the chunks of a window, a seventh of the file at most
  options.normalize = Normalize{.mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}};
  return options;
}

// Delivers batches as the network takes them: the normalize kernel leaves nothing to convert.
DataLoaderOptions gpu_options(const Bench& bench, OutputMemory memory) {
  DataLoaderOptions options = training_options(bench);
  options.output_dtype = DType::bf16;
  options.output_layout = OutputLayout::channels_last;
  options.output_memory = memory;
  options.device = fmt::format("cuda:{}", bench.device);
  return options;
}

/// Source of batches for a LibTorch program, epoch after epoch.
class Feed {
 public:
  explicit Feed(Bench& bench, OutputMemory memory = OutputMemory::consumer)
      : loader_(make_data_loader(training_data(bench), gpu_options(bench, memory))),
        position_(loader_->begin()) {}

  /// Returns the next batch of this epoch; nothing, once, at its end.
  std::optional<Example> next_of_epoch() {
    if (position_ == loader_->end()) {
      position_ = loader_->begin();
      return std::nullopt;
    }
    Example example{std::move(position_->data), std::move(position_->target)};
    ++position_;
    return example;
  }

  /// Returns the next batch, of this epoch or the next.
  Example next() {
    std::optional<Example> example = next_of_epoch();
    if (!example) example = next_of_epoch();
    return std::move(example.value());
  }

 private:
  std::unique_ptr<TorchDataLoader> loader_;
  TorchDataLoader::Iterator position_;
};

// Returns a batch that stays on the GPU.
Example resident_example(Feed& feed) {
  const Example example = feed.next();
  return {example.images.clone(), example.labels.clone()};
}

template <typename Step>
double seconds_of(int steps, const Trainer& trainer, Step step) {
  trainer.wait();
  const Seconds clock;
  for (int i = 0; i < steps; ++i) step();
  trainer.wait();
  return clock.elapsed();
}

/// A time stamp on a stream.
class TimeStamp {
 public:
  TimeStamp() {
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice", {});
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDefault), "cudaEventCreateWithFlags", {device});
    event_ = gpu::Event(event, device);
  }
  void record(cudaStream_t stream) const {
    check(cudaEventRecord(event_.get(), stream), "cudaEventRecord", {});
  }
  double seconds_since(const TimeStamp& begin) const {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin.event_.get(), event_.get()), "cudaEventElapsedTime", {});
    return static_cast<double>(milliseconds) / 1000;
  }

 private:
  gpu::Event event_;
};

// Returns the seconds between the end of a step and the start of the next on the training stream, summed over
// `steps` steps.
double exposed_seconds(int steps, Feed& feed, Trainer& trainer) {
  std::vector<std::pair<TimeStamp, TimeStamp>> waits(static_cast<std::size_t>(steps));
  for (const auto& [begin, end] : waits) {
    begin.record(trainer.stream());
    const Example example = feed.next();
    end.record(trainer.stream());
    trainer.step(example);
  }
  trainer.wait();
  double seconds = 0;
  for (const auto& [begin, end] : waits) seconds += end.seconds_since(begin);
  return seconds;
}

torch::Device device_of(const Bench& bench) {
  return {torch::kCUDA, static_cast<torch::DeviceIndex>(bench.device)};
}

struct Use {
  GpuUse gpu;
  double images_per_s = 0;
};

// Trains for `use_time` while NVML measures.
template <typename Step>
Use use_while(Bench& bench, const Trainer& trainer, Step step) {
  for (int i = 0; i < kWarmUpSteps; ++i) step();
  trainer.wait();
  const auto probe = gpu::monitor(gpu::pci_id_of(bench.device), std::chrono::milliseconds(100));
  const double wanted_s = std::chrono::duration<double>(bench.sizes.use_time).count();
  const GpuUse before = probe->use();
  const Seconds clock;
  int steps = 0;
  for (; clock.elapsed() < wanted_s; ++steps) {
    step();
    // The host must not run further ahead than the measured time.
    if (steps % 16 == 15) trainer.wait();
  }
  trainer.wait();
  const double seconds = clock.elapsed();
  return {probe->use() - before, steps * static_cast<double>(bench.sizes.train_batch_size) / seconds};
}

std::vector<Row> use_rows(const std::string& name, const Use& use, double resident_images_per_s) {
  const auto row = [&](const std::string& suffix, const SeenValues& share, const char* what) {
    Row made{.name = name + suffix, .unit = "%"};
    if (const auto mean = share.mean()) {
      made.pairs = {{*mean * 100}, {100}};
      made.note = fmt::format("{}, mean of {} readings", what, share.count);
    } else {
      made.not_run = fmt::format("the driver does not tell {}", what);
    }
    return made;
  };
  return {row("", use.gpu.busy, "the share of time in which a kernel ran (NVML)"),
          row("_sm", use.gpu.sm_active, "the share of active SM cycles (GPM)"),
          {.name = name + "_images",
           .unit = "images/s",
           .pairs = {{use.images_per_s}, {resident_images_per_s}},
           .note = "ResNet-50; ceiling: with one batch that stays on the GPU"}};
}

double resident_images_per_s(Bench& bench, Trainer& trainer, const Example& resident) {
  for (int i = 0; i < kWarmUpSteps; ++i) trainer.step(resident);
  const double seconds = seconds_of(bench.sizes.train_steps, trainer, [&] { trainer.step(resident); });
  return bench.sizes.train_steps * static_cast<double>(bench.sizes.train_batch_size) / seconds;
}

std::string name_with(const char* name, OutputMemory memory) {
  return std::string(name) + (memory == OutputMemory::ring ? "_ring" : "");
}

const char* place_of(OutputMemory memory) {
  return memory == OutputMemory::ring ? "the loader's own ring" : "tensors of LibTorch's allocator";
}

}  // namespace

std::vector<Row> measure_stall(Bench& bench, OutputMemory memory) {
  const gpu::DeviceGuard guard(bench.device);
  Feed feed(bench, memory);
  Trainer trainer(example::resnet50(kClasses), device_of(bench));
  const Example resident = resident_example(feed);
  const int steps = bench.sizes.train_steps;
  for (int i = 0; i < kWarmUpSteps; ++i) trainer.step(resident);

  const auto fed = [&] { return seconds_of(steps, trainer, [&] { trainer.step(feed.next()); }); };
  const auto alone = [&] { return seconds_of(steps, trainer, [&] { trainer.step(resident); }); };
  const Pairs times = alternate(bench.sizes.train_repetitions, fed, alone);
  Row stall{.name = name_with("stall_resnet50", memory), .unit = "s"};
  for (std::size_t i = 0; i < times.values.size(); ++i) {
    stall.pairs.values.push_back((times.values[i] - times.ceilings[i]) / steps);
    stall.pairs.ceilings.push_back(times.values[i] / steps);
  }
  stall.note = fmt::format(
      "a step of ResNet-50, {} images in bfloat16, fed by the loader into {}, less one with a batch on the "
      "GPU; of the fed step",
      bench.sizes.train_batch_size, place_of(memory));
  return {std::move(stall)};
}

std::vector<Row> measure_exposed_copy(Bench& bench, OutputMemory memory) {
  const gpu::DeviceGuard guard(bench.device);
  Feed feed(bench, memory);
  Trainer trainer(example::resnet50(kClasses), device_of(bench));
  const int steps = bench.sizes.train_steps;
  for (int i = 0; i < kWarmUpSteps; ++i) trainer.step(feed.next());

  Row exposed{.name = name_with("exposed_copy", memory), .unit = "s"};
  for (int i = 0; i < bench.sizes.train_repetitions; ++i) {
    trainer.wait();
    const Seconds clock;
    const double waited = exposed_seconds(steps, feed, trainer);
    exposed.pairs.values.push_back(waited / steps);
    exposed.pairs.ceilings.push_back(clock.elapsed() / steps);
  }
  exposed.note = fmt::format(
      "time between steps on the training's stream, in which it waited for the host, the copy or the kernel "
      "of its batch; into {}; of the step",
      place_of(memory));
  return {std::move(exposed)};
}

std::vector<Row> measure_epoch_against_memory(Bench& bench) {
  const gpu::DeviceGuard guard(bench.device);
  Feed feed(bench);
  Trainer trainer(example::resnet18(kClasses), device_of(bench));
  std::vector<Example> all;
  while (auto example = feed.next_of_epoch()) all.push_back(std::move(*example));
  for (int i = 0; i < kWarmUpSteps; ++i) trainer.step(all.front());

  const int epochs = bench.sizes.epochs_on_end;
  const auto fed = [&] {
    return seconds_of(epochs, trainer, [&] {
      while (const auto example = feed.next_of_epoch()) trainer.step(*example);
    });
  };
  const auto from_memory = [&] {
    return seconds_of(epochs, trainer, [&] {
      for (const Example& example : all) trainer.step(example);
    });
  };
  return {{.name = "epoch_vs_memory",
           .unit = "s",
           .pairs = alternate(bench.sizes.epoch_repetitions, fed, from_memory),
           .note = fmt::format(
               "{} epochs of ResNet-18 on end, {} batches of {} in bfloat16 each; against the same loop over "
               "batches on the GPU",
               epochs, all.size(), bench.sizes.train_batch_size)}};
}

std::vector<Row> measure_gpu_use_naive(Bench& bench) {
  const gpu::DeviceGuard guard(bench.device);
  // Naive code: one thread reads, decodes and converts between the steps, and copies float32 from pageable
  // memory. Reads with h5feed, which is no slower than libhdf5.
  DataLoaderOptions options = training_options(bench);
  options.num_workers = 0;
  DataLoader loader(training_data(bench), options);
  Trainer trainer(example::resnet50(kClasses), device_of(bench));
  const auto example = [&] {
    std::optional<Batch> batch = loader.next();
    if (!batch) batch = loader.next();
    const auto on_gpu = [&](const HostTensor& tensor) {
      return torch::from_blob(tensor.bytes.get(), tensor.shape,
                              torch::TensorOptions(torch_type(tensor.dtype)))
          .to(trainer.device());
    };
    return Example{on_gpu(batch->data), on_gpu(batch->target)};
  };
  const double ceiling = resident_images_per_s(bench, trainer, example());
  return use_rows("gpu_use_naive", use_while(bench, trainer, [&] { trainer.step(example()); }), ceiling);
}

std::vector<Row> measure_gpu_use_h5feed(Bench& bench) {
  const gpu::DeviceGuard guard(bench.device);
  Feed feed(bench);
  Trainer trainer(example::resnet50(kClasses), device_of(bench));
  const double ceiling = resident_images_per_s(bench, trainer, resident_example(feed));
  return use_rows("gpu_use_h5feed", use_while(bench, trainer, [&] { trainer.step(feed.next()); }), ceiling);
}

}  // namespace h5feed::bench
