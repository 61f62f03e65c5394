// SPDX-License-Identifier: Apache-2.0
#include "base/float_bits.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "cuda/kernels/normalize.hpp"
#include "cuda/kernels/values.hpp"
#include "h5feed/error.hpp"

namespace h5feed::gpu {
namespace {

// All finite values of a 16-bit type, ascending from 0, as (value, bits).
template <typename T>
std::vector<std::pair<double, std::uint16_t>> magnitudes() {
  std::vector<std::pair<double, std::uint16_t>> all;
  for (std::uint32_t bits = 0; bits < 0x8000; ++bits) {
    const double value = to_float(T{static_cast<std::uint16_t>(bits)});
    if (std::isfinite(value)) all.emplace_back(value, static_cast<std::uint16_t>(bits));
  }
  return all;
}

// The nearest by search, ties to the even bits: what rounding means, without arithmetic on bits.
template <typename T>
std::uint16_t nearest(const std::vector<std::pair<double, std::uint16_t>>& all, double magnitude) {
  const auto above = std::lower_bound(all.begin(), all.end(), std::pair(magnitude, std::uint16_t{0}));
  if (above == all.end()) {
    const double step = all.back().first - all[all.size() - 2].first;
    const auto largest = all.back().second;
    return static_cast<std::uint16_t>(magnitude >= all.back().first + step / 2 ? largest + 1 : largest);
  }
  if (above == all.begin()) return above->second;
  const auto below = above - 1;
  const double up = above->first - magnitude;
  const double down = magnitude - below->first;
  if (up != down) return up < down ? above->second : below->second;
  return above->second % 2 == 0 ? above->second : below->second;
}

TEST(FloatBits, of_every_half_survive_the_way_over_float) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const F16 half{static_cast<std::uint16_t>(bits)};
    const float value = to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(to_f16(value))));
    } else {
      ASSERT_EQ(to_f16(value).bits, bits);
    }
  }
  EXPECT_EQ(to_float(F16{0x3C00}), 1.0F);
  EXPECT_EQ(to_float(F16{0x7BFF}), 65504.0F);
  EXPECT_EQ(to_float(F16{0x0001}), std::ldexp(1.0F, -24));
}

TEST(FloatBits, of_every_bfloat16_survive_the_way_over_float) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const BF16 brain{static_cast<std::uint16_t>(bits)};
    const float value = to_float(brain);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(to_bf16(value))));
    } else {
      ASSERT_EQ(to_bf16(value).bits, bits);
    }
  }
  EXPECT_EQ(to_float(BF16{0x3F80}), 1.0F);
}

// Around every representable value and every midpoint between two.
template <typename T, typename Round>
void expect_nearest(Round round) {
  const auto all = magnitudes<T>();
  for (std::size_t i = 0; i + 1 < all.size(); ++i) {
    const double middle = (all[i].first + all[i + 1].first) / 2;
    for (const double exact : {all[i].first, middle}) {
      const auto at = static_cast<float>(exact);
      for (const float value : {at, std::nextafter(at, 0.0F), std::nextafter(at, INFINITY)}) {
        ASSERT_EQ(round(value).bits, nearest<T>(all, value)) << value;
        if (value == 0) continue;
        ASSERT_EQ(round(-value).bits, nearest<T>(all, value) | 0x8000) << value;
      }
    }
  }
  const auto infinity = static_cast<std::uint16_t>(all.back().second + 1);
  EXPECT_EQ(round(INFINITY).bits, infinity);
  EXPECT_EQ(round(std::numeric_limits<float>::max()).bits, infinity);
}

TEST(FloatBits, of_halves_round_to_the_nearest_and_ties_to_even) {
  expect_nearest<F16>([](float value) { return to_f16(value); });
}

TEST(FloatBits, of_bfloat16_round_to_the_nearest_and_ties_to_even) {
  expect_nearest<BF16>([](float value) { return to_bf16(value); });
}

template <typename T>
void expect_table_rounded_once(DType to) {
  NormalizeParameters parameters{.scale = 1.0 / 255, .mean = {0.485, 0.1, -30}, .std = {0.229, 3e-5, 1e-3}};
  const auto all = magnitudes<T>();
  const std::vector<std::byte> bytes = normalize_coefficients(parameters, DType::u8, to);
  ASSERT_EQ(bytes.size(), 3 * 256 * sizeof(T));
  for (std::size_t i = 0; i < 3 * 256; ++i) {
    T entry;
    std::memcpy(&entry, bytes.data() + i * sizeof(T), sizeof(T));
    const double exact = parameters.apply(static_cast<double>(i % 256), i / 256);
    const int sign = std::signbit(exact) ? 0x8000 : 0;
    ASSERT_EQ(entry.bits, nearest<T>(all, std::fabs(exact)) | sign) << exact;
  }
}

TEST(NormalizeCoefficients, of_uint8_are_rounded_once_from_float64) {
  expect_table_rounded_once<F16>(DType::f16);
  expect_table_rounded_once<BF16>(DType::bf16);
}

TEST(NormalizeCoefficients, of_uint8_for_float32_are_the_table_of_the_cpu) {
  const NormalizeParameters parameters{
      .scale = 1.0 / 255, .mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}};
  const std::vector<float> table = normalize_table(parameters);
  const std::vector<std::byte> bytes = normalize_coefficients(parameters, DType::u8, DType::f32);
  ASSERT_EQ(bytes.size(), table.size() * sizeof(float));
  EXPECT_EQ(std::memcmp(bytes.data(), table.data(), bytes.size()), 0);
}

TEST(NormalizeCoefficients, refuse_what_float32_cannot_hold_and_types_the_kernel_lacks) {
  const NormalizeParameters tiny{.scale = 1e-30, .mean = {0}, .std = {1e30}};
  EXPECT_THROW(normalize_coefficients(tiny, DType::u16, DType::f32), OptionError);
  EXPECT_NO_THROW(normalize_coefficients(tiny, DType::u8, DType::f32)) << "a table needs no factor";
  const NormalizeParameters plain{.scale = 1, .mean = {0}, .std = {1}};
  EXPECT_THROW(normalize_coefficients(plain, DType::i64, DType::f32), OptionError);
  EXPECT_THROW(normalize_coefficients(plain, DType::u8, DType::f64), OptionError);
}

}  // namespace
}  // namespace h5feed::gpu
