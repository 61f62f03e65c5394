// SPDX-License-Identifier: Apache-2.0
// Limits what examining a file may read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>

#include "store/format/byte_source.hpp"

namespace h5feed {

/// The bytes of a file, of which several times as many may be read as there are: structures of an intact file
/// are read once or twice, and those of a damaged one may lead to the same bytes again and again. Borrows the
/// source. Not thread-safe.
class BoundedSource final : public ByteSource {
 public:
  /// Thrown by a read that goes beyond the bound.
  struct Exhausted final : std::exception {
    const char* what() const noexcept override {
      return "its structures lead to the same bytes again and again";
    }
  };

  explicit BoundedSource(const ByteSource& source)
      : source_(source), left_(8 * source.size() + (1U << 20U)) {}

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    constexpr std::size_t kLeast = 64;  // Short reads take time, too
    const std::size_t cost = std::max(out.size(), kLeast);
    if (cost > left_) throw Exhausted();
    left_ -= cost;
    source_.read(offset, out);
  }

  std::uint64_t size() const noexcept override { return source_.size(); }

 private:
  const ByteSource& source_;
  mutable std::uint64_t left_;
};

}  // namespace h5feed
