// SPDX-License-Identifier: Apache-2.0
// cuda/kernels/normalize.cu as nvcc compiles it, launched on a runtime that runs its threads on the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cuda/kernels/convert_core.hpp"
#include "cuda/kernels/cuda_code.hpp"
#include "cuda/kernels/normalize.hpp"
#include "support/case_step.hpp"
#include "support/fakes/fake_cuda_launch.hpp"
#include "support/gpu/kernel_oracle.hpp"

namespace h5feed::test {
namespace {

using namespace gpu;  // NOLINT: this file tests it

constexpr int kMultiprocessors = 2;
const auto kStream = reinterpret_cast<cudaStream_t>(std::uintptr_t{64});

// What a GPU would do with the launch of `job`, its grid, blocks and shared memory.
void run_launch(const NormalizeJob& job, const KernelLaunch& launch) {
  EXPECT_EQ(launch.block.x, kThreads);
  EXPECT_EQ(launch.block.y * launch.block.z * launch.grid.y * launch.grid.z, 1u);
  EXPECT_GE(launch.grid.x, 1u);
  EXPECT_LE(launch.grid.x, kMultiprocessors * 32u);
  EXPECT_LE(launch.shared_bytes, 48u << 10) << "more than devices give without asking";
  EXPECT_EQ(launch.stream, kStream);
  with_units(job, [&](const auto& expected) {
    using Units = std::remove_cvref_t<decltype(expected)>;
    using Table = Values<typename Units::Source, typename Units::Output>;
    const auto& units = *static_cast<const Units*>(launch.arguments[0]);
    const auto* const coefficients = *static_cast<const std::byte* const*>(launch.arguments[1]);
    const auto words = static_cast<std::size_t>(*static_cast<const int*>(launch.arguments[2]));
    EXPECT_EQ(coefficients, job.coefficients);
    EXPECT_EQ(launch.shared_bytes, words * 4);
    EXPECT_EQ(words > 0, Units::kSharedTable);
    // A table in memory of its own size: lookups beyond it are seen by the sanitizers.
    const std::vector<std::byte> shared(coefficients, coefficients + launch.shared_bytes);
    const Table values{
        reinterpret_cast<const typename Table::Entry*>(Units::kSharedTable ? shared.data() : coefficients)};
    for (std::uint32_t block = 0; block < launch.grid.x; ++block) {
      for (std::uint32_t thread = 0; thread < launch.block.x; ++thread) {
        run_thread(units, values, block, launch.grid.x, thread);
      }
    }
  });
}

struct Launched {
  int count = 0;
  std::string kernel;
  std::size_t shared_bytes = 0;
};

// The samples of a dense batch in memory of their own, in reverse order. The words of a sample can be read in
// full, and no more: AddressSanitizer sees reads beyond them.
class Scattered {
 public:
  Scattered(const std::byte* batch, std::int64_t samples, std::size_t sample_bytes) {
    for (std::int64_t i = samples - 1; i >= 0; --i) {
      const std::byte* const begin = batch + static_cast<std::size_t>(i) * sample_bytes;
      memory_.emplace_back(begin, begin + sample_bytes).resize((sample_bytes + 3) / 4 * 4);
    }
    for (auto row = memory_.rbegin(); row != memory_.rend(); ++row) rows_.push_back(row->data());
  }
  const std::byte* const* rows() const { return rows_.data(); }

