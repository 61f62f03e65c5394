// SPDX-License-Identifier: Apache-2.0
// Sources of bytes whose reads fail for a moment, or for good in a part of the file.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "h5feed/error.hpp"
#include "store/format/byte_source.hpp"
#include "store/format/retrying_source.hpp"

namespace h5feed::test {

/// Returns a source of `size` bytes; byte i has the value i.
inline std::shared_ptr<const ByteSource> bytes_source(std::uint64_t size) {
  class Counted final : public ByteSource {
   public:
    explicit Counted(std::uint64_t bytes) : bytes_(bytes) {}
    void read(std::uint64_t offset, std::span<std::byte> out) const override {
      if (offset + out.size() > bytes_) throw FileError("flaky: the file ended");
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(offset + i);
    }
    std::uint64_t size() const noexcept override { return bytes_; }

   private:
    const std::uint64_t bytes_;
  };
  return std::make_shared<Counted>(size);
}

/// Forwards reads to another source, except that some fail as if storage were away for a moment. Thread-safe.
class FlakySource final : public ByteSource {
 public:
  /// The first `failures` reads fail.
  FlakySource(std::shared_ptr<const ByteSource> source, int failures)
      : source_(std::move(source)), failures_(failures) {}

  /// Makes the next `failures` reads fail.
  void fail_next(int failures) { failures_ = failures; }
  /// Number of reads so far, failed ones included.
  std::uint64_t reads() const noexcept { return reads_; }

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    ++reads_;
    if (failures_.fetch_sub(1) > 0) throw PassingReadError("flaky: no answer");
    source_->read(offset, out);
  }
  std::uint64_t size() const noexcept override { return source_->size(); }

 private:
  const std::shared_ptr<const ByteSource> source_;
  mutable std::atomic<int> failures_;
  mutable std::atomic<std::uint64_t> reads_ = 0;
};

/// Forwards reads to another source, except that those of bytes [begin, end) fail. Thread-safe.
class HoleSource final : public ByteSource {
 public:
  HoleSource(std::shared_ptr<const ByteSource> source, std::uint64_t begin, std::uint64_t end)
      : source_(std::move(source)), begin_(begin), end_(end) {}

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (offset < end_ && begin_ < offset + out.size()) throw FileError("a hole in the disk");
    source_->read(offset, out);
  }
  std::uint64_t size() const noexcept override { return source_->size(); }

 private:
  const std::shared_ptr<const ByteSource> source_;
  const std::uint64_t begin_;
  const std::uint64_t end_;
};

}  // namespace h5feed::test
