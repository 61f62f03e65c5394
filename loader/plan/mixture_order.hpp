// SPDX-License-Identifier: Apache-2.0
// The order of an epoch of a mixture.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.hpp"
#include "plan/mixture.hpp"
#include "plan/sample_order.hpp"

namespace h5feed {

/// Draws from the sets of a mixture. Positions form blocks of `kMixtureBlock`; each holds every set exactly
/// `quota` times, in an order that is permuted by (key, block). The n-th draw from a set of m samples takes
/// its sample n mod m in the order of pass ⌊n / m⌋. At a position of another block than the last one used,
/// O(kMixtureBlock); otherwise O(1) in addition to the order of the set. Thread-safe. The order is part of
/// the public contract: golden vectors in the tests pin it.
class MixtureOrder final : public SampleOrder {
 public:
  /// Returns the order of the samples of a set, counted from 0 within the set, in one pass over it. Must be a
  /// pure function of its arguments and thread-safe.
  using OrderOfSet = std::function<std::shared_ptr<const SampleOrder>(std::size_t set, std::uint64_t pass)>;

  /// `mixture` is not null. The order depends on `key`, and on `order_of_set` alone.
  MixtureOrder(std::shared_ptr<const Mixture> mixture, std::uint64_t num_chunks, std::uint64_t key,
               OrderOfSet order_of_set);

  std::uint64_t size() const noexcept override { return mixture_->size(); }
  /// Throws std::bad_alloc.
  std::uint64_t at(std::uint64_t position) const override;
  std::optional<std::uint64_t> position_of(std::uint64_t) const noexcept override { return std::nullopt; }

 private:
  // The set of a position, and how many positions before it in the block have the same set.
  struct Draw {
    std::uint16_t set;
    std::uint16_t before;
  };
  struct Block {
    std::uint64_t number;
    std::vector<Draw> draws;
  };
  struct Pass {
    std::uint64_t number = 0;
    std::shared_ptr<const SampleOrder> order = {};
  };

  std::shared_ptr<const Block> block(std::uint64_t number) const H5FEED_EXCLUDES(mutex_);
  std::shared_ptr<const Block> make_block(std::uint64_t number) const;
  std::shared_ptr<const SampleOrder> pass(std::size_t set, std::uint64_t number) const
      H5FEED_EXCLUDES(mutex_);

  const std::shared_ptr<const Mixture> mixture_;
  const std::uint64_t key_;
  const OrderOfSet order_of_set_;
  mutable Mutex mutex_;
  // Block and passes of the last call: consecutive positions need them again.
  mutable std::shared_ptr<const Block> last_block_ H5FEED_GUARDED_BY(mutex_);
  mutable std::vector<Pass> last_passes_ H5FEED_GUARDED_BY(mutex_);  // one per set
};

}  // namespace h5feed
