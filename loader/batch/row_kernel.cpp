// SPDX-License-Identifier: Apache-2.0
#include "batch/row_kernel.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/float_bits.hpp"
#include "base/with_type.hpp"
#include "batch/image_map.hpp"
#include "batch/stream_copy.hpp"
#include "h5feed/error.hpp"

namespace h5feed {
namespace {

// Loads an element at any byte offset: samples are not aligned in chunks and batches.
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

// The 16-bit float types, which C++20 lacks.
template <typename T>
constexpr bool kSixteenBitFloat = std::is_same_v<T, F16> || std::is_same_v<T, BF16>;

// Returns whether the integer type To can hold the value without its fraction.
template <typename To, typename From>
bool fits(From value) noexcept {
  if constexpr (kSixteenBitFloat<From>) {
    return fits<To>(to_float(value));
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
  if constexpr (kSixteenBitFloat<From>) {
    return convert<To>(to_float(value));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return fits<To>(value) ? static_cast<To>(value) : To{0};  // out of range is undefined in C++
  } else {
    return static_cast<To>(value);
  }
}

template <typename T>
double to_double(T value) noexcept {
  if constexpr (kSixteenBitFloat<T>) {
    return static_cast<double>(to_float(value));
  } else {
    return static_cast<double>(value);
  }
}

class CopyKernel final : public RowKernel {
 public:
  explicit CopyKernel(std::size_t bytes) : bytes_(bytes) {}
  bool is_copy() const noexcept override { return true; }

 private:
  void do_run(const std::byte* from, std::byte* to, const SampleTransform&) const noexcept override {
    // A row without elements has no memory either.
    if (bytes_ > 0) std::memcpy(to, from, bytes_);
  }

  std::size_t bytes_;
};

class StreamKernel final : public RowKernel {
 public:
  explicit StreamKernel(std::size_t bytes) : bytes_(bytes) {}
  bool is_copy() const noexcept override { return true; }

 private:
  void do_run(const std::byte* from, std::byte* to, const SampleTransform&) const noexcept override {
    stream_copy(from, to, bytes_);
  }

  std::size_t bytes_;
};

// A value conversion has the types From and To, and `here()`, which returns a function of a From and a
// channel that gives the To. The function holds its parameters in registers: stores of bytes may alias any
// object in memory.

template <typename F, typename T>
struct Converted {
  using From = F;
  using To = T;
  auto here() const noexcept {
    return [](From value, std::ptrdiff_t) {
      if constexpr (std::is_same_v<From, To>) {
        return value;
      } else {
        return convert<To>(value);
      }
    };
  }
};

template <typename T>
struct FromTable {
  using From = std::uint8_t;
  using To = T;
  std::vector<To> table;
  auto here() const noexcept {
    return [entries = table.data()](From value, std::ptrdiff_t channel) {
      return entries[channel * 256 + value];
    };
  }
};

template <typename F, typename T>
struct Normalized {
  using From = F;
  using To = T;
  NormalizeParameters parameters;
  auto here() const noexcept {
    return [this](From value, std::ptrdiff_t channel) {
      return rounded_once<To>(parameters.apply(to_double(value), static_cast<std::uint64_t>(channel)));
    };
  }
};

template <typename Value>
class MapKernel final : public RowKernel {
 public:
  MapKernel(const RowKernelSpec& spec, Value value)
      : map_(spec), transforms_(spec.crop.has_value()), value_(std::move(value)) {}

 private:
  using From = typename Value::From;
  using To = typename Value::To;

  void do_run(const std::byte* from, std::byte* to,
              const SampleTransform& transform) const noexcept override {
    const auto value = value_.here();
    const ImageMap map = map_;
    map_image(
        map, transforms_ ? transform : SampleTransform{},
        [=](std::ptrdiff_t i, std::ptrdiff_t c, std::ptrdiff_t o) {
          store(to, static_cast<std::size_t>(o), value(load<From>(from, static_cast<std::size_t>(i)), c));
        },
        [=](std::ptrdiff_t c, std::ptrdiff_t o) {
          store(to, static_cast<std::size_t>(o), value(From{}, c));
        });
  }

  ImageMap map_;
  bool transforms_;
  Value value_;
};

template <typename Value>
std::unique_ptr<const RowKernel> map_kernel(const RowKernelSpec& spec, Value value) {
  return std::make_unique<MapKernel<Value>>(spec, std::move(value));
}

template <typename To>
std::unique_ptr<const RowKernel> normalize_kernel(const RowKernelSpec& spec) {
  if (spec.from == DType::u8) {
    return map_kernel(spec, FromTable<To>{normalize_table<To>(*spec.normalize)});
  }
  return with_type_of(spec.from, [&](auto from) {
    return map_kernel(spec, Normalized<decltype(from), To>{*spec.normalize});
  });
}

std::unique_ptr<const RowKernel> normalize_kernel_to(const RowKernelSpec& spec) {
  switch (spec.to) {
    case DType::f16:
      return normalize_kernel<F16>(spec);
    case DType::bf16:
      return normalize_kernel<BF16>(spec);
    case DType::f64:
      return normalize_kernel<double>(spec);
    default:
      return normalize_kernel<float>(spec);
  }
}

}  // namespace

std::unique_ptr<const RowKernel> make_row_kernel(const RowKernelSpec& spec) {
  if (spec.normalize) return normalize_kernel_to(spec);
  const bool same_order = spec.channels_last == spec.to_channels_last || spec.channels == 1;
  if (spec.from == spec.to && same_order && !spec.crop) {
    const std::size_t bytes = spec.channels * spec.pixels * size_of(spec.from);
    if (spec.past_caches) return std::make_unique<StreamKernel>(bytes);
    return std::make_unique<CopyKernel>(bytes);
  }
  return with_type_of(spec.from, [&](auto from) {
    return with_type_of(spec.to, [&](auto to) -> std::unique_ptr<const RowKernel> {
      using From = decltype(from);
      using To = decltype(to);
      if constexpr (kSixteenBitFloat<To> && !std::is_same_v<From, To>) {
        throw OptionError(
            fmt::format("h5feed does not convert {} to {} on the CPU without normalize; use f32",
                        name_of(spec.from), name_of(spec.to)));
      } else {
        return map_kernel(spec, Converted<From, To>{});
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

std::string number_text(DType dtype, const std::byte* value) {
  return with_type_of(dtype, [&](auto type) {
    const auto number = load<decltype(type)>(value, 0);
    if constexpr (kSixteenBitFloat<decltype(type)>) {
      return fmt::format("{}", to_float(number));
    } else {
      return fmt::format("{}", number);
    }
  });
}

}  // namespace h5feed
