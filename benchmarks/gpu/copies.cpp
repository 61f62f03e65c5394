// SPDX-License-Identifier: Apache-2.0
// Copies from host to GPU: through the loader's own pinned slots and device buffers, compared with bare
// loops.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "cuda/cuda_device.hpp"
#include "cuda/memory/pinned_arena.hpp"
#include "cuda/runtime/handles.hpp"
#include "gpu/bench.hpp"
#include "h5feed/data_loader.hpp"

namespace h5feed::bench {
namespace {

using gpu::check;

// Sixteen copies of 16 MiB take 5 ms, longer than the 3 ms for which the system may run another thread
// instead.
constexpr std::size_t kSlots = 16;
constexpr std::size_t kDepth = 16;

/// A bare loop of `cudaMemcpyAsync` from memory of cudaHostAlloc, with as many buffers as the ring. The ring
/// may pin its memory in another way.
class BareLoop {
 public:
  BareLoop(std::size_t bytes, int device)
      : bytes_(bytes),
        guard_(device),
        stream_(gpu::make_stream(device)),
        host_(kSlots * bytes, device, 4, gpu::Pinning::allocated) {
    for (std::size_t i = 0; i < kSlots; ++i) device_.push_back(gpu::make_device_memory(bytes, device));
  }

  double bytes_per_second(std::uint64_t batches) {
    check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize", {});
    const Seconds clock;
    for (std::uint64_t i = 0; i < batches; ++i) {
      const std::size_t slot = i % kSlots;
      check(cudaMemcpyAsync(device_[slot].get(), host_.data() + slot * bytes_, bytes_, cudaMemcpyHostToDevice,
                            stream_.get()),
            "cudaMemcpyAsync", {});
    }
    check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize", {});
    return static_cast<double>(bytes_ * batches) / clock.elapsed();
  }
  bool pinned() const noexcept { return host_.pinning() != gpu::Pinning::pageable; }

 private:
  std::size_t bytes_;
  gpu::DeviceGuard guard_;
  gpu::Stream stream_;
  gpu::PinnedArena host_;
  std::vector<gpu::DeviceMemory> device_;
};

/// The path of a batch from a full slot to the consumer's stream, without a loader that fills slots.
class Ring {
 public:
  Ring(std::size_t bytes, DType dtype, int device) : elements_(bytes / size_of(dtype)), dtype_(dtype) {
    gpu::CudaDeviceSettings settings;
    settings.device = device;
    settings.format.slot = {bytes, 0};
    settings.format.from = settings.format.to = dtype;
    settings.format.sizes = {1, elements_, 1, elements_};
    settings.capacity = {.host_slots = kSlots, .depth = kDepth};
    settings.poison = false;
    device_ = gpu::make_cuda_device(settings);
    const gpu::DeviceGuard guard(device);
    consumer_ = gpu::make_stream(device);
  }

  double batches_per_second(std::uint64_t batches) {
    check(cudaStreamSynchronize(consumer_.get()), "cudaStreamSynchronize", {});
    const Seconds clock;
    for (std::uint64_t i = 0; i < batches; ++i, ++ticket_) {
      auto assembled = std::make_shared<Batch>();
      assembled->data = device_->acquire_slot({}).data;
      assembled->data.dtype = dtype_;
      assembled->data.shape = {1, static_cast<std::int64_t>(elements_)};
      assembled->indices = {0};
      assembled->number = ticket_;
      device_->stage(ticket_, assembled);
      const Batch batch = device_->deliver(ticket_, std::move(*assembled), {});
      batch.gpu->use_on(consumer_.get());
    }
    check(cudaStreamSynchronize(consumer_.get()), "cudaStreamSynchronize", {});
    return static_cast<double>(batches) / clock.elapsed();
  }

 private:
  std::size_t elements_;
  DType dtype_;
  std::unique_ptr<Device> device_;
  gpu::Stream consumer_;
  std::uint64_t ticket_ = 0;
};

/// Decodes with all workers until it is destroyed.
class Load {
 public:
  Load(const Dataset& data, const DataLoaderOptions& options) : loader_(data, options) {
    loader_.next();  // returns once the workers are running
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) loader_.next();
    });
  }

 private:
  DataLoader loader_;
  std::jthread thread_;
};

