// SPDX-License-Identifier: Apache-2.0
// Row kernels, normalization, and buffers that come back.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#ifdef H5FEED_TEST_IMAGES
#include <opencv2/core.hpp>
#endif

#include "batch/buffer_pool.hpp"
#include "batch/device.hpp"
#include "batch/normalize.hpp"
#include "batch/row_kernel.hpp"
#include "batch/stream_copy.hpp"
#include "h5feed/error.hpp"
#include "support/captured_log.hpp"

namespace h5feed::test {
namespace {

template <typename To, typename From>
std::vector<To> run(const RowKernelSpec& spec, const std::vector<From>& from) {
  std::vector<To> to(spec.channels * spec.pixels);
  make_row_kernel(spec)->run(reinterpret_cast<const std::byte*>(from.data()),
                             reinterpret_cast<std::byte*>(to.data()));
  return to;
}

// The float32 nearest to a value computed in long double.
float nearest(long double value) { return static_cast<float>(value); }

TEST(Normalize, is_correctly_rounded_for_every_uint8_value) {
  const std::vector<Normalize> cases = {{.mean = {0.2860}, .std = {0.3530}},
                                        {.scale = 1.0, .mean = {127.5}, .std = {127.5}},
                                        {.scale = 0.0039215689, .mean = {0.485}, .std = {0.229}},
                                        {}};
  std::vector<std::uint8_t> all(256);
  std::iota(all.begin(), all.end(), std::uint8_t{0});
  for (const Normalize& normalize : cases) {
    const NormalizeParameters parameters = resolve_normalize(normalize, DType::u8, 1);
    const auto out = run<float>({.to = DType::f32, .pixels = 256, .normalize = parameters}, all);
    for (std::size_t x = 0; x < 256; ++x) {
      const long double exact =
          (static_cast<long double>(x) * parameters.scale - parameters.mean[0]) / parameters.std[0];
      // Correct rounding: no neighbouring float is nearer.
      const auto error = std::fabs(static_cast<long double>(out[x]) - exact);
      const float up = std::nextafter(out[x], std::numeric_limits<float>::infinity());
      const float down = std::nextafter(out[x], -std::numeric_limits<float>::infinity());
      ASSERT_LE(error, std::fabs(up - exact)) << x;
      ASSERT_LE(error, std::fabs(down - exact)) << x;
      ASSERT_EQ(out[x], nearest(exact)) << x;
    }
  }
}

TEST(Normalize, uses_one_mean_and_std_a_channel_in_both_layouts) {
  const NormalizeParameters parameters =
      resolve_normalize({.mean = {0.1, 0.2, 0.3}, .std = {1, 2, 4}}, DType::u8, 3);
  const std::vector<std::uint8_t> planar = {10, 20, 30, 40, 50, 60};       // two pixels, CHW
  const std::vector<std::uint8_t> interleaved = {10, 30, 50, 20, 40, 60};  // the same, HWC
  RowKernelSpec spec{.to = DType::f32, .channels = 3, .pixels = 2, .normalize = parameters};
  const auto from_planar = run<float>(spec, planar);
  spec.channels_last = true;
  EXPECT_EQ(run<float>(spec, interleaved), from_planar);
  EXPECT_EQ(from_planar[0], static_cast<float>(10 * (1.0 / 255) - 0.1));
  EXPECT_EQ(from_planar[3], static_cast<float>((40 * (1.0 / 255) - 0.2) / 2));
}

TEST(Normalize, stays_within_the_stated_bound_for_other_types) {
  const NormalizeParameters parameters =
      resolve_normalize({.scale = 0.5, .mean = {3.25}, .std = {0.7}}, DType::i16, 1);
  const std::vector<std::int16_t> from = {-32768, -1, 0, 6, 7, 32767};
  const auto out =
      run<float>({.from = DType::i16, .to = DType::f32, .pixels = 6, .normalize = parameters}, from);
  for (std::size_t i = 0; i < from.size(); ++i) {
    const double exact = (from[i] * 0.5 - 3.25) / 0.7;
    EXPECT_LE(std::fabs(out[i] - exact), std::ldexp((std::fabs(from[i] * 0.5) + 3.25) / 0.7, -22));
  }
}

TEST(Normalize, takes_scale_1_for_types_other_than_uint8) {
  EXPECT_EQ(resolve_normalize({}, DType::u8, 1).scale, 1.0 / 255);
  EXPECT_EQ(resolve_normalize({}, DType::u16, 1).scale, 1.0);
  EXPECT_EQ(resolve_normalize({}, DType::f32, 1).scale, 1.0);
}

TEST(Normalize, refuses_parameters_that_do_not_fit) {
  EXPECT_THROW(resolve_normalize({.mean = {1, 2}}, DType::u8, 3), OptionError);
  EXPECT_THROW(resolve_normalize({.std = {0}}, DType::u8, 1), OptionError);
  EXPECT_THROW(resolve_normalize({.std = {std::nan("")}}, DType::u8, 1), OptionError);
  EXPECT_THROW(resolve_normalize({.scale = INFINITY}, DType::u8, 1), OptionError);
}

TEST(RowKernel, transposes_every_element_size) {
  const RowKernelSpec spec{.channels = 3, .pixels = 2, .channels_last = true};
  EXPECT_EQ(run<std::uint8_t>(spec, std::vector<std::uint8_t>{1, 2, 3, 4, 5, 6}),
            (std::vector<std::uint8_t>{1, 4, 2, 5, 3, 6}));
  RowKernelSpec wide = spec;
  wide.from = wide.to = DType::f64;
  EXPECT_EQ(run<double>(wide, std::vector<double>{1, 2, 3, 4, 5, 6}),
            (std::vector<double>{1, 4, 2, 5, 3, 6}));
}

#ifdef H5FEED_TEST_IMAGES
// An independent hand at the same job: OpenCV splits an interleaved image and scales its planes.
TEST(RowKernel, agrees_with_opencv_on_a_normalized_image) {
  constexpr int kHeight = 13, kWidth = 17;
  cv::Mat image(kHeight, kWidth, CV_8UC3);
  cv::randu(image, 0, 256);
  const Normalize normalize{.mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}};
  const std::vector<std::uint8_t> stored(image.datastart, image.dataend);
  const auto ours = run<float>({.to = DType::f32,
                                .channels = 3,
                                .pixels = kHeight * kWidth,
                                .channels_last = true,
                                .normalize = resolve_normalize(normalize, DType::u8, 3)},
                               stored);
  std::vector<cv::Mat> planes;
  cv::split(image, planes);
  for (std::size_t c = 0; c < 3; ++c) {
    cv::Mat scaled;
    planes[c].convertTo(scaled, CV_64F, 1 / (255 * normalize.std[c]), -normalize.mean[c] / normalize.std[c]);
    for (int p = 0; p < kHeight * kWidth; ++p) {
      const double expected = scaled.at<double>(p / kWidth, p % kWidth);
      ASSERT_NEAR(ours[c * kHeight * kWidth + static_cast<std::size_t>(p)], expected,
                  1e-6 * (1 + std::fabs(expected)));
    }
  }
}
#endif

TEST(RowKernel, says_whether_a_row_may_be_read_straight_into_the_batch) {
  EXPECT_TRUE(make_row_kernel({.pixels = 4})->is_copy());
  EXPECT_FALSE(make_row_kernel({.channels = 2, .pixels = 4, .channels_last = true})->is_copy());
  EXPECT_FALSE(make_row_kernel({.to = DType::i64, .pixels = 4})->is_copy());
}

TEST(RowKernel, converts_labels_of_any_type_to_int64) {
  const std::vector<std::uint8_t> bytes = {0, 9, 255};
  EXPECT_EQ((run<std::int64_t>({.from = DType::u8, .to = DType::i64, .pixels = 3}, bytes)),
            (std::vector<std::int64_t>{0, 9, 255}));
  const std::vector<std::int16_t> shorts = {-1, 0, 32767};
  EXPECT_EQ((run<std::int64_t>({.from = DType::i16, .to = DType::i64, .pixels = 3}, shorts)),
            (std::vector<std::int64_t>{-1, 0, 32767}));
}

TEST(RowKernel, gives_0_for_floats_that_no_integer_can_hold) {
  const std::vector<float> from = {1.9F, -1.9F, 3e9F, -3e9F, NAN, INFINITY, 2147483520.F};
  EXPECT_EQ((run<std::int32_t>({.from = DType::f32, .to = DType::i32, .pixels = 7}, from)),
            (std::vector<std::int32_t>{1, -1, 0, 0, 0, 0, 2147483520}));
}

TEST(RowKernel, finds_the_first_value_that_an_integer_type_cannot_hold) {
  const std::vector<std::int64_t> labels = {0, 255, 256, -1};
  const auto bytes = std::as_bytes(std::span(labels));
  EXPECT_EQ(first_out_of_range(DType::i64, bytes, DType::u8), 2u);
  EXPECT_EQ(first_out_of_range(DType::i64, bytes, DType::u32), 3u);
  EXPECT_EQ(first_out_of_range(DType::i64, bytes, DType::i16), std::nullopt);
  EXPECT_EQ(first_out_of_range(DType::i64, bytes, DType::f32), std::nullopt);
  const std::vector<std::uint64_t> large = {1, std::uint64_t{1} << 63};
  EXPECT_EQ(first_out_of_range(DType::u64, std::as_bytes(std::span(large)), DType::i64), 1u);
  const std::vector<float> floats = {-0.5F, 255.5F, NAN};
  EXPECT_EQ(first_out_of_range(DType::f32, std::as_bytes(std::span(floats)), DType::i32), 2u);
}

TEST(RowKernel, reads_half_precision) {
  // 1, −2, the largest, the smallest subnormal, infinity.
  const std::vector<std::uint16_t> halves = {0x3C00, 0xC000, 0x7BFF, 0x0001, 0x7C00};
  const auto out = run<float>({.from = DType::f16, .to = DType::f32, .pixels = 5}, halves);
  EXPECT_EQ(out, (std::vector<float>{1, -2, 65504, std::ldexp(1.0F, -24), INFINITY}));
  EXPECT_THROW(make_row_kernel({.from = DType::f32, .to = DType::f16}), OptionError);
}

TEST(RowKernel, reads_bfloat16) {
  // 1, −2, the largest, the smallest subnormal, infinity.
  const std::vector<std::uint16_t> values = {0x3F80, 0xC000, 0x7F7F, 0x0001, 0x7F80};
  const auto out = run<double>({.from = DType::bf16, .to = DType::f64, .pixels = 5}, values);
  EXPECT_EQ(out, (std::vector<double>{1, -2, 0x1.FEp127, 0x1p-133, std::numeric_limits<double>::infinity()}));
  EXPECT_EQ((run<std::int32_t>({.from = DType::bf16, .to = DType::i32, .pixels = 5}, values)),
            (std::vector<std::int32_t>{1, -2, 0, 0, 0}));
  EXPECT_EQ((run<std::uint16_t>({.from = DType::bf16, .to = DType::bf16, .pixels = 5}, values)), values);
  EXPECT_EQ(first_out_of_range(DType::bf16, std::as_bytes(std::span(values)), DType::u8), 1u);
  EXPECT_EQ(number_text(DType::bf16, std::as_bytes(std::span(values)).data()), "1");
  EXPECT_THROW(make_row_kernel({.from = DType::f16, .to = DType::bf16}), OptionError);
}

TEST(BufferPool, recycles_what_comes_back) {
  BufferPool pool(4096, 2);
  std::byte* first = pool.acquire().get();
  EXPECT_EQ(pool.acquire().get(), first);
  EXPECT_EQ(pool.allocated(), 1u);
  EXPECT_EQ(pool.lent(), 0u);
}

TEST(BufferPool, lends_more_than_it_keeps) {
  BufferPool pool(64, 2);
  std::vector<std::shared_ptr<std::byte>> kept;
  for (int i = 0; i < 5; ++i) kept.push_back(pool.acquire());
  EXPECT_EQ(pool.lent(), 5u);
  kept.clear();
  EXPECT_EQ(pool.lent(), 0u);
  for (int i = 0; i < 5; ++i) kept.push_back(pool.acquire());
  EXPECT_EQ(pool.allocated(), 8u) << "two of five were kept for reuse";
}

TEST(BufferPool, leases_outlive_the_pool) {
  std::shared_ptr<std::byte> lease;
  {
    BufferPool pool(1000, 4);
    lease = pool.acquire();
    std::memset(lease.get(), 42, 1000);
  }
  EXPECT_EQ(std::to_integer<int>(lease.get()[999]), 42);
}

TEST(BufferPool, aligns_for_simd) {
  BufferPool pool(100, 1);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pool.acquire().get()) % 64, 0u);
}

