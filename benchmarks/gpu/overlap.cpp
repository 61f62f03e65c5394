// SPDX-License-Identifier: Apache-2.0
// Epochs that compute while they load, compared with the longer of the two alone.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "cuda/runtime/handles.hpp"
#include "gpu/bench.hpp"
#include "gpu/kernels.hpp"
#include "h5feed/device.hpp"
#include "h5feed/gpu.hpp"

namespace h5feed::bench {
namespace {

using gpu::check;

class Consumer {
 public:
  explicit Consumer(int device) : guard_(device), stream_(gpu::make_stream(device)), device_(device) {
    check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device),
          "cudaDeviceGetAttribute", {device});
  }

  /// Returns the seconds of `count` epochs on end, whose every batch is processed for `nanoseconds`; 0: only
  /// waits for batches.
  double epochs(int count, DataLoader& loader, std::uint64_t nanoseconds) {
    const Seconds clock;
    for (int i = 0; i < count; ++i) {
      while (const auto batch = loader.next()) {
        batch->gpu->use_on(stream_.get());
        compute(nanoseconds);
      }
    }
    return finish(clock);
  }

  double compute_alone(std::uint64_t batches, std::uint64_t nanoseconds) {
    const Seconds clock;
    for (std::uint64_t i = 0; i < batches; ++i) compute(nanoseconds);
    return finish(clock);
  }

 private:
  void compute(std::uint64_t nanoseconds) {
    if (nanoseconds > 0) check(launch_spin(nanoseconds, multiprocessors_, stream_.get()), "spin", {device_});
  }
  double finish(const Seconds& clock) {
    check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize", {device_});
    return clock.elapsed();
  }

  gpu::DeviceGuard guard_;
  gpu::Stream stream_;
  int device_;
  int multiprocessors_ = 1;
};

Dataset images_and_labels(Bench& bench) {
  const auto file = bench.file({.samples = bench.sizes.overlap_samples, .side = bench.sizes.side});
  return Dataset::open({.files = {file}, .data = "images", .target = "labels"});
}

DataLoaderOptions delivered_options(const Bench& bench) {
  DataLoaderOptions options = bench.decoding_options(bench.sizes.batch_size);
  options.normalize = Normalize{.mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}};
  options.device = gpu::device(fmt::format("cuda:{}", bench.device));
  return options;
}

}  // namespace

std::vector<Row> measure_overlap(Bench& bench) {
  DataLoaderOptions options = delivered_options(bench);
  options.shuffle = bench.window();
  options.cache_bytes = std::uint64_t{256}
                        << 20;  // holds the chunks of a window, a fifth of the file at most
  options.cache_policy = CachePolicy::lru;
  DataLoader loader(images_and_labels(bench), options);
  Consumer consumer(bench.device);
  const int epochs = bench.sizes.epochs_on_end;
  const std::uint64_t batches = loader.size() * static_cast<std::uint64_t>(epochs);

  consumer.epochs(1, loader, 1000);
  const double load_s = consumer.epochs(epochs, loader, 0);

  std::vector<Row> rows;
  Row worst{.name = "overlap_worst", .unit = "s"};
  for (const double factor : {0.5, 1.0, 2.0}) {
    const auto nanoseconds =
        static_cast<std::uint64_t>(std::max(1.0, factor * load_s / static_cast<double>(batches) * 1e9));
    Row row{.name = fmt::format("overlap_{}", factor), .unit = "s"};
    row.pairs = alternate(
        bench.sizes.epoch_repetitions, [&] { return consumer.epochs(epochs, loader, nanoseconds); },
        [&] {
          return std::max(consumer.epochs(epochs, loader, 0), consumer.compute_alone(batches, nanoseconds));
        });
    row.note = fmt::format(
        "{} epochs on end, {} batches, a kernel of {} ns each; against the longer of loading and computing "
        "alone",
        epochs, batches, nanoseconds);
    if (worst.pairs.values.empty() || row.ratio() > worst.ratio()) {
      worst.pairs = row.pairs;
      worst.note = row.name + ": " + row.note;
    }
    rows.push_back(std::move(row));
  }
  rows.push_back(std::move(worst));
  return rows;
}

std::vector<Row> measure_cached_epoch(Bench& bench) {
  DataLoaderOptions options = delivered_options(bench);
  options.shuffle = true;
  options.augment = Augment{.horizontal_flip = 0.5, .random_crop = Augment::RandomCrop{.padding = 4}};
  // As many bytes again: a row of the cache may be a little longer than a sample.
  options.gpu_cache_bytes = 2 * bench.sizes.overlap_samples * 3 * bench.sizes.side * bench.sizes.side;
  DataLoader loader(images_and_labels(bench), options);
  Consumer consumer(bench.device);
  const int epochs = bench.sizes.epochs_on_end;
  const std::uint64_t batches = loader.size() * static_cast<std::uint64_t>(epochs);
  const auto nanoseconds =
      static_cast<std::uint64_t>(std::chrono::nanoseconds(bench.sizes.cached_step).count());

  // In the second epoch, batches that were planned before the end of the first are still copied.
  consumer.epochs(2, loader, 1000);
  const LoaderStats filled = loader.stats();
  Row row{.name = "epoch_cached", .unit = "s"};
  row.pairs = alternate(
      bench.sizes.epoch_repetitions, [&] { return consumer.epochs(epochs, loader, nanoseconds); },
      [&] { return consumer.compute_alone(batches, nanoseconds); });
  const LoaderStats stats = loader.stats();
  if (stats.gpu_cache_hits - filled.gpu_cache_hits != stats.samples - filled.samples) {
    throw std::runtime_error("not all samples stayed on the GPU: it has too little free memory");
  }
  row.note = fmt::format(
      "{} epochs on end, {} batches, a kernel of {} ns each, all samples on the GPU; against computing alone",
      epochs, batches, nanoseconds);
  return {row};
}

}  // namespace h5feed::bench