std::uint64_t batches_of(const Bench& bench, std::uint64_t batch_bytes) {
  return std::max<std::uint64_t>(kSlots, bench.sizes.copied_bytes / batch_bytes);
}

}  // namespace

std::vector<Row> measure_h2d_idle(Bench& bench) {
  const auto pairs_at = [&](std::uint64_t bytes, Ring& ring, BareLoop& bare) {
    const std::uint64_t batches = batches_of(bench, bytes);
    return alternate(
        bench.sizes.repetitions,
        [&] { return static_cast<double>(bytes) * ring.batches_per_second(batches); },
        [&] { return bare.bytes_per_second(batches); });
  };
  const std::uint64_t bytes = bench.sizes.copy_bytes;
  const std::uint64_t large_bytes = 4 * bytes;
  std::vector<Row> rows;
  Ring ring(bytes, DType::u8, bench.device);
  BareLoop bare(bytes, bench.device);
  rows.push_back(
      {.name = "h2d_idle",
       .unit = "B/s",
       .pairs = pairs_at(bytes, ring, bare),
       .note = fmt::format("ring against a bare cudaMemcpyAsync loop from {}, {} B a batch, {} slots",
                           bare.pinned() ? "pinned memory" : "PAGEABLE memory: nothing can be pinned here",
                           bytes, kSlots)});
  {
    Ring large(large_bytes, DType::u8, bench.device);
    BareLoop large_bare(large_bytes, bench.device);
    rows.push_back({.name = "h2d_idle_large",
                    .unit = "B/s",
                    .pairs = pairs_at(large_bytes, large, large_bare),
                    .note = fmt::format("as h2d_idle, {} B a batch", large_bytes)});
  }
  return rows;
}

std::vector<Row> measure_h2d_loaded(Bench& bench) {
  const std::uint64_t bytes = bench.sizes.copy_bytes;
  std::vector<Row> rows;
  Ring ring(bytes, DType::u8, bench.device);
  BareLoop bare(bytes, bench.device);
  // The ceiling is the loop on an idle machine; the slowdown of the loop itself has its own row.
  const Dataset data = Dataset::open({.files = {bench.images("gzip:4")}, .data = "images"});
  const std::uint64_t batches = batches_of(bench, bytes);
  const auto under_load = [&](const auto& measure) {
    const Load load(data, bench.decoding_options(bench.sizes.batch_size));
    return measure();
  };
  rows.push_back(
      {.name = "h2d_loaded",
       .unit = "B/s",
       .pairs = alternate(
           bench.sizes.repetitions,
           [&] {
             return under_load([&] { return static_cast<double>(bytes) * ring.batches_per_second(batches); });
           },
           [&] { return bare.bytes_per_second(batches); }),
       .note = fmt::format("ring while {} workers decode gzip, against the bare loop on an idle machine",
                           bench.workers)});
  rows.push_back({.name = "h2d_loaded_bare",
                  .unit = "B/s",
                  .pairs = alternate(
                      bench.sizes.repetitions,
                      [&] { return under_load([&] { return bare.bytes_per_second(batches); }); },
                      [&] { return bare.bytes_per_second(batches); }),
                  .note = "the bare loop while the workers decode, against itself on an idle machine"});
  return rows;
}

std::vector<Row> measure_u8_against_f32(Bench& bench) {
  const std::uint64_t elements = bench.sizes.copy_bytes;
  const std::uint64_t batches = batches_of(bench, 4 * elements);
  Ring small(elements, DType::u8, bench.device);
  Ring large(4 * elements, DType::f32, bench.device);
  BareLoop small_bare(elements, bench.device);
  BareLoop large_bare(4 * elements, bench.device);
  return {
      {.name = "u8_vs_f32_h2d",
       .unit = "times",
       .pairs = alternate(
           bench.sizes.repetitions,
           [&] { return small.batches_per_second(batches) / large.batches_per_second(batches); },
           [&] { return 4 * small_bare.bytes_per_second(batches) / large_bare.bytes_per_second(batches); }),
       .note =
           fmt::format("time of batches of {} float32 over that of as many uint8, through the ring; ceiling: "
                       "the same of bare loops",
                       elements)}};
}

}  // namespace h5feed::bench
