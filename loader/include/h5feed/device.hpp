// Where batches are delivered. The host is the first; a GPU implements the same interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "h5feed/batch.hpp"
#include "h5feed/export.hpp"

namespace h5feed {

/// Memory that workers fill with one batch. Move-only in spirit: one owner at a time.
struct BatchSlot {
  HostTensor data;
  HostTensor target;
};

/// Bytes of the two tensors of a full batch.
struct SlotBytes {
  std::size_t data = 0;
  std::size_t target = 0;
};

/// Gives workers the memory they assemble batches in, and turns an assembled batch into what the
/// consumer receives.
class H5FEED_EXPORT Device {
 public:
  virtual ~Device() = default;

  /// Memory for one batch of up to `SlotBytes`. Called by workers, many at once. Never waits for the
  /// consumer to give a batch back. Throws std::bad_alloc.
  virtual BatchSlot acquire_slot() = 0;

  /// Hands an assembled batch over, in delivery order, on the consumer's thread.
  virtual Batch deliver(Batch assembled) = 0;

  /// Bytes of buffers lent out now (in preparation or with the consumer), and buffers ever allocated.
  virtual std::uint64_t lent_bytes() const = 0;
  virtual std::uint64_t allocations() const = 0;
};

/// CPU memory from a recycled pool. A consumer that keeps batches makes the pool grow; that is
/// counted, and logged once when more than `expected_buffers` are out.
H5FEED_EXPORT std::unique_ptr<Device> make_host_device(SlotBytes bytes, std::size_t expected_buffers);

}  // namespace h5feed
