// From the run-time description of a normalization to the units that do it.
#pragma once

#include "cuda/normalize.hpp"
#include "cuda/normalize_core.hpp"

namespace h5feed::gpu {

namespace detail {

template <typename From, typename To, typename F>
bool with_units(const NormalizeJob& job, F&& f) {
  Images<From, To> images{static_cast<const From*>(job.in), static_cast<To*>(job.out), job.transforms,
                          job.layout, job.past_caches};
  ImageLayout& layout = images.layout;
  if (layout.channels == 1) layout.in_channels_last = layout.out_channels_last = false;
  const bool whole = job.transforms == nullptr && layout.in_height == layout.out_height &&
                     layout.in_width == layout.out_width;
  if (whole) {
    // Rows that follow each other without crop or flip are one long row.
    layout.in_width = layout.out_width = layout.out_height * layout.out_width;
    layout.in_height = layout.out_height = 1;
  }
  if (layout.out_channels_last) {
    f(InterleavedUnits<From, To>{images});
  } else if (!layout.in_channels_last) {
    f(PlanarUnits<From, To, 1>{images});
  } else if constexpr (sizeof(From) == 1) {
    switch (layout.channels) {
      case 3:
        f(PlanarUnits<From, To, 3>{images});
        break;
      case 4:
        f(PlanarUnits<From, To, 4>{images});
        break;
      default:
        f(PlanarUnits<From, To, 0>{images});
    }
  } else {
    f(PlanarUnits<From, To, 0>{images});
  }
  return true;
}

template <typename From, typename F>
bool with_output(const NormalizeJob& job, F&& f) {
  switch (job.to) {
    case DType::f32:
      return with_units<From, float>(job, f);
    case DType::f16:
      return with_units<From, F16>(job, f);
    case DType::bf16:
      return with_units<From, BF16>(job, f);
    case DType::u8:
      if constexpr (sizeof(From) == 1) return with_units<From, std::uint8_t>(job, f);
      return false;
    default:
      return false;
  }
}

}  // namespace detail

/// Calls `f` with the units of `job`; false, and no call, where `can_normalize` is.
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
    case DType::f32:
      return detail::with_output<float>(job, f);
    default:
      return false;
  }
}

}  // namespace h5feed::gpu
