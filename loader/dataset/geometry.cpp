// SPDX-License-Identifier: Apache-2.0
#include "dataset/geometry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/option_spelling.hpp"
#include "h5feed/error.hpp"

namespace h5feed {
namespace {

bool is_channel_count(std::uint64_t extent) noexcept { return extent == 1 || extent == 3 || extent == 4; }

// Guesses the layout from the shape; returns `automatic` if it does not look like images.
InputLayout guess(const std::vector<std::uint64_t>& shape, DType dtype) noexcept {
  if (shape.size() == 3 && dtype == DType::u8) return InputLayout::nhw;
  if (shape.size() == 4) {
    const bool first = is_channel_count(shape[1]);
    const bool last = is_channel_count(shape[3]);
    if (first != last) return first ? InputLayout::nchw : InputLayout::nhwc;
  }
  return InputLayout::automatic;
}

std::vector<std::int64_t> as_signed(const std::vector<std::uint64_t>& shape, std::size_t from) {
  return {shape.begin() + static_cast<std::ptrdiff_t>(from), shape.end()};
}

// Returns the geometry of images, or of volumes, with these extents of height and width, or depth, height and
// width.
SampleGeometry image(std::uint64_t channels, std::initializer_list<std::uint64_t> extents,
                     bool channels_last) {
  SampleGeometry geometry;
  geometry.shape = {static_cast<std::int64_t>(channels)};
  geometry.channels = channels;
  for (const std::uint64_t extent : extents) {
    geometry.shape.push_back(static_cast<std::int64_t>(extent));
    geometry.pixels *= extent;
  }
  geometry.channels_last = channels_last && channels > 1;
  return geometry;
}

[[noreturn]] void refuse(const DatasetInfo& info, std::string_view reason) {
  const std::string next = info.shape.size() < 3
                               ? spelled("input_layout", "none") + " delivers it as stored"
                               : fmt::format("state it: {}, NHWC, NHW, or none to deliver it as stored",
                                             spelled("input_layout", "NCHW"));
  throw DatasetError(
      fmt::format("{}:{} ({}): {}; {}", info.file, short_path(info.path), info.shape_text(), reason, next));
}

// Throws unless the dataset has as many dimensions as its layout.
void need(const DatasetInfo& info, std::size_t dimensions, std::string_view layout) {
  if (info.shape.size() == dimensions) return;
  refuse(info, fmt::format("{} {} needs {} dimensions", spelled("input_layout"), layout, dimensions));
}

}  // namespace

bool looks_like_images(const std::vector<std::uint64_t>& shape, DType dtype) noexcept {
  return guess(shape, dtype) != InputLayout::automatic;
}

InputLayout decided_layout(const DatasetInfo& info, InputLayout layout) {
  const auto& shape = info.shape;
  if (shape.empty()) {
    throw DatasetError(fmt::format("{}:{} is a scalar; samples need a first dimension to count them",
                                   info.file, short_path(info.path)));
  }
  if (layout == InputLayout::automatic) {
    // Fewer than 3 dimensions have no height and width.
    layout = shape.size() < 3 ? InputLayout::none : guess(shape, info.dtype);
  }
  switch (layout) {
    case InputLayout::automatic:
      refuse(info, "its layout is ambiguous");
    case InputLayout::nchw:
      need(info, 4, "NCHW");
      break;
    case InputLayout::nhwc:
      need(info, 4, "NHWC");
      break;
    case InputLayout::nhw:
      need(info, 3, "NHW");
      break;
    case InputLayout::ncdhw:
      need(info, 5, "NCDHW");
      break;
    case InputLayout::ndhwc:
      need(info, 5, "NDHWC");
      break;
    case InputLayout::ndhw:
      need(info, 4, "NDHW");
      break;
    case InputLayout::none:
      break;
  }
  return layout;
}

std::optional<std::size_t> channel_dimension(InputLayout layout) noexcept {
  switch (layout) {
    case InputLayout::none:
    case InputLayout::nchw:
    case InputLayout::ncdhw:
      return 1;
    case InputLayout::nhwc:
      return 3;
    case InputLayout::ndhwc:
      return 4;
    case InputLayout::automatic:
    case InputLayout::nhw:
    case InputLayout::ndhw:
      break;
  }
  return std::nullopt;
}

SampleGeometry data_geometry(const DatasetInfo& info, InputLayout layout) {
  const auto& shape = info.shape;
  switch (decided_layout(info, layout)) {
    case InputLayout::nchw:
      return image(shape[1], {shape[2], shape[3]}, false);
    case InputLayout::nhwc:
      return image(shape[3], {shape[1], shape[2]}, true);
    case InputLayout::nhw:
      return image(1, {shape[1], shape[2]}, false);
    case InputLayout::ncdhw:
      return image(shape[1], {shape[2], shape[3], shape[4]}, false);
    case InputLayout::ndhwc:
      return image(shape[4], {shape[1], shape[2], shape[3]}, true);
    case InputLayout::ndhw:
      return image(1, {shape[1], shape[2], shape[3]}, false);
    case InputLayout::automatic:
    case InputLayout::none:
      break;
  }
  SampleGeometry geometry;
  geometry.shape = as_signed(shape, 1);
  geometry.pixels = info.row_elements();
  return geometry;
}

SampleGeometry target_geometry(const DatasetInfo& info) {
  SampleGeometry geometry;
  const bool squeeze =
      !info.shape.empty() && std::ranges::all_of(info.shape.begin() + 1, info.shape.end(),
                                                 [](std::uint64_t extent) { return extent == 1; });
  if (!squeeze && !info.shape.empty()) geometry.shape = as_signed(info.shape, 1);
  geometry.pixels = info.row_elements();
  return geometry;
}

}  // namespace h5feed
