// SPDX-License-Identifier: Apache-2.0
// That every wait of a stream for an event is there, and none is too many: each is left out in turn.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cuda/cuda_device.hpp"
#include "support/case_step.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/gpu/device_batches.hpp"
#include "support/gpu/known_order.hpp"

namespace h5feed::test {
namespace {

constexpr std::uint64_t kBatches = 8;

struct Played {
  std::uint64_t stream_waits = 0;
  int wrong = 0;
};

// Lets what is enqueued run, the streams in one order of preference.
Played finish(FakeCuda& cuda, const std::vector<std::size_t>& preference, std::uint64_t waits_before,
              const Consumer& consumer, std::uint64_t uses) {
  Played played;
  played.stream_waits = cuda.stream_waits() - waits_before;
  const auto all = cuda.streams();
  std::vector<cudaStream_t> order;
  for (const std::size_t i : preference) order.push_back(all[i]);
  cuda.run(order);
  EXPECT_EQ(consumer.seen(), static_cast<int>(uses));
  played.wrong = consumer.wrong();
  return played;
}

// Enqueues all batches, then lets the streams run in one order of preference. The consumer uses each batch
// on two streams; buffers are used two or three times.
Played play(const std::vector<std::size_t>& preference, std::uint64_t ignored_wait, bool poison) {
  FakeCuda cuda({.manual = true});
  const BatchKind kind;
  Consumer consumer(cuda, kind);
  const TestStream first, second;
  const auto device = gpu::make_cuda_device(kind.settings(kBatches, 1, poison));
  cuda.ignore_stream_wait(ignored_wait);
  const std::uint64_t before = cuda.stream_waits();
  for (std::uint64_t ticket = 0; ticket < kBatches; ++ticket) {
    const auto assembled = kind.assemble(*device, ticket);
    device->stage(ticket, assembled);
    const Batch batch = device->deliver(ticket, std::move(*assembled), {});
    consumer.use(batch, ticket, first.get());
    consumer.use(batch, ticket, second.get());
  }
  return finish(cuda, preference, before, consumer, 2 * kBatches);
}

// The same with memory of the consumer, on whose one stream the batches are made; `deliveries` of each.
Played play_given(const std::vector<std::size_t>& preference, std::uint64_t ignored_wait,
                  std::uint64_t deliveries) {
  FakeCuda cuda({.manual = true});
  const BatchKind kind;
  Consumer consumer(cuda, kind);
  const TestStream stream;
  auto settings = kind.settings(kBatches, 1);
  settings.capacity.own_outputs = false;
  settings.format.deliveries = deliveries;
  const auto device = gpu::make_cuda_device(settings);
  std::vector<gpu::DeviceMemory> outputs;  // as if none were given out twice
  const auto allocate = [&](std::size_t bytes) {
    return outputs.emplace_back(gpu::make_device_memory(bytes, 0)).get();
  };
  const auto provide = [&](int, const DeviceTensors&) {
    return DeviceOutput{.data = allocate(4 * 60 * sizeof(float)),
                        .target = allocate(4 * sizeof(std::int64_t)),
                        .stream = stream.get(),
                        .fields = {allocate(4 * BatchKind::kMarks)}};
  };
  cuda.ignore_stream_wait(ignored_wait);
  const std::uint64_t before = cuda.stream_waits();
  for (std::uint64_t ticket = 0; ticket < kBatches; ++ticket) {
    const auto assembled = kind.assemble(*device, ticket);
    device->stage(ticket, assembled);
    Batch batch = device->deliver(ticket, std::move(*assembled), provide);
    consumer.use(batch, ticket, stream.get());
    for (std::uint64_t nth = 1; nth < deliveries; ++nth) {
      batch = device->deliver_again(std::move(batch), nth, provide);
      consumer.use(batch, ticket, stream.get());
    }
  }
  return finish(cuda, preference, before, consumer, deliveries * kBatches);
}

// Returns batch `ticket` once more, made of samples that stay on the device: only labels and
// marks are filled in.
std::shared_ptr<Batch> assemble_kept(const BatchKind& kind, Device& device, std::uint64_t ticket) {
  auto batch = std::make_shared<Batch>();
  for (std::int64_t i = 0; i < kind.samples; ++i)
    batch->indices.push_back(static_cast<std::int64_t>(ticket) * kind.samples + i);
  BatchSlot slot = device.acquire_slot({.batch = ticket, .samples = batch->indices});
  EXPECT_EQ(slot.places, std::vector<std::uint32_t>(4, kOnDevice));
  batch->gpu = std::move(slot.gpu);
  batch->data = std::move(slot.data);
  batch->data.shape = {kind.samples, 3, kind.pixels};
  kind.put_labels(*batch, slot, ticket, kind.samples);
  return batch;
}

// Every batch twice, the second time of samples that stay on the device since the first.
Played play_kept(const std::vector<std::size_t>& preference, std::uint64_t ignored_wait) {
  FakeCuda cuda({.manual = true});
  const BatchKind kind;
  Consumer consumer(cuda, kind);
  const TestStream first, second;
  auto settings = kind.settings(2 * kBatches, 1);
  settings.format.gathers = true;
  settings.capacity.cache = 1 << 16;
  const auto device = gpu::make_cuda_device(settings);
  cuda.ignore_stream_wait(ignored_wait);
  const std::uint64_t before = cuda.stream_waits();
  for (std::uint64_t turn = 0; turn < 2 * kBatches; ++turn) {
    const std::uint64_t ticket = turn % kBatches;
    const auto assembled =
        turn < kBatches ? kind.assemble(*device, ticket) : assemble_kept(kind, *device, ticket);
    device->stage(turn, assembled);
    const Batch batch = device->deliver(turn, std::move(*assembled), {});
    consumer.use(batch, ticket, first.get());
    consumer.use(batch, ticket, second.get());
  }
  return finish(cuda, preference, before, consumer, 4 * kBatches);
}

// Two batches in turns, each twice in a row: copied to the rows of the other one, then made of them. In one
// turn the copies do not wait for the kernels that read these rows; 0: in none.
Played play_replaced(const std::vector<std::size_t>& preference, std::uint64_t hasty_turn) {
  FakeCuda cuda({.manual = true});
  const BatchKind kind;
  Consumer consumer(cuda, kind);
  const TestStream first, second;
  KnownOrder order;
  for (std::uint64_t turn = 0; turn <= 2 * kBatches; ++turn) {
    for (std::int64_t i = 0; i < kind.samples; ++i)
      order.samples.push_back(static_cast<std::int64_t>(turn / 2 % 2) * kind.samples + i);
  }
  auto settings = kind.settings(2 * kBatches, 1);
  settings.format.gathers = true;
  settings.capacity.cache = 256;  // four rows
  settings.capacity.foresee = order.foresee();
  const auto device = gpu::make_cuda_device(settings);
  const std::uint64_t before = cuda.stream_waits();
  for (std::uint64_t turn = 0; turn < 2 * kBatches; ++turn) {
    const std::uint64_t ticket = turn / 2 % 2;
    const auto assembled =
        turn % 2 == 0 ? kind.assemble(*device, ticket) : assemble_kept(kind, *device, ticket);
    order.past += static_cast<std::uint64_t>(kind.samples);
    order.end = (turn / 2 + 1) * 2 * static_cast<std::uint64_t>(kind.samples);  // the other batch is not due
    // The first wait is that for the kernel which reads the slot of the copy.
    if (hasty_turn > 0 && turn == hasty_turn) cuda.ignore_stream_wait(2);
    device->stage(turn, assembled);
    const Batch batch = device->deliver(turn, std::move(*assembled), {});
    consumer.use(batch, ticket, first.get());
    consumer.use(batch, ticket, second.get());
  }
  return finish(cuda, preference, before, consumer, 4 * kBatches);
}

std::vector<std::vector<std::size_t>> all_orders(std::size_t streams = 4) {
  std::vector<std::size_t> order;  // one or two of the consumer, copy, compute
  for (std::size_t i = 0; i < streams; ++i) order.push_back(i);
  std::vector<std::vector<std::size_t>> orders;
  do {
    orders.push_back(order);
  } while (std::ranges::next_permutation(order).found);
  return orders;
}

TEST(EventOrder, keeps_batches_whole_whichever_stream_runs_first) {
  for (const bool poison : {false, true}) {
    for (const auto& order : all_orders()) EXPECT_EQ(play(order, 0, poison).wrong, 0);
  }
}

TEST(EventOrder, keeps_samples_whole_that_stay_on_the_device) {
  for (const auto& order : all_orders()) EXPECT_EQ(play_kept(order, 0).wrong, 0);
  const std::uint64_t waits = play_kept(all_orders().front(), 0).stream_waits;
  EXPECT_EQ(waits, play(all_orders().front(), 0, false).stream_waits + 6 * kBatches)
      << "none for the samples themselves";
}

TEST(EventOrder, keeps_samples_whole_that_replace_others_on_the_device) {
  for (const auto& order : all_orders()) EXPECT_EQ(play_replaced(order, 0).wrong, 0);
  const std::uint64_t waits = play_replaced(all_orders().front(), 0).stream_waits;
  // As for any samples, and before every other batch one wait for the kernels that read the rows.
  EXPECT_EQ(waits, play_kept(all_orders().front(), 0).stream_waits + kBatches - 1);
  for (std::uint64_t turn = 2; turn < 2 * kBatches; turn += 2) {
    int wrong = 0;
    for (const auto& order : all_orders()) wrong += play_replaced(order, turn).wrong;
    EXPECT_GT(wrong, 0) << "nothing was wrong without the wait of turn " << turn;
  }
}

TEST(EventOrder, needs_every_single_wait) {
  const std::uint64_t waits = play(all_orders().front(), 0, false).stream_waits;
  // For every batch: kernel for copy, two streams for the kernel; for every use of a buffer again: copy for
  // the last kernel, of two buffers; kernel for two streams of the consumer, of three.
  EXPECT_EQ(waits, 3 * kBatches + (kBatches - 2) + 2 * (kBatches - 3));
  for (std::uint64_t wait = 1; wait <= waits; wait += kCaseStep) {
    int wrong = 0;
    for (const auto& order : all_orders()) wrong += play(order, wait, false).wrong;
    EXPECT_GT(wrong, 0) << "nothing was wrong without wait " << wait;
  }
}

TEST(EventOrder, needs_every_single_wait_when_it_poisons) {
  const std::uint64_t waits = play(all_orders().front(), 0, true).stream_waits;
  // For every batch: kernel for copy, two streams for the kernel, poison for two streams of the consumer,
  // behind which the next kernel comes anyway; for every use of a buffer again: copy for the last kernel.
  EXPECT_EQ(waits, 5 * kBatches + (kBatches - 2));
  for (std::uint64_t wait = 1; wait <= waits; wait += kCaseStep) {
    int wrong = 0;
    for (const auto& order : all_orders()) wrong += play(order, wait, true).wrong;
    EXPECT_GT(wrong, 0) << "nothing was wrong without wait " << wait;
  }
}

TEST(EventOrder, in_memory_of_the_consumer_needs_every_wait_but_the_repeats_of_one) {
  for (const std::uint64_t deliveries : {1U, 2U}) {
    for (const auto& order : all_orders(3)) EXPECT_EQ(play_given(order, 0, deliveries).wrong, 0);
    const std::uint64_t waits = play_given(all_orders(3).front(), 0, deliveries).stream_waits;
    // For every delivery: the consumer's stream for the copy; for every use of a buffer again: the copy for
    // the consumer's stream. With repeats there is one buffer more.
    EXPECT_EQ(waits, deliveries * kBatches + kBatches - 1 - deliveries);
    int needless = 0;
    for (std::uint64_t wait = 1; wait <= waits; ++wait) {
      int wrong = 0;
      for (const auto& order : all_orders(3)) wrong += play_given(order, wait, deliveries).wrong;
      if (wrong == 0) ++needless;
    }
    // The first delivery has waited on that stream already; a repeat may be on another one.
    EXPECT_EQ(needless, static_cast<int>((deliveries - 1) * kBatches));
  }
}

}  // namespace
}  // namespace h5feed::test
