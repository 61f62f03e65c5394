// SPDX-License-Identifier: Apache-2.0
// The CPU's row kernels against the units of the GPU's normalize kernel: every type, layout, crop and flip.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/float_bits.hpp"
#include "batch/row_kernel.hpp"
#include "cuda/kernels/normalize.hpp"
#include "h5feed/error.hpp"
#include "support/case_step.hpp"
#include "support/gpu/kernel_oracle.hpp"

namespace h5feed::test {
namespace {

using namespace gpu;  // NOLINT: this file tests it

struct Case {
  DType from = DType::u8;
  DType to = DType::f32;
  std::uint64_t channels = 3;
  bool in_last = false;
  bool out_last = false;
  std::optional<CropSizes> crop = {};
};

constexpr std::uint64_t kHeight = 7, kWidth = 21;
constexpr std::size_t kSamples = 6;

std::vector<SampleTransform> transforms_of(const Case& c) {
  if (!c.crop) return {};
  if (c.crop->resizes) {
    return {{.crop_height = 7, .crop_width = 21},
            {.crop_y = 2, .crop_x = 3, .flip = 1, .crop_height = 5, .crop_width = 18},
            {.crop_y = 6, .crop_x = 20, .crop_height = 1, .crop_width = 1},
            {.vertical_flip = 1, .crop_height = 3, .crop_width = 7},
            {.crop_y = 1, .crop_x = 1, .flip = 1, .vertical_flip = 1, .crop_height = 6, .crop_width = 4},
            {.crop_y = 3, .crop_x = 0, .crop_height = 2, .crop_width = 21}};
  }
  return {{0, 0, 0, 0}, {0, 0, 1, 0}, {-2, 3, 0, 1}, {3, -4, 1, 1}, {-100, 0, 0, 0}, {1, 2, 1, 0}};
}

NormalizeParameters parameters_of(const Case& c) {
  NormalizeParameters parameters{.scale = c.from == DType::u8 ? 1.0 / 255 : 0.01, .mean = {}, .std = {}};
  for (std::uint64_t i = 0; i < c.channels; ++i) {
    parameters.mean.push_back(0.4 + 0.05 * static_cast<double>(i));
    parameters.std.push_back(0.2 + 0.03 * static_cast<double>(i));
  }
  return parameters;
}

// Random values, and for uint8 in the first sample every value there is.
std::vector<std::byte> source_of(const Case& c) {
  const std::size_t count = kSamples * c.channels * kHeight * kWidth;
  std::vector<std::byte> bytes(count * size_of(c.from) + 16);
  std::mt19937 random(5);
  for (std::size_t i = 0; i < count; ++i) {
    std::byte* const at = bytes.data() + i * size_of(c.from);
    const float value = std::uniform_real_distribution<float>(-300, 300)(random);
    if (c.from == DType::f32) {
      std::memcpy(at, &value, 4);
    } else if (c.from == DType::f16) {
      const F16 half = to_f16(value);
      std::memcpy(at, &half, 2);
    } else if (c.from == DType::bf16) {
      const BF16 brain = to_bf16(value);
      std::memcpy(at, &brain, 2);
    } else if (c.from == DType::u8) {
      *at = static_cast<std::byte>(i < 256 * c.channels ? i / c.channels : random() % 256);
    } else {
      const auto word = static_cast<std::uint16_t>(random());
      std::memcpy(at, &word, 2);
    }
  }
  return bytes;
}

ImageLayout layout_of(const Case& c) {
  const CropSizes sizes = c.crop.value_or(CropSizes{kHeight, kWidth, kHeight, kWidth});
  return {.samples = kSamples,
          .channels = static_cast<std::int64_t>(c.channels),
          .in_height = static_cast<std::int64_t>(sizes.in_height),
          .in_width = static_cast<std::int64_t>(sizes.in_width),
          .out_height = static_cast<std::int64_t>(sizes.out_height),
          .out_width = static_cast<std::int64_t>(sizes.out_width),
          .in_channels_last = c.in_last,
          .out_channels_last = c.out_last,
          .resizes = sizes.resizes};
}

std::vector<std::byte> by_units(const Case& c, const std::vector<std::byte>& source) {
  const ImageLayout layout = layout_of(c);
  const std::vector<std::byte> coefficients = normalize_coefficients(parameters_of(c), c.from, c.to);
  const std::vector<SampleTransform> transforms = transforms_of(c);
  std::vector<std::byte> out(static_cast<std::size_t>(layout.out_elements()) * size_of(c.to));
  EXPECT_TRUE(run_on_cpu({.in = source.data(),
                          .from = c.from,
                          .out = out.data(),
                          .to = c.to,
                          .coefficients = coefficients.data(),
                          .transforms = transforms.empty() ? nullptr : transforms.data(),
                          .layout = layout}));
  return out;
}

std::vector<std::byte> by_rows(const Case& c, const std::vector<std::byte>& source) {
  const ImageLayout layout = layout_of(c);
  RowKernelSpec spec;
  spec.from = c.from;
  spec.to = c.to;
  spec.channels = c.channels;
  spec.pixels = kHeight * kWidth;
  spec.channels_last = c.in_last;
  spec.to_channels_last = c.out_last;
  spec.crop = c.crop;
  if (c.to != DType::u8) spec.normalize = parameters_of(c);
  const auto kernel = make_row_kernel(spec);
  const std::vector<SampleTransform> transforms = transforms_of(c);
  std::vector<std::byte> out(static_cast<std::size_t>(layout.out_elements()) * size_of(c.to));
  for (std::size_t n = 0; n < kSamples; ++n) {
    kernel->run(source.data() + n * c.channels * spec.pixels * size_of(c.from),
                out.data() + n * out.size() / kSamples,
                transforms.empty() ? SampleTransform{} : transforms[n]);
  }
  return out;
}

double value_at(const std::vector<std::byte>& bytes, DType dtype, std::size_t i) {
  if (dtype == DType::f32) {
    float value;
    std::memcpy(&value, bytes.data() + 4 * i, 4);
    return static_cast<double>(value);
  }
  std::uint16_t bits;
  std::memcpy(&bits, bytes.data() + 2 * i, 2);
  return static_cast<double>(dtype == DType::f16 ? to_float(F16{bits}) : to_float(BF16{bits}));
}

// The GPU computes in float32 with three roundings; a 16-bit output adds half a unit of its own on each side.
void expect_near(const Case& c, const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  const double largest = c.from == DType::u16 || c.from == DType::i16 ? 655.36 : 3.0;
  const double unit = c.to == DType::f32 ? 0.0 : std::ldexp(1.0, c.to == DType::f16 ? -10 : -7);
  for (std::size_t i = 0; i < a.size() / size_of(c.to); ++i) {
    const double ours = value_at(a, c.to, i);
    const double bound = std::ldexp((largest + 1) / 0.2, -22) + unit * std::fabs(ours);
    ASSERT_NEAR(ours, value_at(b, c.to, i), bound) << i;
  }
}

std::string text_of(const Case& c) {
  return std::string(name_of(c.from)) + " to " + std::string(name_of(c.to)) + ", channels " +
         std::to_string(c.channels) + (c.in_last ? ", in last" : "") + (c.out_last ? ", out last" : "") +
         (c.crop ? (c.crop->resizes ? ", scaled to " : ", cropped to ") + std::to_string(c.crop->out_height) +
                       "x" + std::to_string(c.crop->out_width)
                 : "");
}

TEST(RowKernels, do_what_the_gpu_kernels_do_for_every_type_layout_crop_and_flip) {
  const std::vector<std::optional<CropSizes>> crops = {std::nullopt,
                                                       CropSizes{kHeight, kWidth, kHeight, kWidth},
                                                       CropSizes{kHeight, kWidth, 5, 18},
                                                       CropSizes{kHeight, kWidth, 11, 27},
                                                       CropSizes{kHeight, kWidth, 5, 18, true},
                                                       CropSizes{kHeight, kWidth, 13, 40, true}};
  std::uint64_t number = 0;
  for (const DType from : {DType::u8, DType::u16, DType::i16, DType::f16, DType::bf16, DType::f32}) {
    for (const DType to : {DType::u8, DType::f32, DType::f16, DType::bf16}) {
      if (!can_normalize(from, to)) continue;
      for (const std::uint64_t channels : {1U, 3U, 4U, 5U}) {
        for (const bool in_last : {false, true}) {
          for (const bool out_last : {false, true}) {
            for (const auto& crop : crops) {
              if (number++ % kCaseStep != 0) continue;
              const Case c{from, to, channels, in_last, out_last, crop};
              SCOPED_TRACE(text_of(c));
              const std::vector<std::byte> source = source_of(c);
              const std::vector<std::byte> rows = by_rows(c, source);
              const std::vector<std::byte> units = by_units(c, source);
              if (from == DType::u8) {
                ASSERT_TRUE(rows == units) << "not the same bytes";
              } else {
                expect_near(c, rows, units);
              }
              if (HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

TEST(NormalizeKernels, move_uint8_without_changing_it_and_nothing_else_to_uint8) {
  EXPECT_TRUE(can_normalize(DType::u8, DType::u8));
  EXPECT_FALSE(can_normalize(DType::u16, DType::u8));
  EXPECT_FALSE(can_normalize(DType::f32, DType::u8));
  EXPECT_THROW(normalize_coefficients({.scale = 1, .mean = {0}, .std = {1}}, DType::u16, DType::u8),
               OptionError);
}

}  // namespace
}  // namespace h5feed::test
