// From one stored sample to one delivered sample.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "batch/normalize.hpp"
#include "h5feed/dtype.hpp"

namespace h5feed {

/// What a kernel does to a sample of `channels` × `pixels` elements.
struct RowKernelSpec {
  DType from = DType::u8;
  DType to = DType::u8;
  std::uint64_t channels = 1;
  std::uint64_t pixels = 1;
  bool channels_last = false;                    ///< stored (pixels, channels); delivered (channels, pixels)
  std::optional<NormalizeParameters> normalize;  ///< `to` is then f32
  bool past_caches = false;                      ///< plain copies leave the caches alone (`stream_copy`)
};

/// Copies, converts, normalizes and transposes one sample at a time. Immutable and thread-safe.
class RowKernel {
 public:
  virtual ~RowKernel() = default;
  /// `from` and `to` are one sample each, of any alignment, and do not overlap.
  virtual void run(const std::byte* from, std::byte* to) const noexcept = 0;
  /// The delivered bytes are the stored bytes: a row may be read straight into the batch.
  virtual bool is_copy() const noexcept { return false; }
};

/// Chooses the kernel. Conversions between numeric types round as C++ does; out-of-range floats
/// become 0. Throws OptionError for a conversion to f16.
std::unique_ptr<const RowKernel> make_row_kernel(const RowKernelSpec& spec);

/// Index of the first element of `values`, of type `from`, that the integer type `to` cannot hold;
/// nullopt when all fit, or `to` is a float type.
std::optional<std::size_t> first_out_of_range(DType from, std::span<const std::byte> values,
                                              DType to) noexcept;

}  // namespace h5feed
