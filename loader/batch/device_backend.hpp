// What a room with GPUs offers the loader, without the loader knowing their headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "batch/normalize.hpp"
#include "batch/row_kernel.hpp"
#include "h5feed/device.hpp"
#include "h5feed/dtype.hpp"

namespace h5feed {

/// How batches lie in a host slot, and how they are to lie on the device.
struct DeviceFormat {
  SlotBytes slot;          ///< of a full batch in host memory
  std::uint64_t rows = 1;  ///< samples of a full batch
  DType from = DType::u8;
  DType to = DType::u8;
  std::uint64_t channels = 1;
  CropSizes sizes;                               ///< of a channel, before and after
  bool in_channels_last = false;                 ///< host slots hold (B,H,W,C), else (B,C,H,W)
  bool out_channels_last = false;                ///< as does the device
  std::optional<NormalizeParameters> normalize;  ///< unset: values stay
  bool augments = false;                         ///< batches come with transforms
  DType target_from = DType::i64;
  DType target_to = DType::i64;
  std::uint64_t deliveries = 1;  ///< of each batch; the first by `deliver`, the others by `deliver_again`

  /// Whether data arrives otherwise than it lies in the slot.
  bool converts() const noexcept {
    return normalize || augments || from != to || in_channels_last != out_channels_last;
  }
};

/// How much of it.
struct DeviceCapacity {
  std::size_t host_slots = 2;  ///< allocated once
  std::size_t depth = 2;       ///< batches copied ahead of the consumer
  bool own_outputs = true;     ///< memory for delivered batches is allocated at once, conversion runs ahead
};

/// Makes devices that are not the host. Thread-safe.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  /// The device that `name` ("cuda", "cuda:N", "auto") stands for. With "auto" nullopt, after a line in
  /// the log, where no GPU can be used; throws DeviceError then for the other names. Throws OptionError
  /// for a name of another form, or of a device that does not exist.
  virtual std::optional<int> choose(std::string_view name) const = 0;

  /// Whether its devices convert, crop, flip and move channels from one type to the other.
  virtual bool can_normalize(DType from, DType to) const = 0;

  /// For batches on `device`, which `choose` returned. Throws OptionError, DeviceError.
  virtual std::unique_ptr<Device> make(int device, const DeviceFormat& format,
                                       const DeviceCapacity& capacity) const = 0;
};

}  // namespace h5feed
