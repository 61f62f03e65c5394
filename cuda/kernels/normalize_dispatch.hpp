// SPDX-License-Identifier: Apache-2.0
// Dispatches a normalization described at run time to the template that performs it.
#pragma once

#include <algorithm>

#include "cuda/kernels/flat_units.hpp"
#include "cuda/kernels/image_units.hpp"
#include "cuda/kernels/normalize.hpp"
#include "cuda/kernels/resize_units.hpp"
#include "cuda/kernels/row_units.hpp"

namespace h5feed::gpu {

/// Tables of at most this many bytes are read from shared memory. Below the 48 KiB that every device offers
/// by default, with room for 8 blocks on a multiprocessor.
constexpr std::int64_t kMostSharedBytes = 24 << 10;

/// Returns the bytes of the coefficients that `Units` needs for `channels` channels.
template <typename Units>
std::int64_t table_bytes(std::int64_t channels) noexcept {
  using Table = Values<typename Units::Source, typename Units::Output>;
  return channels * Table::kEntriesPerChannel * static_cast<std::int64_t>(sizeof(typename Table::Entry));
}

namespace detail {

template <typename From, typename To>
FlatUnits<From, To> flat_units(const NormalizeJob& job, const ImageLayout& layout) noexcept {
  // With one channel, a plane may have any size, because all elements are treated alike.
  const std::int64_t plane = layout.channels == 1       ? 1 << 20
                             : layout.out_channels_last ? 1
                                                        : layout.out_height * layout.out_width;
  const auto divisor = [](std::int64_t value) {
    return Divisor<std::uint32_t>(static_cast<std::uint64_t>(value));
  };
  return {static_cast<const From*>(job.in),
          static_cast<To*>(job.out),
          layout.out_elements(),
          divisor(plane * layout.channels),
          divisor(plane),
          divisor(layout.channels),
          job.past_caches};
}

template <typename From, typename To, typename F>
void with_units(const NormalizeJob& job, F&& f) {
  if (job.layout.resizes) {
    f(ResizeUnits<From, To>(job));
    return;
  }
  ImageLayout layout = job.layout;
  if (layout.channels == 1) layout.in_channels_last = layout.out_channels_last = false;
  const bool whole = job.transforms == nullptr && layout.in_height == layout.out_height &&
                     layout.in_width == layout.out_width;
  if (whole) {
    // Without crop and flip, consecutive rows are one long row.
    layout.in_width = layout.out_width = layout.out_height * layout.out_width;
    layout.in_height = layout.out_height = 1;
  }
  const std::int64_t pixels =
      std::max(layout.in_height * layout.in_width, layout.out_height * layout.out_width);
  using Rows = RowUnits<From, To, std::uint32_t>;
  const bool large =
      pixels * layout.channels > kMost32Bit || table_bytes<Rows>(layout.channels) > kMostSharedBytes;
  const bool to_planes = layout.in_channels_last && !layout.out_channels_last;
  // The flat kernel does not know where a sample begins.
  const bool flat = job.rows == nullptr && whole && layout.in_channels_last == layout.out_channels_last;
  if (large) {
    f(RowUnits<From, To, std::uint64_t>(job, layout));
  } else if (flat) {
    f(flat_units<From, To>(job, layout));
  } else if (to_planes && layout.channels == 3) {
    f(PlanarUnits<From, To, 3>(job, layout));
  } else if (to_planes && layout.channels == 4) {
    f(PlanarUnits<From, To, 4>(job, layout));
  } else {
    f(Rows(job, layout));
  }
}

template <typename From, typename F>
bool with_output(const NormalizeJob& job, F&& f) {
  constexpr bool kByTable = sizeof(From) == 1;
  switch (job.to) {
    case DType::f32:
      with_units<From, float>(job, f);
      return true;
    case DType::bf16:
      if constexpr (!kByTable) {
        with_units<From, BF16>(job, f);
        return true;
      }
      // Table entries are only copied, so both 16-bit types can share a kernel.
      [[fallthrough]];
    case DType::f16:
      with_units<From, F16>(job, f);
      return true;
    case DType::u8:
      if constexpr (kByTable) with_units<From, std::uint8_t>(job, f);
      return kByTable;
    default:
      return false;
  }
}

}  // namespace detail

/// Calls `f` with the units of `job` and returns true; returns false without a call if `can_normalize` is
/// false.
template <typename F>
bool with_units(const NormalizeJob& job, F&& f) {
  switch (job.from) {
    case DType::u8:
      return detail::with_output<std::uint8_t>(job, f);
    case DType::u16:
      return detail::with_output<std::uint16_t>(job, f);
    case DType::i16:
      return detail::with_output<std::int16_t>(job, f);
    case DType::f16:
      return detail::with_output<F16>(job, f);
    case DType::bf16:
      return detail::with_output<BF16>(job, f);
    case DType::f32:
      return detail::with_output<float>(job, f);
    default:
      return false;
  }
}

}  // namespace h5feed::gpu
