// SPDX-License-Identifier: Apache-2.0
// Data parallel training: several processes run this program, each with its share of every batch.
//
//   torchrun --nproc_per_node 4 --no_python distributed train.h5 --target labels --global-batch 256
//   mpirun -n 4 distributed train.h5 --target labels --global-batch 256
//   srun -n 4 distributed train.h5 --target labels --global-batch 256
//
// The order of samples is that of a single process with the same seed and global batch; the loss is equal
// too, up to rounding. A checkpoint may be resumed with another number of processes.
#include <torch/cuda.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>
#include <torch/utils.h>
#include <h5feed/torch.hpp>

#include <CLI/CLI.hpp>
#include <cinttypes>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/gradient_sum.hpp"
#include "examples/program.hpp"
#include "examples/ranks.hpp"
#include "examples/small_cnn.hpp"
#include "examples/training_device.hpp"

namespace {

struct Settings {
  std::string file;
  std::string data;
  std::string target = "labels";
  std::int64_t classes = 10;
  std::int64_t global_batch = 64;
  std::int64_t epochs = 3;
  std::int64_t num_workers = 1;
  std::string shuffle = "full";
  std::optional<std::uint64_t> seed;
  double learning_rate = 0.05;
  std::string checkpoint;
  std::int64_t save_every = 0;
  std::int64_t stop_after_steps = 0;
  bool log_steps = false;
  std::string log_indices;
  std::string epoch_log;
  std::string stage_dir;
  std::string meeting_file;
  std::int64_t timeout_s = 60;
  std::string device = "auto";
  std::string backend = "auto";
};

// Returns a GPU for each rank of a machine; with Gloo, ranks may share GPUs.
torch::Device device_of(const Settings& settings, const example::Ranks& ranks) {
  torch::Device device = example::choose_device(settings.device);
  if (!device.is_cuda()) return device;
  const auto gpus = static_cast<int>(torch::cuda::device_count());
  if (gpus == 0) throw std::runtime_error("--device " + settings.device + ": LibTorch finds no GPU");
  if (ranks.local_rank >= gpus && settings.backend != "gloo") {
    throw std::runtime_error("local rank " + std::to_string(ranks.local_rank) + " has no GPU of its own (" +
                             std::to_string(gpus) + " here); start fewer ranks, or use --backend gloo");
  }
  return {torch::kCUDA, static_cast<torch::DeviceIndex>(ranks.local_rank % gpus)};
}

example::GpuSums gpu_sums(const Settings& settings, const torch::Device& device) {
  if (settings.backend == "nccl" && !device.is_cuda()) {
    throw std::runtime_error("--backend nccl sums on GPUs, and the training is on the CPU; use gloo");
  }
  const bool nccl =
      settings.backend == "nccl" || (settings.backend == "auto" && device.is_cuda() && example::kHasNccl);
  return nccl ? example::GpuSums::nccl : example::GpuSums::gloo;
}

// Returns a number that identifies a sample, to be summed over a batch (Steele et al., "Fast splittable
// pseudorandom number generators", OOPSLA 2014: the mix of SplitMix64).
std::int64_t fingerprint(std::int64_t sample) {
  std::uint64_t x = static_cast<std::uint64_t>(sample) + 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return static_cast<std::int64_t>((x ^ (x >> 31)) >> 16);
}

class Training {
 public:
  Training(const Settings& settings, const example::Ranks& ranks)
      : settings_(settings),
        device_(device_of(settings, ranks)),
        ranks_(ranks, {settings.meeting_file, std::chrono::seconds(settings.timeout_s)},
               gpu_sums(settings, device_)),
        seed_(agree_on_seed()),
        dataset_(h5feed::Dataset::open({.files = {settings.file},
                                        .data = settings.data,
                                        .target = settings.target,
                                        .stage_dir = settings.stage_dir})),
        loader_(open_loader()),
        net_(make_net()),
        optimizer_(net_->parameters(), torch::optim::SGDOptions(settings.learning_rate).momentum(0.9)),
        gradients_(net_->parameters()),
        index_log_(open_index_log()),
        served_(torch::zeros({dataset_.size()}, torch::kInt32)) {
    const h5feed::LoaderState state = loader_->state();
    ranks_.require_equal("the seed", state.seed);
    ranks_.require_equal("the plan (data, order and sharding)", state.plan);
    ranks_.require_equal("the number of batches", loader_->size());
    say("%d ranks by %s, batches of %" PRId64 " (%" PRId64 " a rank), seed %" PRIu64 ", plan %016" PRIx64
        ", %zu parameter tensors in %zu buckets",
        ranks.world_size, ranks.launcher.c_str(), settings.global_batch, loader_->options().batch_size,
        state.seed, state.plan, net_->parameters().size(), gradients_.buckets());
    resume();
  }

