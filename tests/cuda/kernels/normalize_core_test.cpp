// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/normalize_dispatch.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "batch/row_kernel.hpp"
#include "cuda/kernels/normalize.hpp"
#include "support/gpu/kernel_oracle.hpp"

namespace h5feed::test {
namespace {

using namespace gpu;  // NOLINT: this file tests it

constexpr std::byte kUntouched{0xA5};

NormalizeParameters parameters_of(std::int64_t channels, double scale) {
  NormalizeParameters parameters;
  parameters.scale = scale;
  for (std::int64_t c = 0; c < channels; ++c) {
    parameters.mean.push_back(0.485 - 0.07 * static_cast<double>(c));
    parameters.std.push_back(0.229 + 0.01 * static_cast<double>(c));
  }
  return parameters;
}

// One case: random source, all units, and the output with guards around it.
struct Outcome {
  std::vector<std::byte> source;
  std::vector<std::byte> output;
};

struct Alignment {
  std::size_t in = 0;
  std::size_t out = 0;
};

Outcome run_case(const ImageLayout& layout, DType from, DType to, const NormalizeParameters& parameters,
                 const std::vector<SampleTransform>& transforms, Alignment alignment, std::uint32_t seed) {
  const std::size_t in_bytes = static_cast<std::size_t>(layout.in_elements()) * size_of(from);
  const std::size_t out_bytes = static_cast<std::size_t>(layout.out_elements()) * size_of(to);
  OffsetBytes in(in_bytes, alignment.in);
  OffsetBytes out(out_bytes + 32, alignment.out);
  std::mt19937 random(seed);
  if (from == DType::f32) {
    for (std::size_t i = 0; i < in_bytes / 4; ++i) {
      const float value = std::uniform_real_distribution<float>(-3, 3)(random);
      std::memcpy(in.data() + i * 4, &value, 4);
    }
  } else if (from == DType::f16) {
    for (std::size_t i = 0; i < in_bytes / 2; ++i) {
      const F16 value = to_f16(std::uniform_real_distribution<float>(-300, 300)(random));
      std::memcpy(in.data() + i * 2, &value, 2);
    }
  } else if (from == DType::bf16) {
    for (std::size_t i = 0; i < in_bytes / 2; ++i) {
      const BF16 value = to_bf16(std::uniform_real_distribution<float>(-300, 300)(random));
      std::memcpy(in.data() + i * 2, &value, 2);
    }
  } else {
    for (std::size_t i = 0; i < in_bytes; ++i) in.data()[i] = static_cast<std::byte>(random());
  }
  std::memset(out.data(), static_cast<int>(kUntouched), out_bytes + 32);

  const std::vector<std::byte> coefficients = normalize_coefficients(parameters, from, to);
  NormalizeJob job{.in = in.data(),
                   .from = from,
                   .out = out.data() + 16,
                   .to = to,
                   .coefficients = coefficients.data(),
                   .transforms = transforms.empty() ? nullptr : transforms.data(),
                   .layout = layout};
  EXPECT_TRUE(run_on_cpu(job));
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(out.data()[i], kUntouched) << "a store before the output";
    EXPECT_EQ(out.data()[16 + out_bytes + i], kUntouched) << "a store behind the output";
  }
  return {{in.data(), in.data() + in_bytes}, {out.data() + 16, out.data() + 16 + out_bytes}};
}

template <typename T>
T element(const std::vector<std::byte>& bytes, std::int64_t index) {
  T value;
  std::memcpy(&value, bytes.data() + static_cast<std::size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

double source_value(const Outcome& outcome, DType from, std::int64_t index) {
  if (index < 0) return 0;
  switch (from) {
    case DType::u8:
      return element<std::uint8_t>(outcome.source, index);
    case DType::u16:
      return element<std::uint16_t>(outcome.source, index);
    case DType::i16:
      return element<std::int16_t>(outcome.source, index);
    case DType::f16:
      return to_float(element<F16>(outcome.source, index));
    case DType::bf16:
      return to_float(element<BF16>(outcome.source, index));
    default:
      return element<float>(outcome.source, index);
  }
}

double output_value(const Outcome& outcome, DType to, std::int64_t index) {
  switch (to) {
    case DType::f16:
      return to_float(element<F16>(outcome.output, index));
    case DType::bf16:
      return to_float(element<BF16>(outcome.output, index));
    default:
      return element<float>(outcome.output, index);
  }
}

void check_case(const ImageLayout& layout, DType from, DType to,
                const std::vector<SampleTransform>& transforms, Alignment alignment, std::uint32_t seed) {
  const double scale = from == DType::u8                          ? 1.0 / 255
                       : from == DType::u16 || from == DType::i16 ? 1.0 / 65535
                                                                  : 0.7;
  const NormalizeParameters parameters = parameters_of(layout.channels, scale);
  const Outcome outcome = run_case(layout, from, to, parameters, transforms, alignment, seed);
  const std::vector<std::byte> table =
      from == DType::u8 ? normalize_coefficients(parameters, from, to) : std::vector<std::byte>{};
  const std::size_t bytes = size_of(to);
  for_each_output(layout, transforms, [&](std::int64_t out, std::int64_t in, std::int64_t c) {
    const double x = source_value(outcome, from, in);
    if (from == DType::u8) {
      const auto* const expected =
          table.data() + (static_cast<std::size_t>(c) * 256 + static_cast<std::size_t>(x)) * bytes;
      ASSERT_EQ(std::memcmp(outcome.output.data() + static_cast<std::size_t>(out) * bytes, expected, bytes),
                0)
          << "output " << out;
      return;
    }
    const auto channel = static_cast<std::uint64_t>(c);
    ASSERT_NEAR(output_value(outcome, to, out), parameters.apply(x, channel),
                error_bound(parameters, x, channel, to))
        << "output " << out;
  });
}

constexpr DType kSources[] = {DType::u8, DType::u16, DType::i16, DType::f16, DType::bf16, DType::f32};
constexpr DType kOutputs[] = {DType::f32, DType::f16, DType::bf16};

struct Extent {
  std::int64_t height, width;
};

TEST(NormalizeUnits, plain_give_every_type_layout_and_channel_count) {
  std::uint32_t seed = 0;
  for (const DType from : kSources) {
    for (const DType to : kOutputs) {
      for (const std::int64_t channels : {1, 2, 3, 4, 5}) {
        for (const Extent size : {Extent{1, 1}, {3, 5}, {8, 8}, {7, 16}, {1, 33}, {16, 12}, {41, 40}}) {
          for (const bool in_last : {false, true}) {
            for (const bool out_last : {false, true}) {
              check_case({.samples = 3,
                          .channels = channels,
                          .in_height = size.height,
                          .in_width = size.width,
                          .out_height = size.height,
                          .out_width = size.width,
                          .in_channels_last = in_last,
                          .out_channels_last = out_last},
                         from, to, {}, {}, ++seed);
              if (HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

TEST(NormalizeUnits, flip_and_crop_each_sample_for_itself_with_padding_of_zeros) {
  std::uint32_t seed = 1000;
  const std::vector<SampleTransform> transforms = {
      {},
      {.flip = 1},
      {.crop_y = 2, .crop_x = 3},
      {.crop_y = 1, .crop_x = 1, .flip = 1},
      {.crop_y = -2, .crop_x = -3},
      {.crop_y = 4, .crop_x = 9, .flip = 1},
      {.crop_y = -100, .crop_x = 0},
      {.crop_x = 1000, .flip = 1},
      {.vertical_flip = 1},
      {.crop_y = -2, .crop_x = 3, .flip = 1, .vertical_flip = 1}};
  for (const DType from : kSources) {
    for (const DType to : kOutputs) {
      for (const std::int64_t channels : {1, 3, 4, 7}) {
        for (const Extent out : {Extent{5, 8}, {7, 19}, {3, 24}, {9, 32}}) {
          for (const bool in_last : {false, true}) {
            for (const bool out_last : {false, true}) {
              check_case({.samples = static_cast<std::int64_t>(transforms.size()),
                          .channels = channels,
                          .in_height = 8,
                          .in_width = 24,
                          .out_height = out.height,
                          .out_width = out.width,
                          .in_channels_last = in_last,
                          .out_channels_last = out_last},
                         from, to, transforms, {}, ++seed);
              if (HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

TEST(NormalizeUnits, take_any_alignment_of_elements) {
  std::uint32_t seed = 5000;
  const std::vector<SampleTransform> transforms = {{}, {.flip = 1}};
  for (const DType from : kSources) {
    for (const DType to : kOutputs) {
      for (const std::int64_t channels : {1, 3, 4}) {
        for (std::size_t in = 0; in < 20; in += size_of(from)) {
          for (std::size_t out = 0; out < 20; out += size_of(to)) {
            const ImageLayout layout{.samples = 2,
                                     .channels = channels,
                                     .in_height = 2,
                                     .in_width = 16,
                                     .out_height = 2,
                                     .out_width = 16,
                                     .in_channels_last = in % 8 < 4,
                                     .out_channels_last = out % 8 < 4};
            check_case(layout, from, to, transforms, {in, out}, ++seed);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

// Tiles of several thousand elements, which are loaded before any is stored.
TEST(NormalizeUnits, of_whole_tiles_take_any_alignment) {
  std::uint32_t seed = 9000;
  for (const DType from : kSources) {
    for (const DType to : kOutputs) {
      for (const bool last : {false, true}) {
        for (const Alignment units : {Alignment{1, 0}, {0, 1}, {2, 2}, {3, 7}}) {
          const ImageLayout layout{.samples = 5,
                                   .channels = 3,
                                   .in_height = 33,
                                   .in_width = 31,
                                   .out_height = 33,
                                   .out_width = 31,
                                   .in_channels_last = last,
                                   .out_channels_last = last};
          check_case(layout, from, to, {}, {units.in * size_of(from), units.out * size_of(to)}, ++seed);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(NormalizeUnits, of_uint8_are_bit_equal_to_the_cpu_for_all_values_and_channels) {
  for (const std::int64_t channels : {1, 3, 4}) {
    for (const bool last : {false, true}) {
      const ImageLayout layout{.samples = 2,
                               .channels = channels,
                               .in_height = 16,
                               .in_width = 16,
                               .out_height = 16,
                               .out_width = 16,
                               .in_channels_last = last};
      const auto elements = static_cast<std::size_t>(layout.in_elements());
      const std::size_t sample = elements / 2;
      OffsetBytes in(elements, 0);
      for (std::size_t i = 0; i < elements; ++i) {
        // Every channel sees every value.
        const std::size_t pixel = last ? i / static_cast<std::size_t>(channels) : i;
        in.data()[i] = static_cast<std::byte>(pixel % 256);
      }
      const NormalizeParameters parameters = parameters_of(channels, 1.0 / 255);
      const std::vector<std::byte> table = normalize_coefficients(parameters, DType::u8, DType::f32);
      std::vector<float> ours(elements);
      ASSERT_TRUE(
          run_on_cpu({.in = in.data(), .out = ours.data(), .coefficients = table.data(), .layout = layout}));

      const auto kernel = make_row_kernel({.from = DType::u8,
                                           .to = DType::f32,
                                           .channels = static_cast<std::uint64_t>(channels),
                                           .pixels = 256,
                                           .channels_last = last && channels > 1,
                                           .normalize = parameters});
      std::vector<float> cpu(elements);
      for (std::size_t n = 0; n < 2; ++n) {
        kernel->run(in.data() + n * sample, reinterpret_cast<std::byte*>(cpu.data() + n * sample));
      }
      EXPECT_EQ(std::memcmp(ours.data(), cpu.data(), elements * sizeof(float)), 0);
    }
  }
}

TEST(NormalizeUnits, keep_infinities_and_nans_of_float_sources) {
  const std::vector<float> in = {INFINITY, -INFINITY, NAN, 1, 0, -0.0F, 3e38F, 1e-40F};
  std::vector<float> out(in.size());
  const std::vector<std::byte> factors =
      normalize_coefficients({.scale = 1, .mean = {0.5}, .std = {0.5}}, DType::f32, DType::f32);
  ASSERT_TRUE(run_on_cpu({.in = in.data(),
                          .from = DType::f32,
                          .out = out.data(),
                          .coefficients = factors.data(),
                          .layout = {.samples = 1, .in_width = 8, .out_width = 8}}));
  EXPECT_EQ(out[0], INFINITY);
  EXPECT_EQ(out[1], -INFINITY);
  EXPECT_TRUE(std::isnan(out[2]));
  EXPECT_EQ(out[3], 1);
  EXPECT_EQ(out[4], -1);
  EXPECT_EQ(out[6], INFINITY);
}

TEST(NormalizeUnits, of_no_sample_are_none) {
  ImageLayout layout{
      .samples = 0, .channels = 3, .in_height = 4, .in_width = 4, .out_height = 4, .out_width = 4};
  int calls = 0;
  EXPECT_TRUE(with_units(NormalizeJob{.layout = layout}, [&](const auto& units) {
    ++calls;
    EXPECT_EQ(units.tiles(), 0);
  }));
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace h5feed::test
