// SPDX-License-Identifier: Apache-2.0
// A stand-in for slow storage.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "h5feed/dataset.hpp"
#include "store/format/byte_source.hpp"

namespace h5feed::benchmarks {

/// Reads another source after a delay. Any number of reads wait at the same time. Thread-safe.
class DelayedSource final : public ByteSource {
 public:
  DelayedSource(std::shared_ptr<const ByteSource> source, std::chrono::milliseconds delay)
      : source_(std::move(source)), delay_(delay) {}

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    std::this_thread::sleep_for(delay_);
    source_->read(offset, out);
  }
  std::uint64_t size() const noexcept override { return source_->size(); }

 private:
  const std::shared_ptr<const ByteSource> source_;
  const std::chrono::milliseconds delay_;
};

/// Opens a dataset each of whose reads takes `delay` longer; 0 opens it as it is.
inline Dataset open_delayed(const DatasetOptions& options, std::chrono::milliseconds delay) {
  return DatasetAccess::open(options, [delay](auto source) {
    return delay.count() > 0 ? std::make_shared<const DelayedSource>(source, delay)
                             : std::shared_ptr<const ByteSource>(source);
  });
}

}  // namespace h5feed::benchmarks
