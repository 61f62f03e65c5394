// SPDX-License-Identifier: Apache-2.0
// An epoch that computes while it loads, compared with the longer of the two alone.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "cuda/runtime/handles.hpp"
#include "gpu/bench.hpp"
#include "gpu/kernels.hpp"
#include "h5feed/device.hpp"
#include "h5feed/gpu.hpp"
#include "tools/measure/statistics.hpp"

namespace h5feed::bench {
namespace {

using gpu::check;

class Consumer {
 public:
  explicit Consumer(int device) : guard_(device), stream_(gpu::make_stream(device)), device_(device) {
    check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device),
          "cudaDeviceGetAttribute", {device});
  }

  /// Returns the seconds of an epoch whose every batch is processed for `nanoseconds`; 0: only waits for
  /// batches.
  double epoch(DataLoader& loader, std::uint64_t nanoseconds) {
    const Seconds clock;
    while (const auto batch = loader.next()) {
      batch->gpu->use_on(stream_.get());
      compute(nanoseconds);
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

}  // namespace

std::vector<Row> measure_overlap(Bench& bench) {
  const Dataset data =
      Dataset::open({.files = {bench.images("gzip:4")}, .data = "images", .target = "labels"});
  DataLoaderOptions options = bench.decoding_options(bench.sizes.batch_size);
  options.shuffle = bench.window();
  options.cache_bytes = std::uint64_t{2} << 30;  // holds the chunks of a window, never the whole file
  options.cache_policy = CachePolicy::lru;
  options.normalize = Normalize{.mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}};
  options.device = gpu::device(fmt::format("cuda:{}", bench.device));
  DataLoader loader(data, options);
  Consumer consumer(bench.device);
  const std::uint64_t batches = loader.size();

  consumer.epoch(loader, 1000);
  std::vector<double> loads;
  for (int i = 0; i < 3; ++i) loads.push_back(consumer.epoch(loader, 0));
  const double load_s = cli::median(loads);

  std::vector<Row> rows;
  Row worst{.name = "overlap_worst", .unit = "s"};
  for (const double factor : {0.5, 1.0, 2.0}) {
    const auto nanoseconds =
        static_cast<std::uint64_t>(std::max(1.0, factor * load_s / static_cast<double>(batches) * 1e9));
    Row row{.name = fmt::format("overlap_{}", factor), .unit = "s"};
    row.pairs = alternate(
        bench.sizes.epoch_repetitions, [&] { return consumer.epoch(loader, nanoseconds); },
        [&] { return std::max(consumer.epoch(loader, 0), consumer.compute_alone(batches, nanoseconds)); });
    row.note = fmt::format(
        "epoch of {} batches, a kernel of {} ns each; against the longer of loading and computing alone",
        batches, nanoseconds);
    if (worst.pairs.values.empty() || row.ratio() > worst.ratio()) {
      worst.pairs = row.pairs;
      worst.note = row.name + ": " + row.note;
    }
    rows.push_back(std::move(row));
  }
  rows.push_back(std::move(worst));
  return rows;
}

}  // namespace h5feed::bench
