// Where batches are delivered, and which part of their making is left to the CPU.
#pragma once

#include <memory>
#include <optional>

#include "dataset/dataset_state.hpp"
#include "flow/resolve_options.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/device.hpp"
#include "h5feed/options.hpp"

namespace h5feed {

/// `DataLoaderOptions::device`, decided.
struct Placement {
  std::optional<int> gpu;       ///< unset: the host
  bool gpu_normalizes = false;  ///< host slots then hold samples as stored, in type and layout
  DataLoaderOptions on_host;    ///< what is left to the CPU: without `normalize` where the GPU does it
};

/// Throws OptionError for a device that is unknown or needs a backend; DeviceError where no GPU is usable.
Placement resolve_placement(const DataLoaderOptions& options, const DatasetState& dataset);

/// What workers assemble.
DeliveryFormat assembly_format(const Placement& placement, const DatasetState& dataset);

/// The device of a loader. `slot` is a full batch as assembled. Throws OptionError, DeviceError.
std::unique_ptr<Device> make_device(const Placement& placement, const DataLoaderOptions& options,
                                    const DatasetState& dataset, const DeliveryFormat& assembled,
                                    const ResolvedOptions& resolved, SlotBytes slot);

}  // namespace h5feed