TEST(HostDevice, has_no_target_memory_where_there_is_no_target) {
  const auto device = make_host_device({.data = 100, .target = 0}, 2);
  const BatchSlot slot = device->acquire_slot({});
  EXPECT_TRUE(slot.data.defined());
  EXPECT_FALSE(slot.target.defined());
  EXPECT_EQ(device->lent_bytes(), 100u);
}

TEST(HostDevice, says_that_the_consumer_keeps_batches_only_if_it_does) {
  const CapturedLog log;
  const auto device = make_host_device({.data = 100, .target = 0}, 3);
  const auto batch = [&] {
    Batch made;
    made.data = device->acquire_slot({}).data;
    return made;
  };
  std::vector<Batch> kept;
  {
    std::vector<Batch> abandoned;
    for (int i = 0; i < 5; ++i) abandoned.push_back(batch());
    for (int i = 0; i < 2; ++i) kept.push_back(device->deliver(0, batch(), {}));
    batch();
  }
  EXPECT_TRUE(log.lines().empty());
  for (int i = 0; i < 3; ++i) kept.push_back(device->deliver(0, batch(), {}));
  EXPECT_EQ(log.lines().size(), 1u);
}

TEST(StreamCopy, copies_any_size_at_any_alignment_and_nothing_beside) {
  constexpr std::size_t kRoom = 600;
  std::vector<std::byte> from(kRoom);
  for (std::size_t i = 0; i < kRoom; ++i) from[i] = static_cast<std::byte>(i % 251 + 1);
  for (std::size_t size = 0; size <= 300; ++size) {
    for (const std::size_t from_offset : {0u, 1u, 33u}) {
      for (std::size_t to_offset = 0; to_offset < 70; to_offset += 7) {
        std::vector<std::byte> to(kRoom, std::byte{0});
        stream_copy(from.data() + from_offset, to.data() + to_offset, size);
        for (std::size_t i = 0; i < kRoom; ++i) {
          const bool inside = i >= to_offset && i < to_offset + size;
          ASSERT_EQ(to[i], inside ? from[i - to_offset + from_offset] : std::byte{0}) << size << ", " << i;
        }
      }
    }
  }
}

TEST(StreamCopy, is_what_copying_kernels_use_when_asked) {
  const std::vector<std::byte> row(5000, std::byte{7});
  std::vector<std::byte> out(5000);
  const auto kernel = make_row_kernel({.channels = 1, .pixels = 5000, .past_caches = true});
  EXPECT_TRUE(kernel->is_copy());
  kernel->run(row.data(), out.data());
  EXPECT_EQ(out, row);
}

}  // namespace
}  // namespace h5feed::test
