// SPDX-License-Identifier: Apache-2.0
#include "cuda/cuda_device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "support/captured_log.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/gpu/device_batches.hpp"

namespace h5feed::test {
namespace {

using gpu::make_cuda_device;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The device's own streams, in the order in which it makes them.
struct DeviceStreams {
  cudaStream_t copy, compute;
};

DeviceStreams streams_of_newest_device(const FakeCuda& cuda) {
  const auto all = cuda.streams();
  return {all[all.size() - 2], all[all.size() - 1]};
}

TEST(CudaDevice, delivers_batches_bit_equal_to_the_cpu_and_labels_as_int64) {
  FakeCuda cuda;
  const BatchKind kind;
  Consumer consumer(cuda, kind);
  {
    const TestStream stream;
    const auto device = make_cuda_device(kind.settings(4, 2));
    for (std::uint64_t ticket = 0; ticket < 40; ++ticket) {
      auto assembled = kind.assemble(*device, ticket, ticket % 8 == 7 ? 1 : 4);
      device->stage(ticket, assembled);
      const Batch batch = device->deliver(ticket, std::move(*assembled), {});
      EXPECT_FALSE(batch.data.defined());
      EXPECT_FALSE(batch.target.defined());
      EXPECT_FALSE(batch.field("marks").values.defined());
      EXPECT_EQ(batch.gpu->data().dtype, DType::f32);
      EXPECT_THAT(batch.gpu->data().shape, ElementsAre(batch.size(), 3, 20));
      EXPECT_THAT(batch.gpu->data().strides, ElementsAre(60, 20, 1));
      EXPECT_EQ(batch.gpu->target().dtype, DType::i64);
      EXPECT_EQ(batch.gpu->field("marks").dtype, DType::u8);
      EXPECT_THAT(batch.gpu->field("marks").shape, ElementsAre(batch.size(), BatchKind::kMarks));
      EXPECT_THAT(batch.gpu->field("marks").strides, ElementsAre(BatchKind::kMarks, 1));
      EXPECT_THROW(batch.gpu->field("other"), std::out_of_range);
      consumer.use(batch, ticket, stream.get());
    }
    stream.wait();
    EXPECT_EQ(cuda.pageable_copies(), 1u) << "the table, once";
    EXPECT_EQ(cuda.pinned_copies(), 40u) << "one for each batch";
  }
  EXPECT_EQ(consumer.seen(), 40);
  EXPECT_EQ(consumer.wrong(), 0);
  EXPECT_EQ(cuda.live(), FakeCudaLive{});
}

TEST(CudaDevice, delivers_data_as_stored_where_there_is_nothing_to_normalize) {
  FakeCuda cuda;
  const BatchKind kind{.target = false};
  auto settings = kind.settings(2, 1);
  settings.format.to = DType::u8;
  settings.format.in_channels_last = false;
  settings.format.normalize.reset();
  const TestStream stream;
  const auto device = make_cuda_device(settings);
  auto assembled = kind.assemble(*device, 3);
  Batch batch = device->deliver(3, std::move(*assembled), {});
  EXPECT_FALSE(batch.gpu->target().defined());
  batch.gpu->use_on(stream.get());
  stream.wait();
  const auto* const bytes = static_cast<const std::uint8_t*>(batch.gpu->data().data);
  for (std::int64_t i = 0; i < 4 * 20 * 3; ++i) ASSERT_EQ(bytes[i], BatchKind::byte_of(3, i));
}

TEST(CudaDevice, stores_past_the_l2_cache_only_what_does_not_fit_it) {
  const BatchKind kind;
  constexpr int kDelivered = 4 * 60 * sizeof(float);
  for (const int cache : {kDelivered - 1, kDelivered}) {
    FakeCuda cuda({.l2_cache_bytes = cache});
    const auto device = make_cuda_device(kind.settings(4, 2));
    auto full = kind.assemble(*device, 0);
    auto smaller = kind.assemble(*device, 1, 3);
    const Batch first = device->deliver(0, std::move(*full), {});
    const Batch second = device->deliver(1, std::move(*smaller), {});
    EXPECT_EQ(cuda.streaming_launches(), cache < kDelivered ? 1u : 0u);
  }
}

TEST(CudaDevice, gives_strides_of_channels_last) {
  FakeCuda cuda;
  const BatchKind kind{.pixels = 6};
  auto settings = kind.settings(2, 1);
  settings.format.out_channels_last = true;
  const auto device = make_cuda_device(settings);
  auto assembled = kind.assemble(*device, 0);
  assembled->data.shape = {4, 3, 2, 3};
  const Batch batch = device->deliver(0, std::move(*assembled), {});
  EXPECT_THAT(batch.gpu->data().shape, ElementsAre(4, 3, 2, 3));
  EXPECT_THAT(batch.gpu->data().strides, ElementsAre(18, 1, 9, 3));
}

TEST(CudaDevice, copies_the_next_batch_while_the_kernel_of_the_last_one_has_not_run) {
  FakeCuda cuda({.manual = true});
  const BatchKind kind;
  const auto device = make_cuda_device(kind.settings(4, 2));
  const auto [copy, compute] = streams_of_newest_device(cuda);
  const auto first = kind.assemble(*device, 0);
  const auto second = kind.assemble(*device, 1);
  device->stage(0, first);
  device->stage(1, second);
  const std::size_t kernels = cuda.pending(compute);
  cuda.run({copy});
  EXPECT_EQ(cuda.pending(copy), 0u) << "both batches are copied";
  EXPECT_EQ(cuda.pending(compute), kernels) << "while no kernel has run";
}

TEST(CudaDevice, runs_the_kernel_of_one_batch_while_the_copy_of_the_next_has_not_run) {
  FakeCuda cuda({.manual = true});
  const BatchKind kind;
  Consumer consumer(cuda, kind);
  const TestStream stream;
  const auto device = make_cuda_device(kind.settings(4, 2));
  const auto [copy, compute] = streams_of_newest_device(cuda);
  const auto first = kind.assemble(*device, 0);
  device->stage(0, first);
  cuda.run({copy});
  const auto second = kind.assemble(*device, 1);
  device->stage(1, second);
  const Batch batch = device->deliver(0, std::move(*first), {});
  consumer.use(batch, 0, stream.get());
  cuda.run({compute, stream.get()});
  EXPECT_EQ(consumer.seen(), 1);
  EXPECT_EQ(consumer.wrong(), 0);
  EXPECT_GT(cuda.pending(copy), 0u);
}

TEST(CudaDevice, never_makes_the_host_wait) {
  FakeCuda cuda({.manual = true});
  const BatchKind kind;
  Consumer consumer(cuda, kind);
  const TestStream stream;
  const auto device = make_cuda_device(kind.settings(32, 2, true));
  const std::uint64_t before = cuda.host_waits();
  for (std::uint64_t ticket = 0; ticket < 30; ++ticket) {
    const auto assembled = kind.assemble(*device, ticket);
    device->stage(ticket, assembled);
    const Batch batch = device->deliver(ticket, std::move(*assembled), {});
    consumer.use(batch, ticket, stream.get());
  }
  EXPECT_EQ(cuda.host_waits(), before) << "30 batches were delivered before the GPU did anything";
  EXPECT_EQ(device->allocations(), 4u) << "though it reuses its four buffers";
  EXPECT_EQ(consumer.seen(), 0);
  cuda.run_all();
  EXPECT_EQ(consumer.seen(), 30);
  EXPECT_EQ(consumer.wrong(), 0);
}

TEST(CudaDevice, copies_no_further_ahead_than_its_depth) {
  FakeCuda cuda({.manual = true});
  const BatchKind kind;
  const auto device = make_cuda_device(kind.settings(8, 2));
  std::vector<std::shared_ptr<Batch>> assembled;
  for (std::uint64_t ticket = 0; ticket < 6; ++ticket) assembled.push_back(kind.assemble(*device, ticket));
  for (const std::uint64_t ticket : {5u, 3u, 1u, 0u, 2u, 4u}) device->stage(ticket, assembled[ticket]);
  EXPECT_EQ(cuda.pinned_copies(), 2u) << "of two batches";
  for (std::uint64_t ticket = 0; ticket < 6; ++ticket) {
    EXPECT_TRUE(assembled[ticket]->gpu) << "copied before its turn";
    const Batch batch = device->deliver(ticket, std::move(*assembled[ticket]), {});
    EXPECT_EQ(cuda.pinned_copies(), std::min<std::uint64_t>(6, ticket + 3));
  }
}

TEST(CudaDevice, goes_on_after_tickets_that_never_come) {
  FakeCuda cuda;
  const BatchKind kind;
  Consumer consumer(cuda, kind);
  const TestStream stream;
  const auto device = make_cuda_device(kind.settings(8, 2));
  {
    std::vector<std::shared_ptr<Batch>> abandoned;
    for (std::uint64_t ticket = 0; ticket < 5; ++ticket) {
      abandoned.push_back(kind.assemble(*device, ticket));
      device->stage(ticket, abandoned.back());
    }
  }
  for (std::uint64_t ticket = 5; ticket < 20; ++ticket) {
    const auto assembled = kind.assemble(*device, ticket);
    device->stage(ticket, assembled);
    consumer.use(device->deliver(ticket, std::move(*assembled), {}), ticket, stream.get());
  }
  stream.wait();
  EXPECT_EQ(consumer.seen(), 15);
  EXPECT_EQ(consumer.wrong(), 0);
  EXPECT_EQ(device->lent_bytes(), 0u);
  EXPECT_EQ(device->allocations(), 4u);
}

TEST(CudaDevice, grows_for_a_consumer_that_keeps_batches_and_says_so_once) {
  FakeCuda cuda;
  const CapturedLog log;
  const BatchKind kind;
  Consumer consumer(cuda, kind);
  const TestStream stream;
  const auto device = make_cuda_device(kind.settings(4, 1));
  std::vector<Batch> kept;
  for (std::uint64_t ticket = 0; ticket < 8; ++ticket) {
    const auto assembled = kind.assemble(*device, ticket);
    kept.push_back(device->deliver(ticket, std::move(*assembled), {}));
  }
  EXPECT_EQ(device->allocations(), 8u);
  EXPECT_THAT(log.lines(), ElementsAre(HasSubstr("the consumer keeps batches: h5feed allocates ")));
  for (std::uint64_t ticket = 0; ticket < 8; ++ticket) consumer.use(kept[ticket], ticket, stream.get());
  stream.wait();
  EXPECT_EQ(consumer.wrong(), 0);
}

TEST(CudaDevice, leaves_batches_valid_that_outlive_it) {
  FakeCuda cuda;
  const BatchKind kind;
  Consumer consumer(cuda, kind);
  {
    const TestStream stream;
    Batch batch;
    {
      const auto device = make_cuda_device(kind.settings(2, 1));
      const auto assembled = kind.assemble(*device, 17);
      batch = device->deliver(17, std::move(*assembled), {});
    }
    consumer.use(batch, 17, stream.get());
    batch.gpu.reset();
    stream.wait();
  }
  EXPECT_EQ(consumer.wrong(), 0);
  EXPECT_EQ(cuda.live(), FakeCudaLive{});
}

TEST(CudaDevice, ends_at_any_moment_with_work_in_flight) {
  for (unsigned step = 0; step < 40; ++step) {
    FakeCuda cuda({.seed = step});
    const BatchKind kind;
    Consumer consumer(cuda, kind);
    {
      const TestStream stream;
      const auto device = make_cuda_device(kind.settings(3, 2, step % 2 == 0));
      std::vector<std::shared_ptr<Batch>> assembled;
      for (std::uint64_t ticket = 0; ticket < 3; ++ticket)
        assembled.push_back(kind.assemble(*device, ticket));
      for (std::uint64_t ticket = 0; ticket < step % 4; ++ticket) device->stage(ticket, assembled[ticket]);
      if (step % 3 == 1) consumer.use(device->deliver(0, std::move(*assembled[0]), {}), 0, stream.get());
    }
    EXPECT_EQ(consumer.wrong(), 0);
    EXPECT_EQ(cuda.live(), FakeCudaLive{});
  }
}

TEST(CudaDevice, overwrites_what_was_let_go_when_it_poisons) {
  FakeCuda cuda({.manual = true});
  const BatchKind kind;
  const auto device = make_cuda_device(kind.settings(2, 1, true));
  const auto assembled = kind.assemble(*device, 0);
  Batch batch = device->deliver(0, std::move(*assembled), {});
  const DeviceTensors tensors = batch.gpu->tensors();
  cuda.run_all();
  EXPECT_TRUE(kind.holds(tensors, 0));
  batch.gpu.reset();
  cuda.run_all();
  EXPECT_EQ(static_cast<const std::uint8_t*>(tensors.data.data)[0], 0xFB);
  EXPECT_EQ(static_cast<const std::uint8_t*>(tensors.target->data)[0], 0xFB);
  EXPECT_EQ(static_cast<const std::uint8_t*>(tensors.fields.at(0).values.data)[0], 0xFB);
}

TEST(CudaDevice, does_not_use_a_buffer_again_whose_consumer_destroyed_its_stream) {
  FakeCuda cuda;
  const BatchKind kind;
  const auto device = make_cuda_device(kind.settings(4, 1));
  const auto assembled = kind.assemble(*device, 0);
  Batch batch = device->deliver(0, std::move(*assembled), {});
  const std::size_t before = cuda.live().device_allocations;
  {
    const TestStream stream;
    batch.gpu->use_on(stream.get());
  }
  batch.gpu.reset();
  EXPECT_EQ(cuda.live().device_allocations, before - 1);
  EXPECT_EQ(device->lent_bytes(), 0u);
}

TEST(CudaDevice, works_on_several_devices_and_leaves_the_current_one_alone) {
  FakeCuda cuda({.devices = 3});
  const BatchKind kind;
  Consumer consumer(cuda, kind);
  {
    const TestStream stream_1(1), stream_2(2);
    auto settings = kind.settings(3, 2);
    settings.device = 1;
    const auto one = make_cuda_device(settings);
    settings.device = 2;
    const auto two = make_cuda_device(settings);
    for (std::uint64_t ticket = 0; ticket < 20; ++ticket) {
      for (const auto& [device, stream] :
           {std::pair(one.get(), &stream_1), std::pair(two.get(), &stream_2)}) {
        const auto assembled = kind.assemble(*device, ticket);
        device->stage(ticket, assembled);
        const Batch batch = device->deliver(ticket, std::move(*assembled), {});
        EXPECT_EQ(batch.gpu->device(), device == one.get() ? 1 : 2);
        consumer.use(batch, ticket, stream->get());
      }
      int current = -1;
      ASSERT_EQ(cudaGetDevice(&current), cudaSuccess);
      ASSERT_EQ(current, 0);
    }
    stream_1.wait();
    stream_2.wait();
  }
  EXPECT_EQ(consumer.seen(), 40);
  EXPECT_EQ(consumer.wrong(), 0);
  EXPECT_EQ(cuda.live(), FakeCudaLive{});
}

// Workers that finish batches in any order, and a consumer that uses each on two streams and lets it go at
// once or later, on another thread.
TEST(CudaDevice, serves_many_workers_and_a_slow_consumer_of_several_streams) {
  constexpr std::uint64_t kBatches = 300;
  constexpr std::uint64_t kAhead = 4;
  FakeCuda cuda({.seed = 7});
  const BatchKind kind;
  Consumer consumer(cuda, kind);
  {
    const TestStream first, second;
    const auto device = make_cuda_device(kind.settings(kAhead + 1, 2, true));
    std::vector<std::shared_ptr<Batch>> ready(kBatches);
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t issued = 0, delivered = 0;
    std::vector<std::jthread> workers;
    for (int worker = 0; worker < 3; ++worker) {
      workers.emplace_back([&] {
        while (true) {
          std::uint64_t ticket = 0;
          {
            std::unique_lock lock(mutex);
            changed.wait(lock, [&] { return issued == kBatches || issued < delivered + kAhead; });
            if (issued == kBatches) return;
            ticket = issued++;
          }
          auto batch = kind.assemble(*device, ticket);
          device->stage(ticket, batch);
          const std::lock_guard lock(mutex);
          ready[ticket] = std::move(batch);
          changed.notify_all();
        }
      });
    }
    std::vector<Batch> kept;
    for (std::uint64_t ticket = 0; ticket < kBatches; ++ticket) {
      std::shared_ptr<Batch> assembled;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return ready[ticket] != nullptr; });
        assembled = std::move(ready[ticket]);
        ++delivered;
        changed.notify_all();
      }
      Batch batch = device->deliver(ticket, std::move(*assembled), {});
      consumer.use(batch, ticket, first.get());
      if (ticket % 2 == 0) consumer.use(batch, ticket, second.get());
      kept.push_back(std::move(batch));
      if (kept.size() == 3) {
        std::jthread([late = std::move(kept)]() mutable { late.clear(); });
        kept.clear();
      }
    }
    workers.clear();
    first.wait();
    second.wait();
  }
  EXPECT_EQ(consumer.seen(), static_cast<int>(kBatches + kBatches / 2));
  EXPECT_EQ(consumer.wrong(), 0);
  EXPECT_EQ(cuda.live(), FakeCudaLive{});
}

}  // namespace
}  // namespace h5feed::test
