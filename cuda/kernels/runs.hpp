// SPDX-License-Identifier: Apache-2.0
// Loads and stores of a few neighbouring elements in as few memory operations as their alignment allows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/cuda_macros.hpp"
#include "base/float_bits.hpp"

namespace h5feed::gpu {

namespace detail {

struct alignas(16) FourWords {
  std::uint32_t words[4];
};
struct alignas(8) TwoWords {
  std::uint32_t words[2];
};

H5FEED_HOST_DEVICE inline std::uint32_t load_word(const unsigned char* aligned) noexcept {
#ifdef __CUDA_ARCH__
  return *reinterpret_cast<const std::uint32_t*>(aligned);
#else
  std::uint32_t word;
  std::memcpy(&word, aligned, sizeof(word));
  return word;
#endif
}

H5FEED_HOST_DEVICE inline FourWords load_four(const unsigned char* aligned) noexcept {
#ifdef __CUDA_ARCH__
  const uint4 four = *reinterpret_cast<const uint4*>(aligned);
  return {{four.x, four.y, four.z, four.w}};
#else
  FourWords four;
  std::memcpy(&four, aligned, sizeof(four));
  return four;
#endif
}

H5FEED_HOST_DEVICE inline TwoWords load_two(const unsigned char* aligned) noexcept {
#ifdef __CUDA_ARCH__
  const uint2 two = *reinterpret_cast<const uint2*>(aligned);
  return {{two.x, two.y}};
#else
  TwoWords two;
  std::memcpy(&two, aligned, sizeof(two));
  return two;
#endif
}

H5FEED_HOST_DEVICE inline void store_four(unsigned char* aligned, const FourWords& four,
                                          bool past_caches) noexcept {
#ifdef __CUDA_ARCH__
  const uint4 value = make_uint4(four.words[0], four.words[1], four.words[2], four.words[3]);
  if (past_caches) {
    __stcs(reinterpret_cast<uint4*>(aligned), value);
  } else {
    *reinterpret_cast<uint4*>(aligned) = value;
  }
#else
  static_cast<void>(past_caches);
  std::memcpy(aligned, &four, sizeof(four));
#endif
}

/// Returns the 32 bits that begin `shift` < 32 bits into the pair, lower word first.
H5FEED_HOST_DEVICE inline std::uint32_t joined(std::uint32_t low, std::uint32_t high,
                                               unsigned shift) noexcept {
#ifdef __CUDA_ARCH__
  return __funnelshift_r(low, high, shift);
#else
  return shift == 0 ? low : low >> shift | high << (32 - shift);
#endif
}

template <typename T>
H5FEED_HOST_DEVICE T from_bits(std::uint32_t bits) noexcept {
  if constexpr (sizeof(T) == 4) {
    return float_of(bits);
  } else {
    return T{static_cast<std::uint16_t>(bits)};
  }
}
template <>
H5FEED_HOST_DEVICE inline std::uint8_t from_bits<std::uint8_t>(std::uint32_t bits) noexcept {
  return static_cast<std::uint8_t>(bits);
}
template <>
H5FEED_HOST_DEVICE inline std::int16_t from_bits<std::int16_t>(std::uint32_t bits) noexcept {
  return static_cast<std::int16_t>(static_cast<std::uint16_t>(bits));
}

H5FEED_HOST_DEVICE inline std::uint32_t to_bits(float value) noexcept { return bits_of(value); }
H5FEED_HOST_DEVICE inline std::uint32_t to_bits(F16 value) noexcept { return value.bits; }
H5FEED_HOST_DEVICE inline std::uint32_t to_bits(BF16 value) noexcept { return value.bits; }
H5FEED_HOST_DEVICE inline std::uint32_t to_bits(std::uint8_t value) noexcept { return value; }

}  // namespace detail

/// kCount neighbouring elements in registers. Every index must be a constant once loops are unrolled;
/// otherwise the compiler moves the words to slow local memory.
template <typename T, std::uint32_t kCount>
class Loaded {
 public:
  static constexpr std::uint32_t kBytes = kCount * sizeof(T);
  static constexpr std::uint32_t kWords = kBytes / 4;
  static_assert(kBytes % 4 == 0, "a run is a whole number of words");

