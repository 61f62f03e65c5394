// SPDX-License-Identifier: Apache-2.0
#include "flow/values/conversion.hpp"

#include <fmt/format.h>

#include "base/option_spelling.hpp"
#include "base/unit_range.hpp"
#include "batch/normalize.hpp"
#include "h5feed/error.hpp"

namespace h5feed {
namespace {

bool is_image(const SampleGeometry& geometry) noexcept {
  const auto& shape = geometry.shape;
  return shape.size() == 3 && shape[0] == static_cast<std::int64_t>(geometry.channels) &&
         shape[1] * shape[2] == static_cast<std::int64_t>(geometry.pixels);
}

bool is_volume(const SampleGeometry& geometry) noexcept {
  const auto& shape = geometry.shape;
  return shape.size() == 4 && shape[0] == static_cast<std::int64_t>(geometry.channels) &&
         shape[1] * shape[2] * shape[3] == static_cast<std::int64_t>(geometry.pixels);
}

void need_images(const DatasetState& dataset, const char* option) {
  if (is_image(dataset.data.geometry)) return;
  if (is_volume(dataset.data.geometry)) {
    throw OptionError(
        fmt::format("{} is for images of two dimensions; {}:{} holds volumes; leave it unset ({} "
                    "flips and turns patches)",
                    option, dataset.file, dataset.data.info().path, spelled("tiles.turns")));
  }
  throw OptionError(fmt::format(
      "{} is for images; {}:{} is delivered as stored. Open it with input_layout = NCHW, NHWC or NHW", option,
      dataset.file, dataset.data.info().path));
}

DType output_dtype(std::optional<DType> wanted, bool normalized, DType stored) {
  const DType to = wanted.value_or(normalized ? DType::f32 : stored);
  const bool made = to == DType::f32 || to == DType::f16 || to == DType::bf16 || to == DType::f64;
  if (!made && (normalized || to != stored)) {
    throw OptionError(fmt::format("output_dtype must be f32, f16, bf16 or f64{}; got {}",
                                  normalized ? " with normalize or unit_range" : ", or the stored type",
                                  name_of(to)));
  }
  return to;
}

}  // namespace

std::vector<std::int64_t> Conversion::sample_shape() const {
  std::vector<std::int64_t> of_sample = shape;
  if (timed) of_sample.insert(of_sample.begin(), static_cast<std::int64_t>(rows_per_sample));
  return of_sample;
}

RowKernelSpec Conversion::kernel() const {
  RowKernelSpec spec;
  spec.from = from;
  spec.to = to;
  spec.channels = channels;
  spec.pixels = sizes.in_height * sizes.in_width;
  spec.channels_last = in_channels_last;
  spec.to_channels_last = out_channels_last;
  if (augmentation) spec.crop = sizes;
  spec.normalize = normalize;
  return spec;
}

std::optional<Normalize> with_unit_range(std::optional<Normalize> normalize, bool unit_range,
                                         const DatasetInfo& data) {
  if (!unit_range) return normalize;
  const double scale = require_unit_scale(fmt::format("{}:{}", data.file, data.path), data.dtype);
  if (!normalize && scale == 1.0) return normalize;
  if (!normalize) normalize.emplace();
  if (normalize->scale.value_or(scale) != scale) {
    throw OptionError(fmt::format(
        "{}:{}: normalize.scale {} contradicts unit_range, which scales {} by {}; set one of them", data.file,
        data.path, *normalize->scale, name_of(data.dtype), scale));
  }
  normalize->scale = scale;
  return normalize;
}

Conversion resolve_conversion(const DataLoaderOptions& options, const DatasetState& dataset) {
  const SampleGeometry& geometry = dataset.data.geometry;
  Conversion conversion;
  conversion.from = dataset.data.info().dtype;
  const std::optional<Normalize> normalize =
      with_unit_range(options.normalize, dataset.options.unit_range, dataset.data.info());
  conversion.to = output_dtype(options.output_dtype, normalize.has_value(), conversion.from);
  conversion.channels = geometry.channels;
  conversion.sizes = {1, geometry.pixels, 1, geometry.pixels};
  conversion.shape = geometry.shape;
  conversion.rows_per_sample = dataset.data.belonging.per_sample();
  conversion.timed = dataset.data.belonging.timed();
  conversion.in_channels_last = geometry.channels_last;
  if (normalize || conversion.to != conversion.from) {
    conversion.normalize =
        resolve_normalize(normalize.value_or(Normalize{.scale = 1.0}), conversion.from, geometry.channels);
  }
  if (options.output_layout == OutputLayout::channels_last) {
    need_images(dataset, "output_layout = channels_last");
    conversion.out_channels_last = geometry.channels > 1;
  }
  if (is_image(geometry)) {
    const auto height = static_cast<std::uint64_t>(geometry.shape[1]);
    const auto width = static_cast<std::uint64_t>(geometry.shape[2]);
    conversion.sizes = {height, width, height, width};
  }
  if (options.augment) {
    need_images(dataset, "augment");
    conversion.augmentation.emplace(*options.augment, conversion.sizes.in_height, conversion.sizes.in_width);
    conversion.sizes = conversion.augmentation->sizes();
    if (conversion.sizes.resizes && is_integer(conversion.from) && size_of(conversion.from) == 8) {
      throw OptionError(
          fmt::format("augment.random_resized_crop scales integers of up to 32 bits, and floats; {}:{} is {}",
                      dataset.file, dataset.data.info().path, name_of(conversion.from)));
    }
    conversion.shape[1] = static_cast<std::int64_t>(conversion.sizes.out_height);
    conversion.shape[2] = static_cast<std::int64_t>(conversion.sizes.out_width);
  }
  return conversion;
}

Conversion as_stored(const Conversion& conversion) {
  Conversion stored = conversion;
  stored.to = stored.from;
  stored.out_channels_last = stored.in_channels_last;
  stored.normalize.reset();
  stored.augmentation.reset();
  stored.sizes.resizes = false;
  stored.sizes.out_height = stored.sizes.in_height;
  stored.sizes.out_width = stored.sizes.in_width;
  return stored;
}

}  // namespace h5feed
