// SPDX-License-Identifier: Apache-2.0
// Named fields of a loader on a GPU: those with collate = stack come there with data and target, the others
// stay in host memory; on the runtime of the tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "h5feed/data_loader.hpp"
#include "h5feed/gpu.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/files/field_file.hpp"
#include "support/gpu/gpu_cache_epochs.hpp"
#include "support/loaders/loader_cases.hpp"

namespace h5feed::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::size_t bytes_of(const HostTensor& tensor) { return bytes_in(tensor.dtype, tensor.shape); }

bool same_bytes(const HostTensor& a, const HostTensor& b) {
  return a.shape == b.shape && a.dtype == b.dtype && a.defined() == b.defined() &&
         (!a.defined() || std::memcmp(a.bytes.get(), b.bytes.get(), bytes_of(a)) == 0);
}

class GpuFields : public Fields {
 protected:
  // Fields whose rows span chunks, that convert and are images, of variable storage, without values, and of
  // both collations that stay in host memory.
  Dataset open() const {
    {
      const Hid file(H5Fopen(path().c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
      put(file.get(), "nothing", H5T_STD_I32LE, H5T_NATIVE_INT, {kSamples, 0}, nullptr);
    }
    return Dataset::open(with({{.name = "padded", .data = "boxes", .collate = Collate::pad},
                               {.name = "pose"},
                               {.name = "depth", .normalize = Normalize{.mean = {500}, .std = {250}}},
                               {.name = "camera", .input_layout = InputLayout::nhwc},
                               {.name = "ragged", .data = "boxes", .collate = Collate::ragged},
                               {.name = "words", .dtype = DType::f64},
                               {.name = "nothing"}}));
  }

  static DataLoaderOptions options(std::int64_t workers) {
    DataLoaderOptions options{.batch_size = 5, .shuffle = true, .seed = 7, .num_workers = workers};
    options.normalize = Normalize{};
    return options;
  }
};

TEST_F(GpuFields, come_to_a_gpu_as_to_the_cpu) {
  const Dataset dataset = open();
  for (const std::int64_t workers : {0, 2}) {
    for (const std::int64_t factor : {1, 3}) {
      DataLoaderOptions wanted = options(workers);
      wanted.echo = {.factor = factor};
      const auto expected = epochs_on_cpu(dataset, wanted, 3);
      ASSERT_EQ(expected.front().fields.size(), 7U);
      FakeCuda cuda({.seed = static_cast<unsigned>(workers)});
      {
        DataLoader loader(dataset, on_gpu(wanted));
        EXPECT_TRUE(epochs_on_gpu(cuda, loader, 3) == expected) << workers << " workers, " << factor;
      }
      EXPECT_EQ(cuda.live(), FakeCudaLive{});
    }
  }
}

TEST_F(GpuFields, of_single_samples_and_of_samples_that_stay_there_are_those_of_the_cpu) {
  const Dataset dataset = open();
  DataLoaderOptions single = options(2);
  single.batch_size = std::nullopt;
  DataLoaderOptions kept = options(2);
  kept.gpu_cache_bytes = 1 << 20;
  for (const DataLoaderOptions& wanted : {single, kept}) {
    DataLoaderOptions without = wanted;
    without.gpu_cache_bytes = 0;
    FakeCuda cuda;
    DataLoader loader(dataset, on_gpu(wanted));
    EXPECT_TRUE(epochs_on_gpu(cuda, loader, 3) == epochs_on_cpu(dataset, without, 3));
  }
}

TEST_F(GpuFields, with_other_collations_stay_in_host_memory) {
  const Dataset dataset = open();
  FakeCuda cuda;
  DataLoader on_cpu(dataset, options(0));
  DataLoader loader(dataset, on_gpu(options(0)));
  const auto expected = on_cpu.next();
  const auto batch = loader.next();
  std::vector<std::string> on_device;
  for (const DeviceField& field : batch->gpu->tensors().fields) on_device.push_back(field.name);
  EXPECT_THAT(on_device, ElementsAre("pose", "depth", "camera", "words", "nothing"));
  for (const std::string& name : on_device) {
    EXPECT_FALSE(batch->field(name).values.defined()) << name;
    EXPECT_EQ(batch->gpu->field(name).shape, expected->field(name).values.shape) << name;
    EXPECT_EQ(batch->gpu->field(name).dtype, expected->field(name).values.dtype) << name;
  }
  for (const char* const name : {"padded", "ragged"}) {
    const BatchField field = batch->field(name), same = expected->field(name);
    EXPECT_TRUE(same_bytes(field.values, same.values)) << name;
    EXPECT_TRUE(same_bytes(field.offsets, same.offsets)) << name;
    EXPECT_TRUE(same_bytes(field.lengths, same.lengths)) << name;
    EXPECT_THROW(batch->gpu->field(name), std::out_of_range);
  }
}

TEST_F(GpuFields, are_counted_in_the_memory_of_the_loader) {
  const auto used = [&](std::vector<FieldOptions> fields) {
    FakeCuda cuda;
    DataLoader loader(Dataset::open(with(std::move(fields))), on_gpu(options(1)));
    loader.start_epoch();
    const LoaderStats stats = loader.stats();
    return std::vector<std::uint64_t>{stats.pinned_bytes, stats.gpu_memory->loader, stats.in_flight_bytes};
  };
  constexpr std::uint64_t kDepthBytes = 5 * 6 * 2;
  const auto without = used({{.name = "padded", .data = "boxes", .collate = Collate::pad}});
  const auto with_one =
      used({{.name = "padded", .data = "boxes", .collate = Collate::pad}, {.name = "depth"}});
  // Two batches are prepared, two copied ahead; a copy and a consumer have one each, and one was just
  // released.
  EXPECT_GE(with_one[0], without[0] + 4 * kDepthBytes);
  EXPECT_GE(with_one[1], without[1] + 3 * kDepthBytes + 4 * kDepthBytes);
  EXPECT_EQ(with_one[2], without[2] + 2 * kDepthBytes);
}

TEST_F(GpuFields, are_written_to_memory_of_the_consumer) {
  const Dataset dataset = open();
  const auto expected = epochs_on_cpu(dataset, options(2), 1);
  FakeCuda cuda;
  {
    DataLoaderOptions wanted = on_gpu(options(2));
    wanted.output_memory = OutputMemory::consumer;
    DataLoader loader(dataset, wanted);
    GpuReader reader(cuda, 0);
    std::vector<GpuBuffer> buffers;
    const auto provide = [&](int device, const DeviceTensors& batch) {
      const auto allocate = [&](const DeviceTensor& tensor) {
        return buffers.emplace_back(bytes_in(tensor.dtype, tensor.shape), device).get();
      };
      DeviceOutput output{allocate(batch.data), allocate(*batch.target), reader.stream()};
      for (const DeviceField& field : batch.fields) output.fields.push_back(allocate(field.values));
      return output;
    };
    while (const auto batch = loader.next_into(provide)) reader.read(*batch);
    EXPECT_TRUE(reader.wait() == expected);
    EXPECT_EQ(loader.stats().outputs_allocated, 0U);
  }
  EXPECT_EQ(cuda.live(), FakeCudaLive{});
}

TEST_F(GpuFields, are_written_to_the_same_buffers_which_must_fit) {
  const Dataset dataset = Dataset::open(with(
      {{.name = "pose"}, {.name = "padded", .data = "boxes", .collate = Collate::pad}, {.name = "depth"}}));
  const auto expected = epochs_on_cpu(dataset, options(0), 1);
  FakeCuda cuda;
  DataLoader loader(dataset, on_gpu(options(0)));
  GpuReader reader(cuda, 0);
  const GpuBuffer data(5 * 20 * 4, 0), target(5 * 8, 0), pose(5 * 3 * 4, 0), depth(5 * 6 * 2, 0);
  const DeviceTensor images{data.get(), DType::f32, {5, 1, 4, 5}, {20, 20, 5, 1}};
  const DeviceTensor labels{target.get(), DType::i64, {5}, {1}};
  const DeviceField poses{"pose", {pose.get(), DType::f32, {5, 3}, {3, 1}}};
  const DeviceField depths{"depth", {depth.get(), DType::u16, {5, 2, 3}, {6, 3, 1}}};
  const auto refused = [&](const std::vector<DeviceField>& fields) {
    return refusal_of<OptionError>([&] { loader.next_into(images, labels, reader.stream(), fields); });
  };
  EXPECT_THAT(refused({poses}), HasSubstr("next_into: field \"depth\" is without address () with strides (); "
                                          "the batch is u16 (5,2,3) with (6,3,1)"));
  DeviceField other = depths;
  other.values.dtype = DType::i16;
  EXPECT_THAT(refused({poses, other}), HasSubstr("next_into: field \"depth\" is i16 (5,2,3)"));
  other = depths;
  other.name = "padded";
  EXPECT_THAT(refused({poses, depths, other}),
              HasSubstr("next_into: no field \"padded\" is delivered to the GPU; leave it out"));
  other = depths;
  std::vector<std::uint16_t> on_host(30);
  other.values.data = on_host.data();
  EXPECT_THAT(refused({poses, other}), HasSubstr("next_into: field \"depth\" is not in memory of cuda:0"));
  const auto forgets = [&](int, const DeviceTensors&) {
    return DeviceOutput{data.get(), target.get(), reader.stream()};
  };
  EXPECT_THAT(refusal_of<OptionError>([&] { loader.next_into(forgets); }),
              HasSubstr("next_into: field \"pose\" is not in memory of cuda:0"));
  loader.set_epoch(0);
  loader.start_epoch();
  while (const auto batch = loader.next_into(images, labels, reader.stream(), {depths, poses})) {
    EXPECT_EQ(batch->gpu->field("depth").data, depth.get());
    reader.read(*batch);
  }
  EXPECT_TRUE(reader.wait() == expected) << "the last of 3 samples fills the beginning";
}

}  // namespace
}  // namespace h5feed::test
