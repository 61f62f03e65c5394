// SPDX-License-Identifier: Apache-2.0
#include "store/format/retrying_source.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstddef>
#include <thread>
#include <utility>

namespace h5feed {
namespace {

thread_local std::uint64_t retries_of_thread = 0;

class RetryingSource final : public ByteSource {
 public:
  RetryingSource(std::shared_ptr<const ByteSource> source, const RetryWaits& waits)
      : source_(std::move(source)), waits_(waits) {}

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    repeat([&] { source_->read(offset, out); });
  }
  void read_scattered(std::uint64_t offset, std::span<const std::span<std::byte>> outs) const override {
    repeat([&] { source_->read_scattered(offset, outs); });
  }
  void will_need(std::uint64_t offset, std::uint64_t bytes) const noexcept override {
    source_->will_need(offset, bytes);
  }
  bool resident(std::uint64_t offset) const noexcept override { return source_->resident(offset); }
  std::uint64_t size() const noexcept override { return source_->size(); }
  std::uint64_t stored_bytes() const noexcept override { return source_->stored_bytes(); }

 private:
  template <typename Read>
  void repeat(const Read& read) const {
    for (const std::chrono::milliseconds wait : waits_) {
      try {
        read();
        return;
      } catch (const PassingReadError&) {
        ++retries_of_thread;
      }
      std::this_thread::sleep_for(wait);
    }
    try {
      read();
    } catch (const PassingReadError& error) {
      throw FileError(fmt::format("{}; {} tries failed", error.what(), waits_.size() + 1));
    }
  }

  const std::shared_ptr<const ByteSource> source_;
  const RetryWaits waits_;
};

}  // namespace

bool may_pass(int error) noexcept { return error == EIO || error == ESTALE || error == ETIMEDOUT; }

std::shared_ptr<const ByteSource> make_retrying(std::shared_ptr<const ByteSource> source,
                                                const RetryWaits& waits) {
  return std::make_shared<const RetryingSource>(std::move(source), waits);
}

std::uint64_t read_retries_of_thread() noexcept { return retries_of_thread; }

}  // namespace h5feed
