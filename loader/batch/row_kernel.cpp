#include "batch/row_kernel.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "batch/stream_copy.hpp"
#include "h5feed/error.hpp"

namespace h5feed {
namespace {

/// IEEE 754 binary16 as stored; C++20 has no arithmetic type for it.
struct Half {
  std::uint16_t bits;

  explicit operator double() const noexcept {
    const int exponent = bits >> 10 & 0x1F;
    const int mantissa = bits & 0x3FF;
    double magnitude = 0;
    if (exponent == 0x1F) {
      magnitude =
          mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
    } else if (exponent == 0) {
      magnitude = std::ldexp(mantissa, -24);
    } else {
      magnitude = std::ldexp(mantissa + 0x400, exponent - 25);
    }
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
  }
};

// Calls f with a value of the C++ type of `dtype`, for its type only.
template <typename F>
auto with_type_of(DType dtype, F&& f) {
  switch (dtype) {
    case DType::u8:
      return f(std::uint8_t{});
    case DType::i8:
      return f(std::int8_t{});
    case DType::u16:
      return f(std::uint16_t{});
    case DType::i16:
      return f(std::int16_t{});
    case DType::u32:
      return f(std::uint32_t{});
    case DType::i32:
      return f(std::int32_t{});
    case DType::u64:
      return f(std::uint64_t{});
    case DType::i64:
      return f(std::int64_t{});
    case DType::f16:
      return f(Half{});
    case DType::f32:
      return f(float{});
    case DType::bf16:  // no file stores it, and `make_row_kernel` refuses it
    case DType::f64:
      break;
  }
  return f(double{});
}

// Samples lie at any byte offset in chunks and batches.
template <typename T>
T load(const std::byte* from, std::size_t index) noexcept {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void store(std::byte* to, std::size_t index, T value) noexcept {
  std::memcpy(to + index * sizeof(T), &value, sizeof(T));
}

// Whether the integer type To can hold the value, fractions cut off.
template <typename To, typename From>
bool fits(From value) noexcept {
  if constexpr (std::is_same_v<From, Half>) {
    return fits<To>(static_cast<double>(value));
  } else if constexpr (std::is_floating_point_v<From>) {
    // 2^digits is exact in every float type; the largest integer itself need not be.
    const From limit = std::ldexp(From{1}, std::numeric_limits<To>::digits);
    return value >= (std::is_signed_v<To> ? -limit : From{0}) && value < limit;
  } else {
    return std::in_range<To>(value);
  }
}

template <typename To, typename From>
To convert(From value) noexcept {
  if constexpr (std::is_same_v<From, Half>) {
    return convert<To>(static_cast<double>(value));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return fits<To>(value) ? static_cast<To>(value) : To{0};  // others have no C++ conversion
  } else {
    return static_cast<To>(value);
  }
}

class CopyKernel final : public RowKernel {
 public:
  explicit CopyKernel(std::size_t bytes) : bytes_(bytes) {}
  void run(const std::byte* from, std::byte* to) const noexcept override { std::memcpy(to, from, bytes_); }
  bool is_copy() const noexcept override { return true; }

 private:
  std::size_t bytes_;
};

class StreamKernel final : public RowKernel {
 public:
  explicit StreamKernel(std::size_t bytes) : bytes_(bytes) {}
  void run(const std::byte* from, std::byte* to) const noexcept override { stream_copy(from, to, bytes_); }
  bool is_copy() const noexcept override { return true; }

 private:
  std::size_t bytes_;
};

// Walks a sample in delivery order and gives `element(from index, channel, to index)`.
template <typename F>
void for_each_element(std::size_t channels, std::size_t pixels, bool channels_last, F&& element) {
  const std::size_t pixel_step = channels_last ? channels : 1;
  const std::size_t channel_step = channels_last ? 1 : pixels;
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t p = 0; p < pixels; ++p) element(c * channel_step + p * pixel_step, c, c * pixels + p);
  }
}

template <typename From, typename To>
class ConvertKernel final : public RowKernel {
 public:
  explicit ConvertKernel(const RowKernelSpec& spec)
      : channels_(spec.channels), pixels_(spec.pixels), channels_last_(spec.channels_last) {}

