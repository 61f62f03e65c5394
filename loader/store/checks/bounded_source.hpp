// SPDX-License-Identifier: Apache-2.0
// Limits what examining a file may read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>

#include "base/interrupt.hpp"
#include "store/format/byte_source.hpp"

namespace h5feed {

/// The bytes of a file, of which several times as many may be read as there are: structures of an intact file
/// are read once or twice, and those of a damaged one may lead to the same bytes again and again, or to the
/// holes of a sparse file. Borrows the source. Not thread-safe.
class BoundedSource final : public ByteSource {
 public:
  /// Thrown by a read that goes beyond the bound.
  struct Exhausted final : std::exception {
    const char* what() const noexcept override {
      return "its structures overlap, so that examining them would take many times the bytes that it has";
    }
  };

  /// With `may_stop`, every MiB that is read calls `check_interrupt`, and throws what that throws.
  explicit BoundedSource(const ByteSource& source, bool may_stop = false)
      : source_(source), may_stop_(may_stop), left_(bound_of(source)) {}

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    constexpr std::size_t kLeast = 64;  // Short reads take time, too
    constexpr std::uint64_t kStepBytes = std::uint64_t{1} << 20;
    const std::size_t cost = std::max(out.size(), kLeast);
    if (cost > left_) throw Exhausted();
    left_ -= cost;
    unchecked_ += cost;
    if (may_stop_ && unchecked_ >= kStepBytes) {
      unchecked_ = 0;
      check_interrupt();
    }
    source_.read(offset, out);
  }

  std::uint64_t size() const noexcept override { return source_.size(); }

 private:
  // What is not stored is no reason to read for long. A file system may not have stored yet what was written,
  // or compress it, so that a quarter of a GiB may be read of any file.
  static std::uint64_t bound_of(const ByteSource& source) noexcept {
    constexpr std::uint64_t kTimes = 8, kMiB = std::uint64_t{1} << 20;
    const std::uint64_t stored =
        std::clamp<std::uint64_t>(kTimes * source.stored_bytes(), 256 * kMiB, 8192 * kMiB);
    return std::min(kTimes * source.size() + 4 * kMiB, stored);
  }

  const ByteSource& source_;
  const bool may_stop_;
  mutable std::uint64_t left_;
  mutable std::uint64_t unchecked_ = 0;  // Read since the last call of `check_interrupt`
};

}  // namespace h5feed
