// What a room with GPUs offers the loader, without the loader knowing their headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "batch/normalize.hpp"
#include "h5feed/device.hpp"
#include "h5feed/dtype.hpp"

namespace h5feed {

/// How batches lie in a host slot, and how they are to lie on the device.
struct DeviceFormat {
  SlotBytes slot;  ///< of a full batch in host memory
  DType from = DType::u8;
  DType to = DType::u8;
  std::uint64_t channels = 1;
  std::uint64_t pixels = 1;                      ///< elements per channel
  bool in_channels_last = false;                 ///< host slots hold (B,pixels,C)
  bool out_channels_last = false;                ///< as does the device; else (B,C,pixels)
  std::optional<NormalizeParameters> normalize;  ///< unset: data arrives as it lies in the slot
  DType target_from = DType::i64;
  DType target_to = DType::i64;
};

/// How much of it.
struct DeviceCapacity {
  std::size_t host_slots = 2;  ///< allocated once
  std::size_t depth = 2;       ///< batches copied ahead of the consumer
};

/// Makes devices that are not the host. Thread-safe.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  /// The device that `name` ("cuda", "cuda:N", "auto") stands for. With "auto" nullopt, after a line in
  /// the log, where no GPU can be used; throws DeviceError then for the other names. Throws OptionError
  /// for a name of another form, or of a device that does not exist.
  virtual std::optional<int> choose(std::string_view name) const = 0;

  /// Whether its devices cast and normalize from one type to the other.
  virtual bool can_normalize(DType from, DType to) const = 0;

  /// Throws OptionError, DeviceError.
  virtual std::unique_ptr<Device> make(int device, const DeviceFormat& format,
                                       const DeviceCapacity& capacity) const = 0;
};

}  // namespace h5feed
