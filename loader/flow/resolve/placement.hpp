// SPDX-License-Identifier: Apache-2.0
// Decides where batches are delivered, and which part of the conversion the CPU does.
#pragma once

#include <memory>
#include <optional>

#include "batch/device.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/resolve/resolve_options.hpp"
#include "flow/values/conversion.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/options.hpp"

namespace h5feed {

/// The resolved `DataLoaderOptions::device` and the conversion of the data.
struct Placement {
  std::optional<int> gpu;     ///< CUDA device ordinal in this process; unset for the host
  Conversion conversion;      ///< Complete conversion of the data, on CPU and GPU together
  bool gpu_converts = false;  ///< True if host slots hold samples in stored type and layout

  /// Returns the part of the conversion that the CPU does.
  Conversion on_host() const { return gpu_converts ? as_stored(conversion) : conversion; }
};

/// Resolves device and conversion. Throws OptionError for an unknown device, a device without its backend, a
/// `copy_depth` out of range, `collate_fn` with a GPU, a combination of echo or `gpu_cache_bytes` and augment
/// that the GPU cannot do, and whatever `resolve_conversion` refuses; DeviceError if no GPU is usable.
Placement resolve_placement(const DataLoaderOptions& options, const DatasetState& dataset);

/// Returns the format of the batches that workers assemble. `max_batch_rows` is the number of samples of the
/// largest batch. Throws OptionError.
DeliveryFormat assembly_format(const Placement& placement, const DataLoaderOptions& options,
                               const DatasetState& dataset, std::uint64_t max_batch_rows);

/// Number of samples that a GPU may keep, and the function that chooses them.
struct SamplesToKeep {
  std::uint64_t most = 0;  ///< number of samples that may be delivered
  Foresee foresee = {};    ///< decides which of them stay; called from the first slot on
};

/// Creates the device of a loader. `slot` is the size of data and target of a full batch as assembled. Throws
/// OptionError, DeviceError.
std::unique_ptr<Device> make_device(const Placement& placement, const DataLoaderOptions& options,
                                    const DeliveryFormat& assembled, const ResolvedOptions& resolved,
                                    SlotBytes slot, SamplesToKeep to_keep);

}  // namespace h5feed
