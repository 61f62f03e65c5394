// SPDX-License-Identifier: Apache-2.0
// Batches for tests of CudaDevice: filled with a pattern, passed to a consumer, compared there.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "batch/device.hpp"
#include "batch/device_backend.hpp"
#include "cuda/cuda_device.hpp"
#include "cuda/kernels/normalize.hpp"
#include "cuda/runtime/handles.hpp"
#include "h5feed/device.hpp"
#include "support/fakes/fake_cuda.hpp"

namespace h5feed::test {

/// Kind of batch: images of 3 channels, stored as (pixels, channels), uint8 labels that are delivered as
/// int64, and a named field of `kMarks` bytes for each sample.
struct BatchKind {
  static constexpr std::int64_t kMarks = 5;

  std::int64_t samples = 4;
  std::int64_t pixels = 20;
  bool target = true;

  /// Returns the format of these batches: normalized to float32, labels to int64.
  DeviceFormat format() const {
    DeviceFormat format;
    format.slot = {static_cast<std::size_t>(samples * pixels * 3),
                   static_cast<std::size_t>(target ? samples : 0),
                   {static_cast<std::size_t>(samples * kMarks)}};
    format.to = DType::f32;
    format.rows = static_cast<std::uint64_t>(samples);
    format.channels = 3;
    const auto width = static_cast<std::uint64_t>(pixels);
    format.sizes = {1, width, 1, width};
    format.in_channels_last = true;
    format.normalize =
        NormalizeParameters{.scale = 1.0 / 255, .mean = {0.5, 0.4, 0.3}, .std = {0.2, 0.3, 0.4}};
    format.target_from = DType::u8;
    return format;
  }

  /// Returns settings for a CudaDevice that delivers these batches.
  gpu::CudaDeviceSettings settings(std::size_t host_slots, std::size_t depth, bool poison = false) const {
    gpu::CudaDeviceSettings settings;
    settings.format = format();
    settings.capacity = {host_slots, depth};
    settings.touch_threads = 2;
    settings.poison = poison;
    settings.check_sources = false;
    return settings;
  }

  /// Returns byte `i` of batch `ticket`.
  static std::uint8_t byte_of(std::uint64_t ticket, std::int64_t i) {
    return static_cast<std::uint8_t>((ticket * 131 + static_cast<std::uint64_t>(i) * 7 + (ticket >> 3)) %
                                     251);
  }

  /// Returns byte `i` of the field of batch `ticket`.
  static std::uint8_t mark_of(std::uint64_t ticket, std::int64_t i) { return byte_of(ticket, i + 100); }

  /// Fills in all of a batch of `size` samples except the images.
  void put_labels(Batch& batch, BatchSlot& slot, std::uint64_t ticket, std::int64_t size) const {
    if (target) {
      batch.target = std::move(slot.target);
      batch.target.dtype = DType::u8;
      batch.target.shape = {size};
      for (std::int64_t i = 0; i < size; ++i)
        batch.target.bytes.get()[i] = static_cast<std::byte>(byte_of(ticket, i));
    }
    BatchField& marks = batch.fields.emplace_back();
    marks.name = "marks";
    marks.values = {std::move(slot.fields.at(0)), DType::u8, {size, kMarks}};
    for (std::int64_t i = 0; i < size * kMarks; ++i)
      marks.values.bytes.get()[i] = static_cast<std::byte>(mark_of(ticket, i));
  }

  /// Assembles batch `ticket` in a slot of `device`, with `count` samples if set: the last batch of an epoch
  /// may be smaller.
  std::shared_ptr<Batch> assemble(Device& device, std::uint64_t ticket,
                                  std::optional<std::int64_t> count = {}) const {
    auto batch = std::make_shared<Batch>();
    const std::int64_t size = count.value_or(samples);
    BatchSlot slot = device.acquire_slot({.batch = ticket});
    batch->data = std::move(slot.data);
    batch->data.dtype = DType::u8;
    batch->data.shape = {size, 3, pixels};
    for (std::int64_t i = 0; i < size * pixels * 3; ++i) {
      batch->data.bytes.get()[i] = static_cast<std::byte>(byte_of(ticket, i));
    }
    put_labels(*batch, slot, ticket, size);
    for (std::int64_t i = 0; i < size; ++i)
      batch->indices.push_back(static_cast<std::int64_t>(ticket) * samples + i);
    batch->number = ticket;
    return batch;
  }

  /// Returns whether device memory holds batch `ticket`, bit for bit.
  bool holds(const DeviceTensors& batch, std::uint64_t ticket) const {
    const std::vector<float> table = normalize_table(*format().normalize);
    const std::int64_t size = batch.data.shape[0];
    const auto* const values = static_cast<const float*>(batch.data.data);
    const auto* const marks = static_cast<const std::uint8_t*>(batch.fields.at(0).values.data);
    for (std::int64_t n = 0; n < size; ++n) {
      for (std::int64_t c = 0; c < 3; ++c) {
        for (std::int64_t p = 0; p < pixels; ++p) {
          const auto x = static_cast<std::size_t>(byte_of(ticket, (n * pixels + p) * 3 + c));
          if (values[(n * 3 + c) * pixels + p] != table[static_cast<std::size_t>(c) * 256 + x]) return false;
        }
      }
      if (target && static_cast<const std::int64_t*>(batch.target->data)[n] != byte_of(ticket, n))
        return false;
    }
    for (std::int64_t i = 0; i < size * kMarks; ++i) {
      if (marks[i] != mark_of(ticket, i)) return false;
    }
    return true;
  }
};

/// A consumer whose kernels compare batches: counts those that were wrong when the kernel ran.
class Consumer {
 public:
  Consumer(FakeCuda& cuda, BatchKind kind) : cuda_(cuda), kind_(kind) {}

  /// Enqueues a check of the batch on `stream`.
  void use(const Batch& batch, std::uint64_t ticket, cudaStream_t stream) {
    batch.gpu->use_on(stream);
    cuda_.enqueue(stream, [this, tensors = batch.gpu->tensors(), ticket] {
      ++seen_;
      if (!kind_.holds(tensors, ticket)) ++wrong_;
    });
  }

  /// Number of batches compared so far.
  int seen() const { return seen_; }
  /// Number of batches that were wrong so far.
  int wrong() const { return wrong_; }

 private:
  FakeCuda& cuda_;
  const BatchKind kind_;
  std::atomic<int> seen_ = 0;
  std::atomic<int> wrong_ = 0;
};

/// A stream of the consumer on a device of the fake runtime.
class TestStream {
 public:
  explicit TestStream(int device = 0) {
    const gpu::DeviceGuard guard(device);
    stream_ = gpu::make_stream(device);
  }
  cudaStream_t get() const { return stream_.get(); }
  void wait() const { gpu::check(cudaStreamSynchronize(get()), "cudaStreamSynchronize", {0}); }

 private:
  gpu::Stream stream_;
};

}  // namespace h5feed::test