  void run() {
    while (epoch_ < settings_.epochs && !stop_is_reached()) run_epoch();
    // Throws unless the weights of all ranks have the same bits.
    ranks_.require_equal("the weights", weights_hash());
    say("weights %016" PRIx64 " on every rank, after %" PRId64 " steps", weights_hash(), steps_);
    if (ranks_.ranks().rank == 0 && settings_.stop_after_steps == 0) {
      std::printf("%s\n", loader_->report().c_str());
    }
  }

 private:
  template <typename... Values>
  void say(const char* format, Values... values) const {
    if (ranks_.ranks().rank != 0) return;
    std::printf(format, values...);
    std::printf("\n");
    std::fflush(stdout);
  }

  std::uint64_t agree_on_seed() {
    std::uint64_t seed = settings_.seed ? *settings_.seed : std::random_device{}();
    const torch::Tensor agreed = torch::full({1}, static_cast<std::int64_t>(seed), torch::kInt64);
    ranks_.broadcast({agreed});
    seed = static_cast<std::uint64_t>(agreed.item<std::int64_t>());
    torch::manual_seed(seed);
    return seed;
  }

  std::unique_ptr<h5feed::TorchDataLoader> open_loader() const {
    const auto [rank, local_rank, world_size, launcher] = ranks_.ranks();
    if (settings_.global_batch % world_size != 0) {
      throw h5feed::OptionError("--global-batch " + std::to_string(settings_.global_batch) +
                                " is not a multiple of the world size, " + std::to_string(world_size));
    }
    h5feed::DataLoaderOptions options{.batch_size = settings_.global_batch / world_size,
                                      .shuffle = settings_.shuffle,
                                      .seed = seed_,
                                      .num_workers = settings_.num_workers,
                                      .rank = rank,
                                      .world_size = world_size};
    options.normalize = h5feed::Normalize{};
    options.epoch_log = settings_.epoch_log;
    options.device = example::loader_device(device_);
    return h5feed::make_data_loader(dataset_, options);
  }

  example::SmallCnn make_net() {
    const auto& shape = dataset_.sample_shape();
    if (shape.size() != 3) throw std::runtime_error("the samples are no images (C,H,W)");
    example::SmallCnn net(shape[0], shape[1], shape[2], settings_.classes);
    const torch::NoGradGuard no_grad;
    ranks_.broadcast(net->parameters());
    net->to(device_);
    return net;
  }

  bool stop_is_reached() const {
    return settings_.stop_after_steps > 0 && steps_ >= settings_.stop_after_steps;
  }

  // Opens a new file for the samples of this rank.
  std::ofstream open_index_log() const {
    std::ofstream log;
    if (settings_.log_indices.empty()) return log;
    std::filesystem::create_directories(settings_.log_indices);
    log.exceptions(std::ios::failbit | std::ios::badbit);
    log.open(std::filesystem::path(settings_.log_indices) /
             ("rank-" + std::to_string(ranks_.ranks().rank) + ".txt"));
    return log;
  }

  // Appends a line for the step in progress: its number, and those of the samples.
  void log_indices(const std::vector<std::int64_t>& samples) {
    if (!index_log_.is_open()) return;
    index_log_ << steps_ + 1;
    for (const std::int64_t sample : samples) index_log_ << ' ' << sample;
    index_log_ << std::endl;  // flushed: the process may be killed in this step
  }

