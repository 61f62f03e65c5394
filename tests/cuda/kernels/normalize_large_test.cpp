// SPDX-License-Identifier: Apache-2.0
// What a few small images cannot show: all values of 16-bit types, and batches beyond 2^31 and 2^32 elements.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "cuda/kernels/normalize.hpp"
#include "support/gpu/kernel_oracle.hpp"

namespace h5feed::gpu::test {
namespace {

double value_of(DType type, std::uint16_t bits) {
  if (type == DType::u16) return bits;
  if (type == DType::i16) return static_cast<std::int16_t>(bits);
  return to_float(F16{bits});
}

double output_of(DType type, const std::byte* at) {
  if (type == DType::f32) {
    float value;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  return type == DType::f16 ? to_float(F16{bits}) : to_float(BF16{bits});
}

TEST(NormalizeUnits, keep_the_error_bound_for_all_values_of_16_bit_types) {
  constexpr std::int64_t kValues = 1 << 16;
  std::vector<std::uint16_t> in(3 * kValues);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint16_t>(i);
  for (const DType from : {DType::u16, DType::i16, DType::f16}) {
    const NormalizeParameters parameters{
        .scale = from == DType::f16 ? 0.7 : 1.0 / 65535, .mean = {0.485, 0, -0.3}, .std = {0.229, 1, 4}};
    for (const DType to : {DType::f32, DType::f16, DType::bf16}) {
      const std::vector<std::byte> coefficients = normalize_coefficients(parameters, from, to);
      std::vector<std::byte> out(in.size() * size_of(to));
      ASSERT_TRUE(run_on_cpu({.in = in.data(),
                              .from = from,
                              .out = out.data(),
                              .to = to,
                              .coefficients = coefficients.data(),
                              .layout = {.samples = 1,
                                         .channels = 3,
                                         .in_height = 256,
                                         .in_width = 256,
                                         .out_height = 256,
                                         .out_width = 256}}));
      for (std::size_t i = 0; i < in.size(); ++i) {
        const std::uint64_t channel = i / kValues;
        const double x = value_of(from, in[i]);
        const double ours = output_of(to, out.data() + i * size_of(to));
        if (std::isnan(x)) {
          ASSERT_TRUE(std::isnan(ours)) << name_of(to) << " of value " << in[i];
          continue;
        }
        const double exact = parameters.apply(x, channel);
        // What the type cannot hold becomes infinite.
        if (std::isinf(exact) || (to == DType::f16 && std::fabs(exact) >= 65520)) {
          ASSERT_EQ(ours, std::copysign(INFINITY, exact)) << name_of(to) << " of value " << in[i];
          continue;
        }
        ASSERT_NEAR(ours, exact, error_bound(parameters, x, channel, to))
            << name_of(from) << " to " << name_of(to) << ", channel " << channel << ", value " << in[i];
      }
    }
  }
}

// Address space whose pages take memory only once they are written.
class Reserved {
 public:
  explicit Reserved(std::size_t bytes)
      : bytes_(bytes),
        start_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                    0)) {}
  ~Reserved() {
    if (defined()) munmap(start_, bytes_);
  }
  Reserved(const Reserved&) = delete;
  Reserved& operator=(const Reserved&) = delete;

  bool defined() const noexcept { return start_ != MAP_FAILED; }
  std::byte* data() const noexcept { return static_cast<std::byte*>(start_); }

 private:
  std::size_t bytes_;
  void* start_;
};

struct LargeCase {
  std::int64_t channels;
  bool in_last, out_last, augmented;
};

// Runs the tiles that end the batch, and compares its last sample.
void check_last_sample(const LargeCase& what) {
  constexpr std::int64_t kSide = 64;
  const std::int64_t sample = what.channels * kSide * kSide;
  ImageLayout layout{.samples = (std::int64_t{1} << 32) / sample + 3,
                     .channels = what.channels,
                     .in_height = kSide,
                     .in_width = kSide,
                     .out_height = kSide,
                     .out_width = kSide,
                     .in_channels_last = what.in_last,
                     .out_channels_last = what.out_last};
  const auto elements = static_cast<std::size_t>(layout.in_elements());
  const Reserved in(elements);
  const Reserved out(elements * 2);
  ASSERT_TRUE(in.defined() && out.defined()) << "no address space for 12 GiB";
  std::mt19937 random(11);
  const auto first = elements - static_cast<std::size_t>(sample);
  for (std::size_t i = first; i < elements; ++i) in.data()[i] = static_cast<std::byte>(random());
  std::vector<SampleTransform> transforms;
  if (what.augmented) {
    transforms.resize(static_cast<std::size_t>(layout.samples));
    transforms.back() = {.crop_y = -1, .crop_x = 2, .flip = 1};
  }
  NormalizeParameters parameters{.scale = 1.0 / 255, .mean = {}, .std = {}};
  for (std::int64_t c = 0; c < what.channels; ++c) {
    parameters.mean.push_back(0.01 * static_cast<double>(c));
    parameters.std.push_back(0.5);
  }
  const std::vector<std::byte> table = normalize_coefficients(parameters, DType::u8, DType::f16);
  const NormalizeJob job{.in = in.data(),
                         .from = DType::u8,
                         .out = out.data(),
                         .to = DType::f16,
                         .coefficients = table.data(),
                         .transforms = what.augmented ? transforms.data() : nullptr,
                         .layout = layout};
  ASSERT_TRUE(with_units(job, [&](const auto& units) {
    using Units = std::remove_cvref_t<decltype(units)>;
    using Table = Values<typename Units::Source, typename Units::Output>;
    const Table values{reinterpret_cast<const typename Table::Entry*>(table.data())};
    const std::int64_t tiles = units.tiles();
    const std::int64_t of_a_sample = tiles / layout.samples + 2;
    for (std::int64_t tile = tiles - of_a_sample; tile < tiles; ++tile) {
      for (std::uint32_t thread = 0; thread < kThreads; ++thread) units(tile, thread, values);
    }
  }));

  ImageLayout last = layout;
  last.samples = 1;
  const std::vector<SampleTransform> transform(transforms.empty() ? 0 : 1,
                                               transforms.empty() ? SampleTransform{} : transforms.back());
  for_each_output(last, transform, [&](std::int64_t to, std::int64_t from, std::int64_t c) {
    const auto x = from < 0 ? std::size_t{0}
                            : std::to_integer<std::size_t>(in.data()[first + static_cast<std::size_t>(from)]);
    ASSERT_EQ(std::memcmp(out.data() + (first + static_cast<std::size_t>(to)) * 2,
                          table.data() + (static_cast<std::size_t>(c) * 256 + x) * 2, 2),
              0)
        << "output " << to << " of the last sample";
  });
}

TEST(NormalizeUnits, load_and_store_right_beyond_two_to_the_32nd) {
  // 60 channels: more than the table in shared memory holds.
  for (const std::int64_t channels : {1, 3, 4, 60}) {
    for (const bool in_last : {false, true}) {
      for (const bool out_last : {false, true}) {
        for (const bool augmented : {false, true}) {
          SCOPED_TRACE(::testing::Message() << channels << " channels, last " << in_last << out_last
                                            << (augmented ? ", augmented" : ""));
          check_last_sample({channels, in_last, out_last, augmented});
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

}  // namespace
}  // namespace h5feed::gpu::test
