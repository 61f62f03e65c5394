// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/convert_core.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "batch/row_kernel.hpp"
#include "h5feed/dtype.hpp"

namespace h5feed::gpu {
namespace {

constexpr DType kTypes[] = {DType::u8,  DType::i8,  DType::u16, DType::i16, DType::u32, DType::i32,
                            DType::u64, DType::i64, DType::f16, DType::f32, DType::f64, DType::bf16};

template <typename T>
void append(std::vector<std::byte>& bytes, std::initializer_list<double> values) {
  for (const double value : values) {
    const T element = static_cast<T>(value);
    const auto* const begin = reinterpret_cast<const std::byte*>(&element);
    bytes.insert(bytes.end(), begin, begin + sizeof(T));
  }
}

// Random bits of a type, and for floats the edges of every integer type.
std::vector<std::byte> values_of(DType type) {
  std::vector<std::byte> bytes;
  std::mt19937 random(static_cast<unsigned>(type));
  for (std::size_t i = 0; i < 4096 * size_of(type); ++i) bytes.push_back(static_cast<std::byte>(random()));
  const std::initializer_list<double> edges = {
      0,      -0.0,    0.5,          -0.5,       0.999,       -0.999,    1,           -1,
      127,    127.9,   128,          -128,       -128.9,      -129,      255,         255.9,
      256,    32767.5, 32768,        -32768.5,   65535.5,     65536,     -65536,      2147483520,
      2e9,    -2e9,    2147483648.0, 4294967040, 4294967296., 9.2e18,    -9.3e18,     1.8e19,
      9.3e18, 2e19,    1e30,         -1e30,      INFINITY,    -INFINITY, std::nan("")};
  if (type == DType::f32) append<float>(bytes, edges);
  if (type == DType::f64) append<double>(bytes, edges);
  return bytes;
}

TEST(ConvertElement, gives_what_the_cpu_gives_for_every_pair_of_types) {
  for (const DType from : kTypes) {
    const std::vector<std::byte> in = values_of(from);
    const std::size_t count = in.size() / size_of(from);
    for (const DType to : kTypes) {
      // The CPU does not convert to them.
      if ((to == DType::f16 || to == DType::bf16) && from != to) continue;
      std::vector<std::byte> cpu(count * size_of(to)), ours(count * size_of(to));
      make_row_kernel({.from = from, .to = to, .pixels = count})->run(in.data(), cpu.data());
      for (std::size_t i = 0; i < count; ++i) {
        convert_element(from, in.data(), to, ours.data(), static_cast<std::int64_t>(i));
      }
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t at = i * size_of(to);
        if (std::memcmp(cpu.data() + at, ours.data() + at, size_of(to)) == 0) continue;
        // A NaN may have other bits.
        double source = 0;
        convert_element(from, in.data(), DType::f64, &source - i, static_cast<std::int64_t>(i));
        ASSERT_TRUE(std::isnan(source) && !is_integer(to))
            << name_of(from) << " to " << name_of(to) << ", element " << i << " = " << source;
      }
    }
  }
}

TEST(ConvertElement, rounds_labels_to_16_bit_floats) {
  const std::vector<std::int64_t> labels = {0, 1, -7, 2049, 70000};
  std::vector<std::uint16_t> half(5), brain(5);
  for (std::int64_t i = 0; i < 5; ++i) {
    convert_element(DType::i64, labels.data(), DType::f16, half.data(), i);
    convert_element(DType::i64, labels.data(), DType::bf16, brain.data(), i);
  }
  EXPECT_EQ(half, (std::vector<std::uint16_t>{0, 0x3C00, 0xC700, 0x6800, 0x7C00}));
  EXPECT_EQ(to_float(BF16{brain[2]}), -7.0F);
  EXPECT_EQ(to_float(BF16{brain[3]}), 2048.0F);
}

}  // namespace
}  // namespace h5feed::gpu