  // Runs the epoch, or the rest of a resumed one, until its end or the requested stop.
  void run_epoch() {
    const std::int64_t first_step = steps_;
    double loss_sum = 0;
    for (auto& batch : *loader_) {
      loss_sum += step(batch);
      if (stop_is_reached()) break;
      if (settings_.save_every > 0 && steps_ % settings_.save_every == 0) save();
    }
    // After the last batch, the state is the beginning of the next epoch.
    const h5feed::LoaderState state = loader_->state();
    if (state.position == 0) {
      check_served(begun_at_first_sample_);
      say("epoch %" PRId64 ": mean loss of %" PRId64 " steps %.6f", epoch_ + 1, steps_ - first_step,
          loss_sum / static_cast<double>(steps_ - first_step));
      begun_at_first_sample_ = true;
    }
    epoch_ = static_cast<std::int64_t>(state.epoch);
    if (stop_is_reached()) save();
  }

  // Runs one step of all ranks; returns the loss of the global batch.
  double step(const h5feed::TorchBatch& batch) {
    const std::int64_t samples = batch.data.size(0);
    log_indices(batch.indices);
    optimizer_.zero_grad();
    // The sum of losses, and an integer sum that identifies the samples; zeros if the rank has none.
    torch::Tensor sums = torch::zeros({2}, torch::kFloat64);
    std::int64_t samples_hash = 0;
    if (samples > 0) {
      namespace F = torch::nn::functional;
      const torch::Tensor loss =
          F::cross_entropy(net_->forward(batch.data.to(device_)), batch.target.to(device_),
                           F::CrossEntropyFuncOptions().reduction(torch::kSum));
      loss.backward();
      sums[0] = loss.item<double>();
      sums[1] = static_cast<double>(samples);
      for (const std::int64_t sample : batch.indices) samples_hash += fingerprint(sample);
      served_.index_add_(0, torch::tensor(batch.indices), torch::ones({samples}, torch::kInt32));
    }
    sums = gradients_.run(ranks_, samples, sums);
    optimizer_.step();
    ++steps_;
    const double loss = sums[0].item<double>() / sums[1].item<double>();
    if (settings_.log_steps) {
      const torch::Tensor hash = torch::full({1}, samples_hash, torch::kInt64);
      ranks_.sum({hash});
      say("step %" PRId64 " loss %.6f samples %016" PRIx64, steps_, loss,
          static_cast<std::uint64_t>(hash.item<std::int64_t>()));
    }
    return loss;
  }

  void check_served(bool whole) {
    ranks_.sum({served_});
    const auto least = served_.min().item<std::int32_t>();
    const auto most = served_.max().item<std::int32_t>();
    served_.zero_();
    if (!whole) return;
    if (least != 1 || most != 1) {
      throw std::runtime_error("a sample came " + std::to_string(least == 1 ? most : least) +
                               " times in the epoch");
    }
    say("epoch %" PRId64 ": each of %" PRId64 " samples once", epoch_ + 1, dataset_.size());
  }

