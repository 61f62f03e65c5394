// SPDX-License-Identifier: Apache-2.0
// Types, layouts, crops, echoes, named fields and memory of the consumer on the first GPU of the machine: the
// bytes of the CPU.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "cuda/runtime/handles.hpp"
#include "h5feed/data_loader.hpp"
#include "support/files/sample_set.hpp"
#include "support/gpu/first_gpu.hpp"
#include "support/gpu/on_gpu.hpp"
#include "support/loaders/deliveries.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using namespace gpu;  // NOLINT: this file tests it

class DeliveryOnGpu : public FirstGpu {
 protected:
  std::vector<std::byte> values_of(const DeviceTensor& tensor) const {
    return download(tensor.data, bytes_in(tensor.dtype, tensor.shape));
  }

  Delivery read(const Batch& batch) {
    batch.gpu->use_on(stream_.get());
    Delivery delivery = without_bytes(batch);
    delivery.shape = batch.gpu->data().shape;
    delivery.data = values_of(batch.gpu->data());
    delivery.target = values_of(batch.gpu->target());
    for (const DeviceField& field : batch.gpu->tensors().fields)
      delivery.fields[field.name] = values_of(field.values);
    return delivery;
  }

  // With fields that come to the GPU, and one that stays in host memory.
  const SampleSet set_{{.shape = {200, 19, 23, 3}, .chunk_shape = {5, 19, 23, 3}, .gzip = 1}};
  const Dataset dataset_ =
      Dataset::open({.files = {set_.path()},
                     .data = "images",
                     .target = "labels",
                     .fields = {{.name = "mask", .data = "images", .dtype = DType::f32},
                                {.name = "padded", .data = "images", .collate = Collate::pad},
                                {.name = "class", .data = "labels"}}});
};

TEST_F(DeliveryOnGpu, is_that_of_the_cpu_for_every_type_layout_crop_and_echo) {
  for (const DType dtype : {DType::u8, DType::f32, DType::f16, DType::bf16}) {
    for (const OutputLayout layout : {OutputLayout::nchw, OutputLayout::channels_last}) {
      for (const bool augmented : {false, true}) {
        DataLoaderOptions options{.batch_size = 17, .shuffle = true, .seed = 6, .num_workers = 2};
        if (dtype != DType::u8) options.normalize = Normalize{.mean = {0.3, 0.4, 0.5}, .std = {0.25}};
        options.output_dtype = dtype;
        options.output_layout = layout;
        if (augmented) {
          options.augment =
              Augment{.horizontal_flip = 0.5,
                      .random_crop = Augment::RandomCrop{.height = 16, .width = 25, .padding = 3}};
        }
        options.echo = {.factor = 2};
        DataLoader on_cpu(dataset_, options);
        const auto expected = rest_of_epoch(on_cpu);
        DataLoader loader(dataset_, on_gpu(options));
        std::vector<Delivery> delivered;
        while (const auto batch = loader.next()) delivered.push_back(read(*batch));
        ASSERT_TRUE(delivered == expected) << name_of(dtype) << (augmented ? ", augmented" : "");
      }
    }
  }
}

TEST_F(DeliveryOnGpu, of_samples_that_stay_on_the_gpu_is_that_of_the_cpu) {
  constexpr std::uint64_t kSampleBytes = 19 * 23 * 3;
  for (const DType dtype : {DType::u8, DType::f32, DType::f16}) {
    for (const bool augmented : {false, true}) {
      for (const std::uint64_t samples : {80u, 400u}) {
        DataLoaderOptions options{.batch_size = 17, .shuffle = true, .seed = 6, .num_workers = 2};
        if (dtype != DType::u8) options.normalize = Normalize{.mean = {0.3, 0.4, 0.5}, .std = {0.25}};
        options.output_dtype = dtype;
        options.cache_bytes = 0;
        if (augmented) {
          options.augment =
              Augment{.horizontal_flip = 0.5,
                      .random_crop = Augment::RandomCrop{.height = 16, .width = 25, .padding = 3}};
        }
        DataLoader on_cpu(dataset_, options);
        options.gpu_cache_bytes = samples * kSampleBytes;
        DataLoader loader(dataset_, on_gpu(options));
        for (int epoch = 0; epoch < 3; ++epoch) {
          const auto expected = rest_of_epoch(on_cpu);
          std::vector<Delivery> delivered;
          while (const auto batch = loader.next()) delivered.push_back(read(*batch));
          ASSERT_TRUE(delivered == expected) << name_of(dtype) << (augmented ? ", augmented" : "");
        }
        EXPECT_GT(loader.stats().gpu_cache_hits, 100u);
      }
    }
  }
}

TEST_F(DeliveryOnGpu, into_the_same_buffers_is_that_of_the_cpu) {
  DataLoaderOptions options{.batch_size = 16, .shuffle = true, .seed = 6, .num_workers = 2};
  options.normalize = Normalize{};
  DataLoader on_cpu(dataset_, options);
  const auto expected = rest_of_epoch(on_cpu);
  options.output_memory = OutputMemory::consumer;
  DataLoader loader(dataset_, on_gpu(options));
  constexpr std::int64_t kPixels = 19 * 23;
  const DeviceMemory data = make_device_memory(16 * 3 * kPixels * sizeof(float), 0);
  const DeviceMemory target = make_device_memory(16 * sizeof(std::int64_t), 0);
  const DeviceTensor images{data.get(), DType::f32, {16, 3, 19, 23}, {3 * kPixels, kPixels, 23, 1}};
  const DeviceMemory mask = make_device_memory(16 * 3 * kPixels * sizeof(float), 0);
  const DeviceMemory classes = make_device_memory(16, 0);
  const DeviceTensor labels{target.get(), DType::i64, {16}, {1}};
  const std::vector<DeviceField> fields = {
      {"mask", {mask.get(), DType::f32, {16, 19, 23, 3}, {3 * kPixels, 69, 3, 1}}},
      {"class", {classes.get(), DType::u8, {16}, {1}}}};
  std::size_t i = 0;
  while (const auto batch = loader.next_into(images, labels, stream_.get(), fields)) {
    ASSERT_TRUE(read(*batch) == expected.at(i)) << i;
    ++i;
  }
  EXPECT_EQ(i, expected.size());
  const LoaderStats stats = loader.stats();
  ASSERT_TRUE(stats.gpu_memory);
  EXPECT_GT(stats.gpu_memory->total, stats.gpu_memory->loader);
}

}  // namespace
}  // namespace h5feed::test
