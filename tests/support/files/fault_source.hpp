// SPDX-License-Identifier: Apache-2.0
// A file whose reads fail on command.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "store/format/byte_source.hpp"

namespace h5feed::test {

/// Faults to inject. Reads are counted from 0 over all threads.
struct Fault {
  std::optional<std::uint64_t> failing_read = {};  ///< read that throws FileError, as for an I/O error
  /// Read that delivers half, then throws as at the end of the file.
  std::optional<std::uint64_t> short_read = {};
};

/// Forwards reads to another source, except for the faults that `Fault` names. Thread-safe.
class FaultSource final : public ByteSource {
 public:
  FaultSource(std::shared_ptr<const ByteSource> source, Fault fault);

  /// Reads from the other source; blocks for it. Throws FileError.
  void read(std::uint64_t offset, std::span<std::byte> out) const override;
  std::uint64_t size() const noexcept override { return source_->size(); }

  /// Number of reads so far.
  std::uint64_t reads() const noexcept { return reads_; }

 private:
  const std::shared_ptr<const ByteSource> source_;
  const Fault fault_;
  mutable std::atomic<std::uint64_t> reads_ = 0;
};

}  // namespace h5feed::test
