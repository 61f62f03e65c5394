// SPDX-License-Identifier: Apache-2.0
#include "flow/resolve/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/option_spelling.hpp"
#include "base/terminal_text.hpp"
#include "batch/device_backend.hpp"
#include "h5feed/config.hpp"
#include "h5feed/error.hpp"
#include "h5feed/log.hpp"

namespace h5feed {
namespace {

// Default number of batches copied ahead to a GPU: one in the copy, one in the kernel.
constexpr std::int64_t kCopyDepth = 2;
constexpr std::int64_t kMaxCopyDepth = 64;

[[noreturn]] void refuse_device(const std::string& device) {
  if (!device.starts_with("cuda")) {
    throw OptionError(
        fmt::format(R"(device "{}" is not known; use "cpu", "cuda:N" or "auto")", abridged(device)));
  }
  if (H5FEED_HAS_CUDA == 0) {
    throw OptionError(fmt::format("device \"{}\": h5feed was built without CUDA", abridged(device)));
  }
  throw OptionError(fmt::format(
      "device \"{0}\" needs options.device = h5feed::gpu::device(\"{0}\"); link h5feed::gpu", device));
}

std::size_t copy_depth(const DataLoaderOptions& options) {
  return static_cast<std::size_t>(options.copy_depth.value_or(kCopyDepth));
}

void check_copy_depth(const DataLoaderOptions& options) {
  if (options.copy_depth && (*options.copy_depth < 1 || *options.copy_depth > kMaxCopyDepth)) {
    throw OptionError(fmt::format("copy_depth must be 1 to {}; got {}", kMaxCopyDepth, *options.copy_depth));
  }
}

// Returns the GPU that batches go to; nullopt for the host.
std::optional<int> choose_gpu(const DataLoaderOptions& options) {
  const LoaderDevice& device = options.device;
  if (device.name() == "cpu") return std::nullopt;
  if (device.backend()) return device.backend()->choose(device.name());
  if (device.name() != "auto") refuse_device(device.name());
  log_once(LogLevel::warning,
           fmt::format("device \"auto\": batches go to the CPU; {}, or set device \"cpu\"",
                       H5FEED_HAS_CUDA == 0
                           ? "h5feed was built without CUDA; build it with CUDA"
                           : "to use a GPU, set options.device = h5feed::gpu::device(\"auto\") and link "
                             "h5feed::gpu"));
  return std::nullopt;
}

// Returns a device with pinned memory; null after a warning if none can be pinned. As in PyTorch, a program
// with `pin_memory` runs without a GPU, too.
std::unique_ptr<Device> pinned_host(const DataLoaderOptions& options, SlotBytes slot, std::size_t buffers) {
  if (options.device.backend()) return options.device.backend()->make_pinned_host(slot, buffers);
  log_once(LogLevel::warning,
           fmt::format("pin_memory: batches are in pageable memory; {}",
                       H5FEED_HAS_CUDA == 0
                           ? "h5feed was built without CUDA; build it with CUDA"
                           : "to pin them, set options.device = h5feed::gpu::device(\"cpu\") and link "
                             "h5feed::gpu"));
  return nullptr;
}

}  // namespace

Placement resolve_placement(const DataLoaderOptions& options, const DatasetState& dataset) {
  check_copy_depth(options);
  Placement placement;
  placement.conversion = resolve_conversion(options, dataset);
  placement.gpu = choose_gpu(options);
  if (!placement.gpu) return placement;
  if (options.collate_fn) {
    throw OptionError(
        fmt::format("collate_fn works on batches in host memory; use device \"cpu\" instead of \"{}\"",
                    options.device.name()));
  }
  if (options.transform && (options.echo.factor > 1 || options.gpu_cache_bytes.enabled())) {
    throw OptionError(fmt::format(
        "transform cannot be used with {} on a GPU, which repeats samples as they are there; use device "
        "= \"cpu\", or leave one of the two out",
        options.echo.factor > 1 ? "echo" : "gpu_cache_bytes"));
  }
  if (options.gpu_cache_bytes.enabled() && dataset.tiling && dataset.tiling->drawn()) {
    throw OptionError(
        fmt::format("gpu_cache_bytes keeps samples as they are, and {} makes others of them in "
                    "each epoch; leave one of the two out",
                    spelled(dataset.tiling->rule().drawn > 0 ? "tiles.per_image" : "tiles.turns")));
  }
  if (options.gpu_cache_bytes.enabled() && dataset.episodes) {
    throw OptionError(
        "gpu_cache_bytes keeps each sample by itself, and windows share their rows; leave it unset");
  }
  const Conversion& conversion = placement.conversion;
  // Rows of a window are converted one by one, before they are copied.
  placement.gpu_converts = !conversion.timed && conversion.changes() &&
                           options.device.backend()->can_normalize(conversion.from, conversion.to);
  // An image that the CPU crops differs each time, so that keeping it is of no use.
  const bool crops_again = options.echo.factor > 1 || options.gpu_cache_bytes.enabled();
  if (crops_again && conversion.augmentation && !placement.gpu_converts) {
    throw OptionError(fmt::format(
        "{} with augment on a GPU needs a conversion that the GPU does, not {} to {}; use "
        "output_dtype f32, f16 or bf16 of u8, u16, i16, f16, bf16 or f32 data, or device = \"cpu\"",
        options.echo.factor > 1 ? "echo" : "gpu_cache_bytes", name_of(conversion.from),
        name_of(conversion.to)));
  }
  return placement;
}

DeliveryFormat assembly_format(const Placement& placement, const DataLoaderOptions& options,
                               const DatasetState& dataset, std::uint64_t max_batch_rows) {
  DeliveryFormat format = delivery_format(options, dataset, placement.on_host(), max_batch_rows);
  if (!placement.gpu) {
    format.outputs = static_cast<std::size_t>(std::max<std::int64_t>(1, options.echo.factor));
  } else {
    format.slots_in_transfer = copy_depth(options);
  }
  return format;
}

std::unique_ptr<Device> make_device(const Placement& placement, const DataLoaderOptions& options,
                                    const DeliveryFormat& assembled, const ResolvedOptions& resolved,
                                    SlotBytes slot, SamplesToKeep to_keep) {
  if (!placement.gpu) {
    // The prefetched batches, the one at the consumer, and the one it is about to release.
    const std::size_t buffers = (resolved.prefetch_batches + 2) * assembled.outputs;
    std::unique_ptr<Device> pinned = options.pin_memory ? pinned_host(options, slot, buffers) : nullptr;
    return pinned ? std::move(pinned) : make_host_device(slot, buffers);
  }
  const Conversion conversion = placement.gpu_converts ? placement.conversion : placement.on_host();
  DeviceFormat format;
  format.slot = slot;
  for (const FieldFormat& field : assembled.fields) {
    // At least one byte, so that an empty tensor has an address.
    const auto bytes = static_cast<std::size_t>(std::max<std::uint64_t>(field.batch_bytes, 1));
    format.slot.fields.push_back(field.stacked ? bytes : 0);
  }
  format.rows = static_cast<std::uint64_t>(resolved.max_batch_rows);
  format.from = placement.gpu_converts ? conversion.from : conversion.to;
  format.to = conversion.to;
  format.channels = conversion.channels;
  format.sizes = conversion.sizes;
  format.out_channels_last = conversion.out_channels_last;
  format.target_from = format.target_to = assembled.target_dtype;
  format.deliveries = options.headroom ? std::numeric_limits<std::uint64_t>::max()
                                       : static_cast<std::uint64_t>(resolved.echo_factor);
  if (placement.gpu_converts) {
    format.in_channels_last = conversion.in_channels_last;
    format.normalize = conversion.normalize;
    format.augments = conversion.augmentation.has_value();
  } else {
    format.sizes.out_height *= conversion.rows_per_sample;
    format.sizes.in_height = format.sizes.out_height;
    format.sizes.in_width = format.sizes.out_width;
    format.in_channels_last = format.out_channels_last;
  }
  format.gathers = options.gpu_cache_bytes.enabled();
  DeviceCapacity capacity;
  capacity.cache = options.gpu_cache_bytes;
  capacity.samples = to_keep.most;
  capacity.foresee = std::move(to_keep.foresee);
  capacity.depth = copy_depth(options);
  capacity.host_slots = resolved.prefetch_batches + assembled.slots_in_transfer;
  capacity.own_outputs = options.output_memory.value_or(OutputMemory::ring) == OutputMemory::ring;
  return options.device.backend()->make(*placement.gpu, format, capacity);
}

}  // namespace h5feed
