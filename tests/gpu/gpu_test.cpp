// SPDX-License-Identifier: Apache-2.0
// The kernels, the device and the loader on the first GPU of the machine, compared bit by bit with the CPU.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cuda/cuda_device.hpp"
#include "cuda/device_choice.hpp"
#include "cuda/kernels/convert_core.hpp"
#include "cuda/kernels/normalize.hpp"
#include "cuda/nvml/nvml.hpp"
#include "cuda/runtime/handles.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/gpu.hpp"
#include "support/captured_log.hpp"
#include "support/files/sample_set.hpp"
#include "support/gpu/first_gpu.hpp"
#include "support/gpu/kernel_oracle.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using namespace gpu;  // NOLINT: this file tests it

// Returns whether a value is a NaN, of a float type.
bool is_nan(DType type, const std::byte* value) {
  if (type == DType::f32) {
    float number;
    std::memcpy(&number, value, 4);
    return std::isnan(number);
  }
  std::uint16_t bits;
  std::memcpy(&bits, value, 2);
  return std::isnan(type == DType::f16 ? to_float(F16{bits}) : to_float(BF16{bits}));
}

// Bit by bit, but that one NaN is as good as another.
bool same_values(DType type, const std::vector<std::byte>& ours, const std::byte* expected) {
  if (std::memcmp(ours.data(), expected, ours.size()) == 0) return true;
  const std::size_t size = size_of(type);
  for (std::size_t at = 0; at < ours.size(); at += size) {
    if (std::memcmp(ours.data() + at, expected + at, size) != 0 &&
        !(is_nan(type, ours.data() + at) && is_nan(type, expected + at))) {
      return false;
    }
  }
  return true;
}

class OnGpu : public FirstGpu {
 protected:
  // Device memory with the given bytes, and room for reads of whole words.
  DeviceMemory upload(const void* from, std::size_t bytes) {
    DeviceMemory memory = make_device_memory((bytes + 15) / 16 * 16 + 16, 0);
    if (bytes > 0) run(cudaMemcpyAsync(memory.get(), from, bytes, cudaMemcpyHostToDevice, stream_.get()));
    return memory;
  }

