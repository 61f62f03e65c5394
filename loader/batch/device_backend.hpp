// SPDX-License-Identifier: Apache-2.0
// Interface of a GPU backend, which the loader uses without GPU headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>

#include "batch/device.hpp"
#include "batch/normalize.hpp"
#include "batch/row_kernel.hpp"
#include "h5feed/dtype.hpp"
#include "h5feed/options.hpp"

namespace h5feed {

/// Layout of batches in a host slot, and their layout and conversion on the device.
struct DeviceFormat {
  SlotBytes slot;          ///< Bytes of a full batch in host memory; fields are delivered as they are there
  std::uint64_t rows = 1;  ///< Samples of a full batch
  DType from = DType::u8;
  DType to = DType::u8;
  std::uint64_t channels = 1;
  CropSizes sizes;                               ///< Height and width of a channel before and after the crop
  bool in_channels_last = false;                 ///< Host slots hold (B,H,W,C), else (B,C,H,W)
  bool out_channels_last = false;                ///< The device delivers (B,H,W,C), else (B,C,H,W)
  std::optional<NormalizeParameters> normalize;  ///< Unset: values are not normalized
  bool augments = false;                         ///< Batches come with a crop and flip per sample
  bool gathers = false;  ///< Batches come with the address of each sample, for those that stay on the device
  DType target_from = DType::i64;
  DType target_to = DType::i64;
  /// Deliveries of each batch (echo): the first by `deliver`, the others by `deliver_again`.
  std::uint64_t deliveries = 1;

  /// Returns whether delivered data differ from the bytes in the slot, so that a kernel has to run.
  bool converts() const noexcept {
    return normalize || augments || from != to || in_channels_last != out_channels_last;
  }
};

/// Slot counts and copy-ahead depth.
struct DeviceCapacity {
  std::size_t host_slots = 2;  ///< Pinned host slots, allocated once
  std::size_t depth = 2;       ///< Batches that are copied ahead of the consumer
  /// True: the loader allocates memory for delivered batches at once and converts ahead.
  bool own_outputs = true;
  GpuCacheBytes cache = {};  ///< Memory for samples that stay on the device; needs `DeviceFormat::gathers`
  /// Samples that may be delivered: the cache takes no more memory than they need. Default: not known.
  std::uint64_t samples = std::numeric_limits<std::uint64_t>::max();
  Foresee foresee = {};  ///< Tells which samples are worth keeping; empty: the first that come
};

/// Creates GPU devices. Thread-safe.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  /// Returns the ordinal of the device that `name` ("cuda", "cuda:N", "auto") stands for. If no GPU can be
  /// used, "auto" returns nullopt after a log line and the other names throw DeviceError. Throws OptionError
  /// for any other name, and for a device that does not exist.
  virtual std::optional<int> choose(std::string_view name) const = 0;

  /// Returns whether the devices can convert values of type `from` to type `to` with crop, flip,
  /// normalization and layout change.
  virtual bool can_normalize(DType from, DType to) const = 0;

  /// Creates a device that delivers batches to the GPU of ordinal `device`, as `choose` returned it. Throws
  /// OptionError, DeviceError, std::bad_alloc.
  virtual std::unique_ptr<Device> make(int device, const DeviceFormat& format,
                                       const DeviceCapacity& capacity) const = 0;

  /// Creates a device that delivers as that of `make_host_device`, in pinned memory, from which the program
  /// copies to a GPU itself. Returns null after a log line if no GPU can be used. If memory cannot be pinned,
  /// the device logs that once and uses pageable memory. Throws std::bad_alloc.
  virtual std::unique_ptr<Device> make_pinned_host(SlotBytes bytes, std::size_t buffers) const = 0;
};

}  // namespace h5feed