  /// Creates a run of zeros.
  Loaded() = default;

  /// Loads the run at `from`, aligned to its element. Reads whole 4-byte words, hence up to 3 bytes before
  /// and after the elements: that memory must be readable. cudaMalloc aligns to 256 bytes; allocations must
  /// be rounded up to a multiple of 4 bytes.
  H5FEED_HOST_DEVICE explicit Loaded(const T* from) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(from);
    const auto* const bytes = reinterpret_cast<const unsigned char*>(from);
    if constexpr (kBytes % 16 == 0) {
      if (address % 16 == 0) {
        H5FEED_UNROLL
        for (std::uint32_t i = 0; i < kWords / 4; ++i) {
          const detail::FourWords four = detail::load_four(bytes + 16 * i);
          H5FEED_UNROLL
          for (std::uint32_t k = 0; k < 4; ++k) words_[4 * i + k] = four.words[k];
        }
        return;
      }
    } else if constexpr (kBytes % 8 == 0) {
      if (address % 8 == 0) {
        H5FEED_UNROLL
        for (std::uint32_t i = 0; i < kWords / 2; ++i) {
          const detail::TwoWords two = detail::load_two(bytes + 8 * i);
          words_[2 * i] = two.words[0];
          words_[2 * i + 1] = two.words[1];
        }
        return;
      }
    }
    const auto off = static_cast<unsigned>(address % 4);
    const unsigned char* const aligned = bytes - off;
    H5FEED_UNROLL
    for (std::uint32_t i = 0; i < kWords; ++i) words_[i] = detail::load_word(aligned + 4 * i);
    if (off != 0) {
      const std::uint32_t last = detail::load_word(aligned + kBytes);
      H5FEED_UNROLL
      for (std::uint32_t i = 0; i < kWords; ++i) {
        words_[i] = detail::joined(words_[i], i + 1 < kWords ? words_[i + 1] : last, 8 * off);
      }
    }
  }

  /// Returns element `i` < kCount.
  H5FEED_HOST_DEVICE T operator[](std::uint32_t i) const noexcept {
    constexpr std::uint32_t kPerWord = 4 / sizeof(T);
    constexpr std::uint32_t kBits = 8 * sizeof(T);
    return detail::from_bits<T>(words_[i / kPerWord] >> (kBits * (i % kPerWord)));
  }

 private:
  std::uint32_t words_[kWords] = {};
};

/// Stores the first `count` elements, one by one.
template <typename T, std::size_t kCount>
H5FEED_HOST_DEVICE void store_some(T* to, const T (&values)[kCount], std::uint32_t count) noexcept {
  H5FEED_UNROLL
  for (std::size_t i = 0; i < kCount; ++i) {
    if (i < count) to[i] = values[i];
  }
}

/// Stores 16 bytes of elements: in one operation if `to` is aligned to 16 bytes, else one by one.
/// `past_caches`: use a streaming store.
template <typename T, std::size_t kCount>
H5FEED_HOST_DEVICE void store_run(T* to, const T (&values)[kCount], bool past_caches) noexcept {
  static_assert(kCount * sizeof(T) == 16);
  if (reinterpret_cast<std::uintptr_t>(to) % 16 == 0) {
    constexpr std::size_t kPerWord = 4 / sizeof(T);
    constexpr std::size_t kBits = 8 * sizeof(T);
    detail::FourWords four = {};
    H5FEED_UNROLL
    for (std::size_t i = 0; i < kCount; ++i) {
      four.words[i / kPerWord] |= detail::to_bits(values[i]) << (kBits * (i % kPerWord));
    }
    detail::store_four(reinterpret_cast<unsigned char*>(to), four, past_caches);
  } else {
    store_some(to, values, kCount);
  }
}

}  // namespace h5feed::gpu
