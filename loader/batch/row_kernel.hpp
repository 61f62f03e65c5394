// SPDX-License-Identifier: Apache-2.0
// Kernels that convert one stored sample to one delivered sample.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "batch/normalize.hpp"
#include "h5feed/batch.hpp"
#include "h5feed/dtype.hpp"

namespace h5feed {

/// Height and width of an image before and after the crop, in pixels.
struct CropSizes {
  std::uint64_t in_height = 1, in_width = 1, out_height = 1, out_width = 1;
  bool resizes = false;  ///< The window of each sample, which lies in the image, is scaled to the output
};

/// The conversion of a sample of `channels` × `pixels` elements.
struct RowKernelSpec {
  DType from = DType::u8;
  DType to = DType::u8;
  std::uint64_t channels = 1;
  std::uint64_t pixels = 1;            ///< Pixels of a channel, as stored
  bool channels_last = false;          ///< Stored as (pixels, channels), else (channels, pixels)
  bool to_channels_last = false;       ///< Delivered as (pixels, channels), else (channels, pixels)
  std::optional<CropSizes> crop = {};  ///< If set, `run` applies its transform
  /// Unset: no normalization; if set, `to` is f32, f16, bf16 or f64.
  std::optional<NormalizeParameters> normalize;
  bool past_caches = false;  ///< Plain copies bypass the caches (`stream_copy`)
};

/// Copies, converts, normalizes, crops, flips and transposes one sample at a time. Immutable and thread-safe.
class RowKernel {
 public:
  virtual ~RowKernel() = default;
  /// Converts the sample at `from` to `to`, two buffers of any alignment that do not overlap. Ignores
  /// `transform` if the specification has no crop sizes. Output outside the source image takes the value that
  /// a stored 0 converts to. Throws std::bad_alloc, only if the specification scales images.
  void run(const std::byte* from, std::byte* to, const SampleTransform& transform = {}) const {
    do_run(from, to, transform);
  }
  /// Returns whether the delivered bytes equal the stored bytes, so that a row may be read directly into the
  /// batch.
  virtual bool is_copy() const noexcept { return false; }

 private:
  virtual void do_run(const std::byte* from, std::byte* to, const SampleTransform& transform) const = 0;
};

/// Creates the kernel for a conversion. Without `normalize`, numbers convert as in C++ (integers wrap, floats
/// lose their fraction), except that floats that an integer type cannot hold, NaN included, become 0. Throws
/// OptionError for a conversion of another type to f16 or bf16 without `normalize`.
std::unique_ptr<const RowKernel> make_row_kernel(const RowKernelSpec& spec);

/// Returns the index of the first element of `values`, of type `from`, that the integer type `to` cannot
/// hold; nullopt if all fit, or if `to` is a float type.
std::optional<std::size_t> first_out_of_range(DType from, std::span<const std::byte> values,
                                              DType to) noexcept;

/// Returns the number at `value` as text, "-3" or "0.25", with the fewest digits that identify it.
std::string number_text(DType dtype, const std::byte* value);

}  // namespace h5feed
