#include "flow/placement.hpp"

#include <fmt/format.h>

#include <string>

#include "batch/device_backend.hpp"
#include "batch/normalize.hpp"
#include "h5feed/config.hpp"
#include "h5feed/error.hpp"

namespace h5feed {
namespace {

// Batches that are copied to a GPU ahead of the consumer: one under the copy, one under the kernel.
constexpr std::size_t kCopyDepth = 2;

[[noreturn]] void refuse_device(const std::string& device) {
  if (!device.starts_with("cuda")) {
    throw OptionError(fmt::format(R"(device "{}" is not known; use "cpu", "cuda:N" or "auto")", device));
  }
  if (H5FEED_HAS_CUDA == 0) {
    throw OptionError(fmt::format("device \"{}\": h5feed was built without CUDA", device));
  }
  throw OptionError(fmt::format(
      "device \"{}\" needs options.device_backend = h5feed::gpu::backend(); link h5feed::gpu", device));
}

}  // namespace

Placement resolve_placement(const DataLoaderOptions& options, const DatasetState& dataset) {
  Placement placement;
  placement.on_host = options;
  if (options.device != "cpu") {
    if (options.device_backend) {
      placement.gpu = options.device_backend->choose(options.device);
    } else if (options.device != "auto") {
      refuse_device(options.device);
    }
  }
  if (placement.gpu && options.collate_fn) {
    throw OptionError(fmt::format(
        "collate_fn works on batches in host memory; use device \"cpu\" instead of \"{}\"", options.device));
  }
  if (placement.gpu && options.normalize &&
      options.device_backend->can_normalize(dataset.data.info().dtype, DType::f32)) {
    placement.gpu_normalizes = true;
    placement.on_host.normalize.reset();
  }
  return placement;
}

DeliveryFormat assembly_format(const Placement& placement, const DatasetState& dataset) {
  DeliveryFormat format = delivery_format(placement.on_host, dataset);
  format.stored_layout = placement.gpu_normalizes;
  format.slots_in_transfer = placement.gpu ? kCopyDepth : 0;
  return format;
}

std::unique_ptr<Device> make_device(const Placement& placement, const DataLoaderOptions& options,
                                    const DatasetState& dataset, const DeliveryFormat& assembled,
                                    const ResolvedOptions& resolved, SlotBytes slot) {
  if (!placement.gpu) {
    // Prepared ones, one at the consumer and one it is about to let go.
    return make_host_device(slot, resolved.prefetch_batches + 2);
  }
  const SampleGeometry& geometry = dataset.data.geometry;
  DeviceFormat format;
  format.slot = slot;
  format.from = format.to = assembled.data_dtype;
  format.channels = geometry.channels;
  format.pixels = geometry.pixels;
  format.target_from = format.target_to = assembled.target_dtype;
  if (placement.gpu_normalizes) {
    format.to = DType::f32;
    format.in_channels_last = geometry.channels_last;
    format.normalize = resolve_normalize(*options.normalize, assembled.data_dtype, geometry.channels);
  }
  return options.device_backend->make(*placement.gpu, format,
                                      {resolved.prefetch_batches + assembled.slots_in_transfer, kCopyDepth});
}

}  // namespace h5feed