  std::uint64_t weights_hash() const {
    std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    for (const torch::Tensor& parameter : net_->parameters()) {
      const torch::Tensor values = parameter.detach().cpu().contiguous();
      const auto* const bytes = static_cast<const unsigned char*>(values.data_ptr());
      for (std::size_t i = 0; i < values.nbytes(); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3;
    }
    return hash;
  }

  // All ranks have the same state; one writes it under a new name first, so that a crash leaves the old file.
  void save() {
    if (settings_.checkpoint.empty() || ranks_.ranks().rank != 0) return;
    torch::serialize::OutputArchive archive, net, optimizer, loader;
    net_->save(net);
    optimizer_.save(optimizer);
    loader_->save(loader);
    archive.write("net", net);
    archive.write("optimizer", optimizer);
    archive.write("loader", loader);
    archive.write("steps", torch::tensor({steps_}, torch::kInt64));
    const std::string unfinished = settings_.checkpoint + ".part";
    archive.save_to(unfinished);
    std::filesystem::rename(unfinished, settings_.checkpoint);
    say("saved after step %" PRId64, steps_);
  }

  void resume() {
    const bool found = !settings_.checkpoint.empty() && std::filesystem::exists(settings_.checkpoint);
    ranks_.require_equal("the checkpoint (there or not; each rank reads it)", found ? 1 : 0);
    if (!found) return;
    torch::serialize::InputArchive archive, net, optimizer, loader;
    archive.load_from(settings_.checkpoint, device_);
    archive.read("net", net);
    archive.read("optimizer", optimizer);
    archive.read("loader", loader);
    net_->load(net);
    optimizer_.load(optimizer);
    loader_->load(loader);
    torch::Tensor steps;
    archive.read("steps", steps);
    steps_ = steps.item<std::int64_t>();
    const h5feed::LoaderState state = loader_->state();
    epoch_ = static_cast<std::int64_t>(state.epoch);
    begun_at_first_sample_ = state.position == 0;
    ranks_.require_equal("the number of steps in the checkpoint", static_cast<std::uint64_t>(steps_));
    ranks_.require_equal("the weights in the checkpoint", weights_hash());
    say("resumed after step %" PRId64, steps_);
  }

  const Settings settings_;
  const torch::Device device_;
  example::Communicator ranks_;
  const std::uint64_t seed_;
  const h5feed::Dataset dataset_;
  const std::unique_ptr<h5feed::TorchDataLoader> loader_;
  example::SmallCnn net_;
  torch::optim::SGD optimizer_;
  example::GradientSum gradients_;
  std::ofstream index_log_;  // closed: not asked for
  torch::Tensor served_;     // how often this rank has received each sample
  std::int64_t steps_ = 0;
  std::int64_t epoch_ = 0;
  bool begun_at_first_sample_ = true;  // the epoch in progress, in this process
};

int complain(const example::Ranks& ranks, const std::exception& error) {
  std::fprintf(stderr, "distributed: rank %d of %d: %s\n", ranks.rank, ranks.world_size,
               example::one_line(error).c_str());
  std::fflush(nullptr);
  return example::exit_code(error);
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Trains a small CNN on several processes, fed from an HDF5 file");
  const auto option = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->capture_default_str();
  };
  app.add_option("FILE", settings.file, "HDF5 file")->required();
  option("--data", settings.data, "Dataset of the images; default: the only one that looks like images");
  option("--target", settings.target, "Dataset of the labels");
  option("--classes", settings.classes, "Number of labels")->check(example::at_least(1));
  option("--global-batch", settings.global_batch, "Samples of one step, of all ranks together")
      ->check(example::at_least(1));
  option("--epochs", settings.epochs, "Passes over the data")->check(example::at_least(0));
  option("--num-workers", settings.num_workers,
         "Threads of each rank that read and decode; -1: chosen for it");
  option("--shuffle", settings.shuffle, "sequential, full or chunk:K");
  option("--seed", settings.seed, "Governs initial weights and order; default: drawn by rank 0");
  option("--learning-rate", settings.learning_rate, "Step size of SGD with momentum 0.9");
  option("--checkpoint", settings.checkpoint,
         "Resumed from where it exists; written by --save-every and --stop-after-steps");
  option("--save-every", settings.save_every, "Steps between two checkpoints; 0: none but that of a stop")
      ->check(example::at_least(0));
  option("--stop-after-steps", settings.stop_after_steps, "Save and stop there; 0: train to the end")
      ->check(example::at_least(0));
  option("--meet", settings.meeting_file, "Find the other ranks by this new file, not by MASTER_ADDR");
  option("--timeout", settings.timeout_s, "Seconds after which silent ranks count as gone")
      ->check(example::at_least(1));
  option("--device", settings.device, "auto, cpu or cuda: the GPU of each rank's local number");
  option("--backend", settings.backend,
         "What sums gradients on GPUs: auto (NCCL where LibTorch has it), gloo or nccl")
      ->check(CLI::IsMember({"auto", "gloo", "nccl"}));
  app.add_flag("--log-steps", settings.log_steps, "A line for each step");
  option("--log-indices", settings.log_indices,
         "Folder for a file of each rank, with a line for each step: its number, and those of its samples");
  option("--epoch-log", settings.epoch_log,
         "File to which each rank appends where the time of an epoch went");
  option("--stage-dir", settings.stage_dir,
         "Folder on a local disk; the file is copied there once per machine");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  // Gloo writes to sockets in such a way that one whose other end has died raises SIGPIPE, which would end
  // this rank without a word. Where the signal is ignored, as Python does, the write fails and Gloo throws an
  // exception.
  std::signal(SIGPIPE, SIG_IGN);
  example::Ranks ranks;
  try {
    ranks = example::ranks_from_environment();
    Training(settings, ranks).run();
  } catch (const std::exception& error) {
    return complain(ranks, error);
  }
  return 0;
}
