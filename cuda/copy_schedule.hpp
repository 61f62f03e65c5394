// SPDX-License-Identifier: Apache-2.0
// When the batches of a GPU are copied: at most so many tickets before their delivery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <vector>

#include "base/mutex.hpp"
#include "h5feed/batch.hpp"

namespace h5feed::gpu {

/// Keeps assembled batches back until they are due for their copy, and the errors of copies until the batch
/// is delivered. Does not own the batches. Thread-safe.
class CopySchedule {
 public:
  /// `depth`: batches copied ahead of the consumer.
  explicit CopySchedule(std::size_t depth) : depth_(depth) {}

  /// A batch that is due for its copy.
  struct Due {
    std::uint64_t ticket = 0;
    std::shared_ptr<Batch> batch;  ///< Null if it was abandoned
  };
  /// Consequences of a delivery.
  struct Delivery {
    std::exception_ptr error;  ///< Of the copy of the batch; null if there is none
    std::vector<Due> due;      ///< Batches that were kept back until now
  };

  /// Returns whether a batch is due for its copy; otherwise keeps it back. Throws std::bad_alloc.
  bool is_due(std::uint64_t ticket, const std::shared_ptr<Batch>& assembled) H5FEED_EXCLUDES(mutex_);
  /// Keeps the error of a copy.
  void keep_error(std::uint64_t ticket, std::exception_ptr error) noexcept H5FEED_EXCLUDES(mutex_);
  /// Begins the delivery of a batch. Throws std::bad_alloc.
  Delivery deliver(std::uint64_t ticket) H5FEED_EXCLUDES(mutex_);

 private:
  const std::size_t depth_;
  Mutex mutex_;
  // One past the ticket delivered last.
  std::uint64_t next_ticket_ H5FEED_GUARDED_BY(mutex_) = 0;
  // Batches that are assembled but not due for their copy.
  std::map<std::uint64_t, std::weak_ptr<Batch>> parked_ H5FEED_GUARDED_BY(mutex_);
  std::map<std::uint64_t, std::exception_ptr> errors_ H5FEED_GUARDED_BY(mutex_);
};

}  // namespace h5feed::gpu
