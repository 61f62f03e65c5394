// SPDX-License-Identifier: Apache-2.0
// Fixture of the tests of RowStore.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cuda/memory/row_store.hpp"
#include "cuda/runtime/handles.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/gpu/device_batches.hpp"
#include "support/gpu/gpu_deliveries.hpp"
#include "support/gpu/known_order.hpp"

namespace h5feed::test {

/// Number of samples that a store of the tests reckons with.
inline constexpr std::uint64_t kManySamples = 1 << 20;
/// Memory that a store leaves free on the GPU of the tests.
inline constexpr std::uint64_t kReserve = (std::uint64_t{1} << 20) / 16;

/// A store on a GPU of 1 MiB, and batches in device memory to keep: every byte of a sample is its number.
class RowStores : public testing::Test {
 protected:
  gpu::RowStore& make(std::size_t row_bytes, GpuCacheBytes size, Foresee foresee = {}) {
    row_bytes_ = row_bytes;
    const gpu::RowStore::Settings settings{.row_bytes = row_bytes,
                                           .samples = kManySamples,
                                           .copies = stream_.get(),
                                           .size = size,
                                           .foresee = std::move(foresee)};
    store_ = std::make_unique<gpu::RowStore>(settings, ledger_);
    return *store_;
  }

  // A store with room for so many samples, which come in `order_`.
  gpu::RowStore& make_foreseeing(std::uint64_t rows, std::vector<std::int64_t> samples) {
    order_.samples = std::move(samples);
    order_.past = 0;
    order_.end.reset();
    return make(256, rows * 256, order_.foresee());
  }

  // Serves and keeps the next `count` samples of `order_`, as their batch; returns how many were served.
  std::size_t keep_next(std::uint64_t count) {
    std::vector<std::int64_t> copied, served;
    for (; count > 0; --count, ++order_.past) {
      const std::int64_t sample = order_.samples[order_.past];
      (store_->holds(sample) ? served : copied).push_back(sample);
    }
    keep(copied, served, order_.past);
    return served.size();
  }

  void keep(const std::vector<std::int64_t>& samples, const std::vector<std::int64_t>& served = {},
            std::uint64_t end_turn = 0) {
    const gpu::DeviceGuard guard(0);
    batches_.emplace_back(samples.size() * row_bytes_, 0);
    auto* const rows = static_cast<std::byte*>(batches_.back().get());
    for (std::size_t i = 0; i < samples.size(); ++i)
      std::fill_n(rows + i * row_bytes_, row_bytes_, static_cast<std::byte>(samples[i]));
    store_->keep(samples, served, end_turn, rows, {});
  }

  // Returns the first and last byte of each kept row; −1 where there is none.
  std::vector<int> found(const std::vector<std::int64_t>& samples) {
    stream_.wait();
    std::vector<int> bytes;
    const auto rows = store_->find(samples);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const bool kept = rows && (*rows)[i];
      EXPECT_EQ(store_->holds(samples[i]), kept);
      const std::byte* const row = kept ? (*rows)[i].enter().on_device : nullptr;
      bytes.push_back(kept ? static_cast<int>(row[0]) : -1);
      if (kept) {
        EXPECT_EQ(row[row_bytes_ - 1], row[0]);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(row) % 16, 0u);
      }
    }
    return bytes;
  }

  void deliver(int batches) {
    const gpu::DeviceGuard guard(0);
    for (int i = 0; i < batches; ++i) store_->delivered(0);
  }

  FakeCuda cuda_{{.memory_bytes = std::size_t{1} << 20}};
  const std::shared_ptr<gpu::MemoryLedger> ledger_ = std::make_shared<gpu::MemoryLedger>();
  TestStream stream_;
  std::size_t row_bytes_ = 0;
  KnownOrder order_;
  std::vector<GpuBuffer> batches_;
  std::unique_ptr<gpu::RowStore> store_;
};

}  // namespace h5feed::test
