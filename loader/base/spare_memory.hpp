// SPDX-License-Identifier: Apache-2.0
// Memory of a budget that nothing has claimed, lent for a while.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/mutex.hpp"

namespace h5feed {

/// Lends the bytes of a memory budget that no fixed part of it claims. Decodes borrow from it what they need
/// beyond the memory that the budget counts for each of them, such as that of a large photograph.
/// Thread-safe.
class SpareMemory {
 public:
  /// Borrowed bytes, which are returned on destruction. Move-only; must not outlive the SpareMemory.
  class Loan {
   public:
    Loan(Loan&& other) noexcept : from_(std::exchange(other.from_, nullptr)), bytes_(other.bytes_) {}
    Loan& operator=(Loan&&) = delete;
    ~Loan() {
      if (from_ != nullptr) from_->give_back(bytes_);
    }

   private:
    friend class SpareMemory;
    Loan(SpareMemory& from, std::uint64_t bytes) noexcept : from_(&from), bytes_(bytes) {}

    SpareMemory* from_;  // null once moved from
    std::uint64_t bytes_;
  };

  /// The budget, and how much of it is spare, in bytes.
  struct Size {
    std::uint64_t budget = 0;
    std::uint64_t spare = 0;
  };

  SpareMemory() = default;
  SpareMemory(const SpareMemory&) = delete;
  SpareMemory& operator=(const SpareMemory&) = delete;

  /// Changes the size. Loans that are out stay valid; waiting calls of `borrow` follow the new size.
  void resize(const Size& size) noexcept H5FEED_EXCLUDES(mutex_);

  /// Borrows `bytes`. Blocks while too much is lent and while earlier calls wait, so that small loans do not
  /// keep a large one waiting forever. Returns nothing if all spare memory would not suffice. A borrower must
  /// not wait for another borrower before it returns its loan.
  std::optional<Loan> borrow(std::uint64_t bytes) H5FEED_EXCLUDES(mutex_);

  /// Returns the current size.
  Size size() const noexcept H5FEED_EXCLUDES(mutex_);

 private:
  void give_back(std::uint64_t bytes) noexcept H5FEED_EXCLUDES(mutex_);

  mutable Mutex mutex_;
  CondVar changed_;
  Size size_ H5FEED_GUARDED_BY(mutex_);
  std::uint64_t lent_ H5FEED_GUARDED_BY(mutex_) = 0;
  std::uint64_t next_ticket_ H5FEED_GUARDED_BY(mutex_) = 0;  // of the next call of borrow
  std::uint64_t served_ H5FEED_GUARDED_BY(mutex_) = 0;       // ticket of the call that is next to return
};

}  // namespace h5feed
