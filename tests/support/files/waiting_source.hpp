// SPDX-License-Identifier: Apache-2.0
// Slow storage: a source of bytes whose reads take a while.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <utility>

#include "store/format/byte_source.hpp"

namespace h5feed::test {

/// Forwards reads to another source, each after a wait, in which the reading thread sleeps. Thread-safe.
class WaitingSource final : public ByteSource {
 public:
  WaitingSource(std::shared_ptr<const ByteSource> source, std::chrono::microseconds wait)
      : source_(std::move(source)), wait_(wait) {}

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    std::this_thread::sleep_for(wait_);
    source_->read(offset, out);
  }
  std::uint64_t size() const noexcept override { return source_->size(); }

 private:
  const std::shared_ptr<const ByteSource> source_;
  const std::chrono::microseconds wait_;
};

}  // namespace h5feed::test
