// SPDX-License-Identifier: Apache-2.0
#include "batch/row_kernel.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/float_bits.hpp"
#include "base/with_type.hpp"
#include "batch/image_map.hpp"
#include "batch/resize_kernel.hpp"
#include "batch/stream_copy.hpp"
#include "h5feed/error.hpp"

namespace h5feed {
namespace {

// Loads an element at any byte offset: samples are not aligned in chunks and batches.
template <typename T>
T load(const std::byte* from, std::ptrdiff_t index) noexcept {
  T value;
  std::memcpy(&value, from + index * static_cast<std::ptrdiff_t>(sizeof(T)), sizeof(T));
  return value;
}

template <typename T>
void store(std::byte* to, std::ptrdiff_t index, T value) noexcept {
  std::memcpy(to + index * static_cast<std::ptrdiff_t>(sizeof(T)), &value, sizeof(T));
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

// A value conversion has the types From and To, `kVectorizes`, whether neighbours deserve a loop of their
// own, and `of(channel)`, which returns a function of a From that gives the To. The function holds its
// parameters in registers: stores of bytes may alias any object in memory.

template <typename F, typename T>
struct Converted {
  using From = F;
  using To = T;
  static constexpr bool kVectorizes = true;
  auto of(std::ptrdiff_t) const noexcept {
    return [](From value) {
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
  static constexpr bool kVectorizes =
      false;  // GCC would gather lookups into vectors, which takes half again as long
  std::vector<To> table;
  auto of(std::ptrdiff_t channel) const noexcept {
    return [entries = table.data() + channel * 256](From value) { return entries[value]; };
  }
};

template <typename F, typename T>
struct Normalized {
  using From = F;
  using To = T;
  static constexpr bool kVectorizes = true;
  NormalizeParameters parameters;
  auto of(std::ptrdiff_t channel) const noexcept {
    return [this, channel](From value) {
      return rounded_once<To>(parameters.apply(to_double(value), static_cast<std::uint64_t>(channel)));
    };
  }
};

// Finds the elements of a conversion, which a derived class converts: there are some 170 of these, so that
// they hold nothing but the loops.
class MapKernel : public RowKernel {
 public:
  explicit MapKernel(const RowKernelSpec& spec)
      : map_(spec),
        transforms_(spec.crop.has_value()),
        from_bytes_(static_cast<std::ptrdiff_t>(size_of(spec.from))),
        to_bytes_(static_cast<std::ptrdiff_t>(size_of(spec.to))) {}

 private:
  // Converts `count` elements of one channel. Steps count elements.
  virtual void convert_run(const std::byte* from, std::ptrdiff_t from_step, std::byte* to,
                           std::ptrdiff_t to_step, std::ptrdiff_t count,
                           std::ptrdiff_t channel) const noexcept = 0;

  void do_run(const std::byte* from, std::byte* to,
              const SampleTransform& transform) const noexcept override {
    static constexpr std::array<std::byte, sizeof(std::uint64_t)> kZero = {};
    const auto target = [&](const ElementRun& run) { return to + run.output * to_bytes_; };
    for_each_run(
        map_, transforms_ ? transform : SampleTransform{},
        [&](const ElementRun& run) {
          convert_run(from + run.source * from_bytes_, run.source_step, target(run), run.output_step,
                      run.count, run.channel);
        },
        [&](const ElementRun& run) {
          convert_run(kZero.data(), 0, target(run), run.output_step, run.count, run.channel);
        });
  }

  ImageMap map_;
  bool transforms_;
  std::ptrdiff_t from_bytes_, to_bytes_;
};

template <typename Value>
class ValueKernel final : public MapKernel {
 public:
  ValueKernel(const RowKernelSpec& spec, Value value) : MapKernel(spec), value_(std::move(value)) {}

 private:
  using From = typename Value::From;
  using To = typename Value::To;

  void convert_run(const std::byte* from, std::ptrdiff_t from_step, std::byte* to, std::ptrdiff_t to_step,
                   std::ptrdiff_t count, std::ptrdiff_t channel) const noexcept override {
    const auto value = value_.of(channel);
    if constexpr (Value::kVectorizes) {
      if (from_step == 1 && to_step == 1) {
        for (std::ptrdiff_t i = 0; i < count; ++i) store(to, i, value(load<From>(from, i)));
        return;
      }
    }
    for (std::ptrdiff_t i = 0; i < count; ++i) store(to, i * to_step, value(load<From>(from, i * from_step)));
  }

  Value value_;
};

template <typename Value>
std::unique_ptr<const RowKernel> map_kernel(const RowKernelSpec& spec, Value value) {
  return std::make_unique<ValueKernel<Value>>(spec, std::move(value));
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
  if (spec.crop && spec.crop->resizes) return make_resize_kernel(spec);
  if (spec.normalize) return normalize_kernel_to(spec);
  const bool same_order = spec.channels_last == spec.to_channels_last || spec.channels == 1;
  if (spec.from == spec.to && same_order && !spec.crop) {
    const std::size_t bytes = spec.channels * spec.pixels * size_of(spec.from);
    if (spec.past_caches) return std::make_unique<StreamKernel>(bytes);
    return std::make_unique<CopyKernel>(bytes);
  }
  RowKernelSpec elements = spec;
  if (same_order && !spec.crop) {  // channels do not matter
    elements.pixels *= elements.channels;
    elements.channels = 1;
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
        return map_kernel(elements, Converted<From, To>{});
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
        const auto count = static_cast<std::ptrdiff_t>(values.size() / sizeof(From));
        for (std::ptrdiff_t i = 0; i < count; ++i) {
          if (!fits<To>(load<From>(values.data(), i))) return static_cast<std::size_t>(i);
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
