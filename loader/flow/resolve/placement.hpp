// SPDX-License-Identifier: Apache-2.0
// Where batches are delivered, and which part of their making is left to the CPU.
#pragma once

#include <memory>
#include <optional>

#include "dataset/dataset_state.hpp"
#include "flow/resolve/conversion.hpp"
#include "flow/resolve/resolve_options.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/device.hpp"
#include "h5feed/options.hpp"

namespace h5feed {

/// `DataLoaderOptions::device`, decided.
struct Placement {
  std::optional<int> gpu;     ///< as CUDA counts in this process; unset: the host
  Conversion conversion;      ///< of the data, up to the consumer
  bool gpu_converts = false;  ///< host slots then hold samples as stored, in type and layout

  /// What is left to the CPU.
  Conversion on_host() const { return gpu_converts ? as_stored(conversion) : conversion; }
};

/// Throws OptionError for a device that is unknown or needs a backend, and for what `resolve_conversion`
/// refuses; DeviceError where no GPU is usable.
Placement resolve_placement(const DataLoaderOptions& options, const DatasetState& dataset);

/// What workers assemble; `max_batch_rows` as for `delivery_format`.
DeliveryFormat assembly_format(const Placement& placement, const DataLoaderOptions& options,
                               const DatasetState& dataset, std::uint64_t max_batch_rows);

/// The device of a loader. `slot` is a full batch as assembled. Throws OptionError, DeviceError.
std::unique_ptr<Device> make_device(const Placement& placement, const DataLoaderOptions& options,
                                    const DeliveryFormat& assembled, const ResolvedOptions& resolved,
                                    SlotBytes slot);

}  // namespace h5feed