  // GPU and CPU do the same job; `in_offset` and `out_offset` in bytes.
  void compare(NormalizeJob job, const std::vector<SampleTransform>& transforms, std::size_t in_offset,
               std::size_t out_offset, std::uint32_t seed) {
    const std::size_t in_bytes = static_cast<std::size_t>(job.layout.in_elements()) * size_of(job.from);
    const std::size_t out_bytes = static_cast<std::size_t>(job.layout.out_elements()) * size_of(job.to);
    std::mt19937 random(seed);
    OffsetBytes source(in_bytes, in_offset);
    for (std::size_t i = 0; i < in_bytes; ++i) source.data()[i] = static_cast<std::byte>(random());
    if (job.from == DType::f32) {
      // Random bits would be mostly out of range.
      for (std::size_t i = 0; i < in_bytes / 4; ++i) {
        const float value = std::uniform_real_distribution<float>(-2, 2)(random);
        std::memcpy(source.data() + 4 * i, &value, 4);
      }
    }
    NormalizeParameters parameters{.scale = job.from == DType::u8 ? 1.0 / 255 : 0.01, .mean = {}, .std = {}};
    for (std::int64_t c = 0; c < job.layout.channels; ++c) {
      parameters.mean.push_back(0.4 + 0.05 * static_cast<double>(c));
      parameters.std.push_back(0.2 + 0.03 * static_cast<double>(c));
    }
    const std::vector<std::byte> coefficients = normalize_coefficients(parameters, job.from, job.to);

    OffsetBytes expected(out_bytes, out_offset);
    job.in = source.data();
    job.out = expected.data();
    job.coefficients = coefficients.data();
    job.transforms = transforms.empty() ? nullptr : transforms.data();
    ASSERT_TRUE(run_on_cpu(job));

    std::vector<std::byte> padded(in_offset + in_bytes);
    std::memcpy(padded.data() + in_offset, source.data(), in_bytes);
    const DeviceMemory in = upload(padded.data(), padded.size());
    const DeviceMemory table = upload(coefficients.data(), coefficients.size());
    const DeviceMemory crops = upload(transforms.data(), transforms.size() * sizeof(SampleTransform));
    const DeviceMemory out = make_device_memory(out_bytes + out_offset, 0);
    job.in = static_cast<std::byte*>(in.get()) + in_offset;
    job.out = static_cast<std::byte*>(out.get()) + out_offset;
    job.coefficients = table.get();
    job.transforms = transforms.empty() ? nullptr : static_cast<const SampleTransform*>(crops.get());
    // Gathered, the samples are the same, found by their addresses.
    std::vector<const std::byte*> rows;
    for (std::int64_t i = 0; i < job.layout.samples; ++i) {
      rows.push_back(static_cast<const std::byte*>(job.in) +
                     static_cast<std::size_t>(i) * in_bytes / static_cast<std::size_t>(job.layout.samples));
    }
    const DeviceMemory addresses = upload(rows.data(), rows.size() * sizeof(rows[0]));
    for (int variant = 0; variant < 3; ++variant) {
      job.past_caches = variant == 1;
      job.rows = variant == 2 ? static_cast<const std::byte* const*>(addresses.get()) : nullptr;
      run(cudaMemsetAsync(out.get(), 0xFB, out_bytes + out_offset, stream_.get()));
      run(launch_normalize(job, 1, stream_.get()));
      const std::vector<std::byte> ours = download(job.out, out_bytes);
      ASSERT_TRUE(same_values(job.to, ours, expected.data()))
          << name_of(job.from) << " to " << name_of(job.to) << ", " << job.layout.channels << " channels, "
          << job.layout.out_height << "x" << job.layout.out_width << ", last " << job.layout.in_channels_last
          << job.layout.out_channels_last << ", offsets " << in_offset << ", " << out_offset << ", variant "
          << variant;
    }
  }
};