  void run(const std::byte* from, std::byte* to) const noexcept override {
    for_each_element(channels_, pixels_, channels_last_, [=](std::size_t i, std::size_t, std::size_t o) {
      if constexpr (std::is_same_v<From, To>) {
        store(to, o, load<From>(from, i));
      } else {
        store(to, o, convert<To>(load<From>(from, i)));
      }
    });
  }

 private:
  std::size_t channels_, pixels_;
  bool channels_last_;
};

class NormalizeTableKernel final : public RowKernel {
 public:
  explicit NormalizeTableKernel(const RowKernelSpec& spec)
      : table_(normalize_table(*spec.normalize)),
        channels_(spec.channels),
        pixels_(spec.pixels),
        channels_last_(spec.channels_last) {}

  void run(const std::byte* from, std::byte* to) const noexcept override {
    const float* const table = table_.data();
    for_each_element(channels_, pixels_, channels_last_, [=](std::size_t i, std::size_t c, std::size_t o) {
      store(to, o, table[c * 256 + std::to_integer<std::size_t>(from[i])]);
    });
  }

 private:
  std::vector<float> table_;
  std::size_t channels_, pixels_;
  bool channels_last_;
};

template <typename From>
class NormalizeKernel final : public RowKernel {
 public:
  explicit NormalizeKernel(const RowKernelSpec& spec)
      : parameters_(*spec.normalize),
        channels_(spec.channels),
        pixels_(spec.pixels),
        channels_last_(spec.channels_last) {}

  void run(const std::byte* from, std::byte* to) const noexcept override {
    for_each_element(
        channels_, pixels_, channels_last_, [=, this](std::size_t i, std::size_t c, std::size_t o) {
          store(to, o, static_cast<float>(parameters_.apply(static_cast<double>(load<From>(from, i)), c)));
        });
  }

 private:
  NormalizeParameters parameters_;
  std::size_t channels_, pixels_;
  bool channels_last_;
};

}  // namespace

std::unique_ptr<const RowKernel> make_row_kernel(const RowKernelSpec& spec) {
  if (spec.from == DType::bf16 || spec.to == DType::bf16) {
    throw OptionError("h5feed does not convert to or from bf16 on the CPU; use f32");
  }
  if (spec.normalize) {
    if (spec.from == DType::u8) return std::make_unique<NormalizeTableKernel>(spec);
    return with_type_of(spec.from, [&](auto from) -> std::unique_ptr<const RowKernel> {
      return std::make_unique<NormalizeKernel<decltype(from)>>(spec);
    });
  }
  if (spec.from == spec.to && !spec.channels_last) {
    const std::size_t bytes = spec.channels * spec.pixels * size_of(spec.from);
    if (spec.past_caches) return std::make_unique<StreamKernel>(bytes);
    return std::make_unique<CopyKernel>(bytes);
  }
  return with_type_of(spec.from, [&](auto from) {
    return with_type_of(spec.to, [&](auto to) -> std::unique_ptr<const RowKernel> {
      using From = decltype(from);
      using To = decltype(to);
      if constexpr (std::is_same_v<To, Half> && !std::is_same_v<From, Half>) {
        throw OptionError(
            fmt::format("h5feed does not convert {} to f16 on the CPU; use f32", name_of(spec.from)));
      } else {
        return std::make_unique<ConvertKernel<From, To>>(spec);
      }
    });
  });
}

std::optional<std::size_t> first_out_of_range(DType from, std::span<const std::byte> values,
                                              DType to) noexcept {
  if (!is_integer(to)) return std::nullopt;
  return with_type_of(from, [&](auto from_value) -> std::optional<std::size_t> {
    return with_type_of(to, [&](auto to_value) -> std::optional<std::size_t> {
      using From = decltype(from_value);
      using To = decltype(to_value);
      if constexpr (std::is_integral_v<To>) {
        for (std::size_t i = 0; i < values.size() / sizeof(From); ++i) {
          if (!fits<To>(load<From>(values.data(), i))) return i;
        }
      }
      return std::nullopt;
    });
  });
}

}  // namespace h5feed
