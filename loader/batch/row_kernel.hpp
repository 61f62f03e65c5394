// From one stored sample to one delivered sample.
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

/// Extents of an image before and after it is cropped, in pixels.
struct CropSizes {
  std::uint64_t in_height = 1, in_width = 1, out_height = 1, out_width = 1;
};

/// What a kernel does to a sample of `channels` × `pixels` elements.
struct RowKernelSpec {
  DType from = DType::u8;
  DType to = DType::u8;
  std::uint64_t channels = 1;
  std::uint64_t pixels = 1;                      ///< of a channel, as stored
  bool channels_last = false;                    ///< stored (pixels, channels), else (channels, pixels)
  bool to_channels_last = false;                 ///< delivered likewise
  std::optional<CropSizes> crop = {};            ///< set: `run` heeds its transform
  std::optional<NormalizeParameters> normalize;  ///< `to` is then f32, f16, bf16 or f64
  bool past_caches = false;                      ///< plain copies leave the caches alone (`stream_copy`)
};

/// Copies, converts, normalizes, crops, flips and transposes one sample at a time. Immutable and thread-safe.
class RowKernel {
 public:
  virtual ~RowKernel() = default;
  /// `from` and `to` are one sample each, of any alignment, and do not overlap. Without crop sizes in the
  /// specification `transform` has no effect.
  void run(const std::byte* from, std::byte* to, const SampleTransform& transform = {}) const noexcept {
    do_run(from, to, transform);
  }
  /// The delivered bytes are the stored bytes: a row may be read straight into the batch.
  virtual bool is_copy() const noexcept { return false; }

 private:
  virtual void do_run(const std::byte* from, std::byte* to,
                      const SampleTransform& transform) const noexcept = 0;
};

/// Chooses the kernel. Without `normalize` conversions between numeric types round as C++ does; out-of-range
/// floats become 0. Throws OptionError for a conversion of another type to f16 or bf16 without `normalize`.
std::unique_ptr<const RowKernel> make_row_kernel(const RowKernelSpec& spec);

/// Index of the first element of `values`, of type `from`, that the integer type `to` cannot hold;
/// nullopt when all fit, or `to` is a float type.
std::optional<std::size_t> first_out_of_range(DType from, std::span<const std::byte> values,
                                              DType to) noexcept;

/// "-3", "0.25": the number at `value`, as short as tells it from its neighbours.
std::string number_text(DType dtype, const std::byte* value);

}  // namespace h5feed