TEST_F(OnGpu, the_normalize_kernel_equals_the_cpu_for_every_type_layout_flip_crop_and_alignment) {
  const std::vector<SampleTransform> transforms = {{},
                                                   {.flip = 1},
                                                   {.crop_y = 2, .crop_x = 3},
                                                   {.crop_y = -2, .crop_x = -3, .flip = 1},
                                                   {.crop_y = 1, .crop_x = 1000}};
  std::uint32_t seed = 0;
  for (const DType from : {DType::u8, DType::u16, DType::i16, DType::f16, DType::bf16, DType::f32}) {
    for (const DType to : {DType::f32, DType::f16, DType::bf16}) {
      for (const std::int64_t channels : {1, 3, 4, 5, 130}) {
        for (const bool in_last : {false, true}) {
          for (const bool out_last : {false, true}) {
            for (const std::size_t offset : {0u, 1u, 2u, 7u}) {
              NormalizeJob job{.from = from, .to = to};
              job.layout = {.samples = 5,
                            .channels = channels,
                            .in_height = 9,
                            .in_width = 32,
                            .out_height = 9,
                            .out_width = 32,
                            .in_channels_last = in_last,
                            .out_channels_last = out_last};
              compare(job, {}, offset * size_of(from), offset * size_of(to), ++seed);
              job.layout.samples = 100 / channels + 5;  // whole tiles, and more of them than blocks
              compare(job, {}, offset * size_of(from), offset * size_of(to), ++seed);
              job.layout.samples = 5;
              job.layout.out_height = 7;
              job.layout.out_width = 21;
              compare(job, transforms, offset * size_of(from), 0, ++seed);
              if (HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

TEST_F(OnGpu, labels_convert_as_on_the_cpu) {
  std::vector<std::byte> in(8 * 5000);
  std::mt19937 random(3);
  for (std::byte& byte : in) byte = static_cast<std::byte>(random());
  const DeviceMemory source = upload(in.data(), in.size());
  const DeviceMemory target = make_device_memory(in.size(), 0);
  for (const DType from :
       {DType::u8, DType::i8, DType::u16, DType::i16, DType::u32, DType::i32, DType::i64}) {
    for (const DType to : {DType::u8, DType::i32, DType::i64, DType::f32, DType::f16}) {
      const ConvertJob job{source.get(), from, target.get(), to, 5000};
      run(launch_convert(job, stream_.get()));
      const std::vector<std::byte> ours = download(target.get(), 5000 * size_of(to));
      std::vector<std::byte> cpu(ours.size());
      for (std::int64_t i = 0; i < 5000; ++i) convert_element(from, in.data(), to, cpu.data(), i);
      ASSERT_EQ(ours, cpu) << name_of(from) << " to " << name_of(to);
    }
  }
}

TEST_F(OnGpu, batches_of_more_than_two_to_the_31st_elements_are_addressed_right) {
  constexpr std::int64_t kPixels = std::int64_t{1} << 20;
  constexpr std::int64_t kSamples = 700;  // 2.2 · 10^9 elements
  constexpr std::size_t kElements = static_cast<std::size_t>(kSamples * kPixels * 3);
  std::size_t free = 0, total = 0;
  run(cudaMemGetInfo(&free, &total));
  if (free < 4 * kElements) GTEST_SKIP() << "needs 9 GB of free GPU memory";
  const DeviceMemory in = make_device_memory(kElements, 0);
  const DeviceMemory out = make_device_memory(2 * kElements, 0);
  run(cudaMemsetAsync(in.get(), 10, kElements, stream_.get()));
  // The last pixel of the last sample.
  auto* const last = static_cast<std::byte*>(in.get()) + kElements - 3;
  run(cudaMemsetAsync(last, 200, 3, stream_.get()));
  const NormalizeParameters parameters{.scale = 1, .mean = {0, 0, 0}, .std = {1, 2, 4}};
  const std::vector<std::byte> table = normalize_coefficients(parameters, DType::u8, DType::bf16);
  const DeviceMemory coefficients = upload(table.data(), table.size());
  NormalizeJob job{.in = in.get(),
                   .from = DType::u8,
                   .out = out.get(),
                   .to = DType::bf16,
                   .coefficients = coefficients.get()};
  job.layout = {.samples = kSamples,
                .channels = 3,
                .in_height = 1,
                .in_width = kPixels,
                .out_height = 1,
                .out_width = kPixels,
                .in_channels_last = true};
  run(launch_normalize(job, 132, stream_.get()));
  for (std::int64_t c = 0; c < 3; ++c) {
    const auto at = static_cast<std::size_t>(((kSamples - 1) * 3 + c + 1) * kPixels - 2) * 2;
    const std::vector<std::byte> two = download(static_cast<std::byte*>(out.get()) + at, 4);
    BF16 values[2];
    std::memcpy(values, two.data(), 4);
    EXPECT_EQ(to_float(values[0]), 10.0F / static_cast<float>(1 << c));
    EXPECT_EQ(to_float(values[1]), 200.0F / static_cast<float>(1 << c));
  }
}

TEST_F(OnGpu, the_loader_delivers_what_it_delivers_on_the_cpu) {
  const SampleSet set({.shape = {200, 12, 10, 3}, .chunk_shape = {16, 12, 10, 3}, .gzip = 1});
  const Dataset dataset = open(set);
  for (const int workers : {0, 3}) {
    DataLoaderOptions options{.batch_size = 24, .shuffle = true, .seed = 2, .num_workers = workers};
    options.normalize = Normalize{.mean = {0.5, 0.4, 0.3}, .std = {0.2, 0.25, 0.3}};
    DataLoader cpu(dataset, options);
    options.device = gpu::device("cuda:0");
    DataLoader gpu(dataset, options);
    for (int epoch = 0; epoch < 3; ++epoch) {
      while (auto expected = cpu.next()) {
        const auto batch = gpu.next();
        ASSERT_TRUE(batch);
        ASSERT_EQ(batch->indices, expected->indices);
        batch->gpu->use_on(stream_.get());
        const auto data = expected->data.as<float>();
        const std::vector<std::byte> ours = download(batch->gpu->data().data, data.size_bytes());
        ASSERT_EQ(std::memcmp(ours.data(), data.data(), data.size_bytes()), 0);
        const auto labels = expected->target.as<std::int64_t>();
        const std::vector<std::byte> target = download(batch->gpu->target().data, labels.size_bytes());
        ASSERT_EQ(std::memcmp(target.data(), labels.data(), labels.size_bytes()), 0);
      }
      ASSERT_FALSE(gpu.next());
    }
  }
}

// A consumer that copies each batch aside on one of three streams and lets it go at once, without waiting.
TEST_F(OnGpu, buffers_are_not_used_again_before_slow_streams_are_done) {
  constexpr std::uint64_t kBatches = 300;
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  CudaDeviceSettings settings;
  settings.format.slot = {kBytes, 0};
  settings.format.to = DType::u8;
  settings.capacity = {4, 2};
  settings.poison = true;
  const auto device = make_cuda_device(settings);
  const Stream streams[3] = {make_stream(0), make_stream(0), make_stream(0)};
  const DeviceMemory aside = make_device_memory(kBatches * kBytes, 0);
  for (std::uint64_t ticket = 0; ticket < kBatches; ++ticket) {
    auto batch = std::make_shared<Batch>();
    batch->data = device->acquire_slot({}).data;
    batch->data.dtype = DType::u8;
    batch->data.shape = {static_cast<std::int64_t>(kBytes)};
    batch->indices = {0};
    std::memset(batch->data.bytes.get(), static_cast<int>(ticket % 251), kBytes);
    device->stage(ticket, batch);
    const Batch delivered = device->deliver(ticket, std::move(*batch), {});
    const cudaStream_t stream = streams[ticket % 3].get();
    delivered.gpu->use_on(stream);
    auto* const to = static_cast<std::byte*>(aside.get()) + ticket * kBytes;
    run(cudaMemcpyAsync(to, delivered.gpu->data().data, kBytes, cudaMemcpyDeviceToDevice, stream));
  }
  for (const Stream& stream : streams) run(cudaStreamSynchronize(stream.get()));
  for (std::uint64_t ticket = 0; ticket < kBatches; ++ticket) {
    const auto bytes = download(static_cast<std::byte*>(aside.get()) + ticket * kBytes, kBytes);
    const std::vector<std::byte> expected(kBytes, static_cast<std::byte>(ticket % 251));
    ASSERT_EQ(bytes, expected) << "batch " << ticket;
  }
  EXPECT_LE(device->allocations(), 5u);
}

TEST_F(OnGpu, nvml_knows_the_device_by_its_pci_address) {
  std::string why;
  const auto nvml = Nvml::load("", why);
  ASSERT_TRUE(nvml) << why;
  const auto gpu = nvml->find(pci_id_of(0));
  ASSERT_TRUE(gpu) << pci_id_of(0);
  const GpuReading reading = nvml->read(*gpu);
  EXPECT_TRUE(reading.memory_total_bytes);
  EXPECT_FALSE(nvml->name(*gpu).empty());
}

// On every machine, with the runtime it has.
TEST(RealRuntime, automatic_device_is_a_gpu_exactly_where_there_is_one) {
  const CapturedLog log;
  EXPECT_EQ(choose_device("auto").has_value(), no_gpu().empty());
  EXPECT_EQ(log.lines().size(), 1u);
}

TEST(RealRuntime, loader_falls_back_to_the_cpu_or_says_why_it_cannot) {
  const CapturedLog log;
  const SampleSet set(gzip_set());
  DataLoaderOptions options{.batch_size = 10, .device = gpu::device("auto")};
  DataLoader loader(open(set), options);
  const auto batch = loader.next();
  EXPECT_EQ(batch->gpu != nullptr, no_gpu().empty());
  EXPECT_EQ(batch->data.defined(), !no_gpu().empty());
  if (no_gpu().empty()) return;
  options.device = gpu::device("cuda:0");
  EXPECT_NE(refusal<DeviceError>(open(set), options), "accepted");
}

}  // namespace
}  // namespace h5feed::test