 private:
  std::vector<std::vector<std::byte>> memory_;
  std::vector<const std::byte*> rows_;
};

// Launches `job` on random bytes and compares with the units run without any launch on a dense batch.
Launched check_launch(NormalizeJob job, bool augmented, bool gathered = false) {
  std::mt19937 random(5);
  OffsetBytes in(static_cast<std::size_t>(job.layout.in_elements()) * size_of(job.from), 0);
  const std::size_t out_bytes = static_cast<std::size_t>(job.layout.out_elements()) * size_of(job.to);
  for (std::int64_t i = 0; i < job.layout.in_elements(); ++i) {
    const auto value = static_cast<std::uint8_t>(random());
    if (job.from == DType::f32) {
      const auto number = static_cast<float>(value);
      std::memcpy(in.data() + 4 * i, &number, 4);
    } else {
      std::memset(in.data() + static_cast<std::size_t>(i) * size_of(job.from), value & 0x3F,
                  size_of(job.from));
    }
  }
  NormalizeParameters parameters{.scale = 1.0 / 255, .mean = {}, .std = {}};
  for (std::int64_t c = 0; c < job.layout.channels; ++c) {
    parameters.mean.push_back(0.1 * static_cast<double>(c));
    parameters.std.push_back(0.5 + 0.1 * static_cast<double>(c));
  }
  const std::vector<std::byte> coefficients = normalize_coefficients(parameters, job.from, job.to);
  const std::vector<SampleTransform> transforms(static_cast<std::size_t>(job.layout.samples),
                                                {.crop_y = 1, .crop_x = -1, .flip = 1});
  OffsetBytes out(out_bytes, 0), expected(out_bytes, 0);
  job.in = in.data();
  job.coefficients = coefficients.data();
  job.transforms = augmented ? transforms.data() : nullptr;
  job.out = expected.data();
  EXPECT_TRUE(run_on_cpu(job));
  job.out = out.data();
  const std::size_t sample_bytes =
      static_cast<std::size_t>(job.layout.in_elements() / job.layout.samples) * size_of(job.from);
  const Scattered scattered(in.data(), job.layout.samples, sample_bytes);
  if (gathered) {
    job.in = nullptr;
    job.rows = scattered.rows();
  }

  Launched launched;
  {
    const LaunchListener listener([&](const KernelLaunch& launch) {
      ++launched.count;
      launched.kernel = launch.kernel;
      launched.shared_bytes = launch.shared_bytes;
      run_launch(job, launch);
      return cudaSuccess;
    });
    EXPECT_EQ(launch_normalize(job, kMultiprocessors, kStream), cudaSuccess);
  }
  EXPECT_EQ(std::memcmp(out.data(), expected.data(), out_bytes), 0);
  return launched;
}

ImageLayout images(std::int64_t samples, std::int64_t channels, bool in_last, bool out_last) {
  return {.samples = samples,
          .channels = channels,
          .in_height = 30,
          .in_width = 40,
          .out_height = 30,
          .out_width = 40,
          .in_channels_last = in_last,
          .out_channels_last = out_last};
}

TEST(NormalizeLaunch, covers_the_batch_for_every_type_and_layout) {
  std::uint64_t number = 0;
  for (const DType from : {DType::u8, DType::u16, DType::i16, DType::f16, DType::bf16, DType::f32}) {
    for (const DType to : {DType::f32, DType::f16, DType::bf16, DType::u8}) {
      if (!can_normalize(from, to)) continue;
      for (const std::int64_t channels : {1, 3, 4, 5}) {
        for (const bool in_last : {false, true}) {
          for (const bool out_last : {false, true}) {
            for (const bool augmented : {false, true}) {
              if (number++ % kCaseStep != 0) continue;
              SCOPED_TRACE(::testing::Message()
                           << name_of(from) << " to " << name_of(to) << ", " << channels << " channels, last "
                           << in_last << out_last << (augmented ? ", augmented" : ""));
              const NormalizeJob job{
                  .from = from, .to = to, .layout = images(5, channels, in_last, out_last)};
              EXPECT_EQ(check_launch(job, augmented).count, 1);
              if (HasFailure()) return;
            }
          }
        }
      }
    }
  }
}

TEST(NormalizeLaunch, gathers_scattered_samples_to_the_bits_of_a_dense_batch) {
  for (const DType from : {DType::u8, DType::u16, DType::f32}) {
    for (const DType to : {DType::f32, DType::f16, DType::u8}) {
      if (!can_normalize(from, to)) continue;
      for (const std::int64_t channels : {1, 3, 4, 5}) {
        for (int variant = 0; variant < 16; ++variant) {
          const bool in_last = (variant & 1) != 0, out_last = (variant & 2) != 0;
          const bool augmented = (variant & 4) != 0;
          ImageLayout layout = images(3, channels, in_last, out_last);
          // Extents that no run divides.
          if ((variant & 8) != 0) layout.in_height = layout.out_height = 7;
          if ((variant & 8) != 0) layout.in_width = layout.out_width = 13;
          SCOPED_TRACE(::testing::Message() << name_of(from) << " to " << name_of(to) << ", " << channels
                                            << " channels, variant " << variant);
          EXPECT_EQ(check_launch({.from = from, .to = to, .layout = layout}, augmented, true).count, 1);
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST(NormalizeLaunch, of_more_tiles_than_blocks_covers_the_batch) {
  EXPECT_EQ(check_launch({.layout = images(90, 3, false, false)}, false).count, 1);
  EXPECT_EQ(check_launch({.layout = images(60, 3, true, false)}, true).count, 1);
}

TEST(NormalizeLaunch, chooses_the_kernel_of_the_layout) {
  const auto kernel = [](std::int64_t channels, bool in_last, bool out_last, bool augmented) {
    return check_launch({.layout = images(2, channels, in_last, out_last)}, augmented).kernel;
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(kernel(3, false, false, false), HasSubstr("FlatUnits"));
  EXPECT_THAT(kernel(3, true, true, false), HasSubstr("FlatUnits"));
  EXPECT_THAT(kernel(1, true, false, false), HasSubstr("FlatUnits"));
  EXPECT_THAT(kernel(3, true, false, false), HasSubstr("PlanarUnits"));
  EXPECT_THAT(kernel(4, true, false, true), HasSubstr("PlanarUnits"));
  EXPECT_THAT(kernel(5, true, false, false), HasSubstr("RowUnits"));
  EXPECT_THAT(kernel(3, false, true, false), HasSubstr("RowUnits"));
  EXPECT_THAT(kernel(3, true, true, true), HasSubstr("RowUnits"));
  EXPECT_THAT(check_launch({.layout = images(2, 3, false, false)}, false, true).kernel, HasSubstr("RowUnits"))
      << "samples that lie apart are not one array";
}

TEST(NormalizeLaunch, leaves_tables_beyond_24_kib_in_global_memory) {
  // 1 KiB a channel.
  EXPECT_EQ(check_launch({.layout = images(1, 24, false, false)}, false).shared_bytes, 24u << 10);
  EXPECT_EQ(check_launch({.layout = images(1, 25, false, false)}, false).shared_bytes, 0u);
  EXPECT_EQ(check_launch({.layout = images(1, 25, true, true)}, true).shared_bytes, 0u);
  // 512 bytes a channel.
  EXPECT_EQ(check_launch({.to = DType::f16, .layout = images(1, 48, true, false)}, false).shared_bytes,
            24u << 10);
  EXPECT_EQ(check_launch({.to = DType::f16, .layout = images(1, 49, true, false)}, false).shared_bytes, 0u);
}

TEST(NormalizeLaunch, of_nothing_or_of_unknown_types_does_not_happen) {
  const LaunchListener listener([](const KernelLaunch&) {
    ADD_FAILURE() << "a launch";
    return cudaSuccess;
  });
  EXPECT_EQ(launch_normalize({.layout = images(0, 3, true, false)}, kMultiprocessors, kStream), cudaSuccess);
  EXPECT_EQ(
      launch_normalize({.from = DType::f64, .layout = images(1, 3, true, false)}, kMultiprocessors, kStream),
      cudaErrorInvalidValue);
  EXPECT_EQ(launch_convert({}, kStream), cudaSuccess);
}

TEST(NormalizeLaunch, returns_the_status_of_its_own_launch) {
  const LaunchListener listener([](const KernelLaunch&) { return cudaErrorLaunchOutOfResources; });
  EXPECT_EQ(launch_normalize({.layout = images(1, 3, true, false)}, kMultiprocessors, kStream),
            cudaErrorLaunchOutOfResources);
  EXPECT_EQ(launch_convert({.count = 1}, kStream), cudaErrorLaunchOutOfResources);
}

TEST(ConvertLaunch, gives_every_label_a_thread_or_a_turn) {
  for (const std::int64_t count : {1, 256, 257, 1 << 20}) {
    std::optional<KernelLaunch> seen;
    const LaunchListener listener([&](const KernelLaunch& launch) {
      seen = launch;
      EXPECT_EQ(static_cast<const ConvertJob*>(launch.arguments[0])->count, count);
      return cudaSuccess;
    });
    EXPECT_EQ(launch_convert({.count = count}, kStream), cudaSuccess);
    ASSERT_TRUE(seen);
    EXPECT_EQ(seen->block.x, kThreads);
    EXPECT_EQ(seen->grid.x, std::min<std::int64_t>((count + 255) / 256, 1024));
    EXPECT_EQ(seen->shared_bytes, 0u);
    EXPECT_EQ(seen->stream, kStream);
    EXPECT_THAT(seen->kernel, ::testing::HasSubstr("convert_kernel"));
  }
}

// Returns whether every architecture is a number, such as "90-real 75-virtual". "OFF", which LibTorch's
// package sets, leaves the choice to nvcc.
bool names_each_by_number(const std::string& architectures) {
  bool at_start = true;
  for (const char letter : architectures) {
    if (at_start && std::isdigit(static_cast<unsigned char>(letter)) == 0) return false;
    at_start = letter == ' ';
  }
  return !at_start;
}

// Of CMAKE_CUDA_ARCHITECTURES, such as "90-real 75-virtual": what each object must hold.
std::set<std::string> code_of(const std::string& architectures) {
  std::set<std::string> code;
  std::size_t begin = 0;
  while (begin < architectures.size()) {
    const std::size_t end = std::min(architectures.find(' ', begin), architectures.size());
    const std::string one = architectures.substr(begin, end - begin);
    const std::string number = one.substr(0, one.find('-'));
    if (!one.ends_with("-virtual")) code.insert("sm_" + number);
    if (!one.ends_with("-real")) code.insert("compute_" + number);
    begin = end + 1;
  }
  return code;
}

TEST(CudaObjects, hold_machine_code_and_ptx_for_the_architectures_asked_for) {
  const std::string asked = CUDA_ARCHITECTURES;
  ASSERT_TRUE(names_each_by_number(asked))
      << "CMAKE_CUDA_ARCHITECTURES is \"" << asked << "\"; set it to numbers, such as 90-real;75-virtual";
  const auto objects = registered_code();
  ASSERT_EQ(objects.size(), 2u) << "normalize.cu and cuda_code.cu";
  for (const auto& code : objects) {
    EXPECT_EQ(code, code_of(asked)) << asked;
  }
  EXPECT_EQ(code_of("90-real 75-virtual"), (std::set<std::string>{"sm_90", "compute_75"}));
}

TEST(CudaObjects, are_not_accepted_for_architectures_without_numbers) {
  EXPECT_TRUE(names_each_by_number("90-real 75-virtual"));
  EXPECT_TRUE(names_each_by_number("90"));
  for (const char* const text : {"OFF", "", "90-real OFF", "native"}) {
    EXPECT_FALSE(names_each_by_number(text)) << text;
  }
}

TEST(CudaObjects, are_compiled_as_cxx_20) { EXPECT_GE(language_of_cuda_sources(), 202002L); }

}  // namespace
}  // namespace h5feed::test
