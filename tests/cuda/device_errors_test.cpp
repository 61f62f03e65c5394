// SPDX-License-Identifier: Apache-2.0
// What becomes of failures of the CUDA runtime.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cuda/cuda_device.hpp"
#include "cuda/runtime/check.hpp"
#include "h5feed/error.hpp"
#include "support/captured_log.hpp"
#include "support/case_step.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/gpu/device_batches.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Outcome {
  int delivered = 0;
  std::vector<std::string> errors;
};

// A loader's life: some batches staged ahead, some not, each delivered, used and let go; failures go on to
// the next batch. With `provide` each is delivered twice, in memory of the consumer.
Outcome play(Consumer& consumer, const BatchKind& kind, const ProvideOutput& provide) {
  Outcome outcome;
  cudaStream_t stream = nullptr;  // the default stream, which nothing has to create
  const auto note = [&](const std::exception& error) { outcome.errors.emplace_back(error.what()); };
  std::unique_ptr<Device> device;
  try {
    auto settings = kind.settings(3, 2, true);
    settings.format.deliveries = provide ? 2 : 1;
    device = gpu::make_cuda_device(settings);
  } catch (const DeviceError& error) {
    note(error);
    return outcome;
  }
  for (std::uint64_t ticket = 0; ticket < 8; ticket += 2) {
    std::vector<std::shared_ptr<Batch>> two;
    for (std::uint64_t i = 0; i < 2; ++i) {
      try {
        two.push_back(kind.assemble(*device, ticket + i));
        if (ticket < 6) device->stage(ticket + i, two.back());
      } catch (const DeviceError& error) {
        note(error);
        two.push_back(nullptr);
      }
    }
    for (std::uint64_t i = 0; i < 2; ++i) {
      if (!two[i]) continue;
      try {
        Batch batch = device->deliver(ticket + i, std::move(*two[i]), provide);
        consumer.use(batch, ticket + i, stream);
        ++outcome.delivered;
        if (!provide) continue;
        batch = device->deliver_again(std::move(batch), 1, provide);
        consumer.use(batch, ticket + i, stream);
      } catch (const DeviceError& error) {
        note(error);
      }
    }
  }
  return outcome;
}

struct FailingCase {
  bool sticky = false;
  bool given = false;  // memory of the consumer, and every batch twice
};

class FailingCall : public ::testing::TestWithParam<FailingCase> {};

TEST_P(FailingCall, of_any_number_fails_its_batch_leaks_nothing_and_corrupts_nothing) {
  const auto [sticky, given] = GetParam();
  const BatchKind kind;
  for (std::uint64_t n = 1;; n += kCaseStep) {
    SCOPED_TRACE("call " + std::to_string(n));
    const CapturedLog log;
    FakeCuda cuda({.seed = static_cast<unsigned>(n)});
    Consumer consumer(cuda, kind);
    Outcome outcome;
    {
      // One buffer for each tensor is enough: all use of them is on one stream.
      const gpu::DeviceMemory data = gpu::make_device_memory(4 * 60 * sizeof(float), 0);
      const gpu::DeviceMemory target = gpu::make_device_memory(4 * sizeof(std::int64_t), 0);
      const gpu::DeviceMemory marks = gpu::make_device_memory(4 * BatchKind::kMarks, 0);
      ProvideOutput provide;
      if (given) {
        provide = [&](int, const DeviceTensors&) {
          return DeviceOutput{.data = data.get(), .target = target.get(), .fields = {marks.get()}};
        };
      }
      cuda.fail_call(n, sticky ? cudaErrorIllegalAddress : cudaErrorLaunchOutOfResources, sticky);
      outcome = play(consumer, kind, provide);
    }
    EXPECT_EQ(cuda.live(), FakeCudaLive{});
    EXPECT_EQ(consumer.wrong(), 0);
    if (!cuda.failed()) {
      EXPECT_EQ(outcome.delivered, 8);
      EXPECT_TRUE(outcome.errors.empty());
      EXPECT_GT(n, 60u) << "the scenario makes many calls";
      return;
    }
    for (const std::string& error : outcome.errors) {
      EXPECT_THAT(error, HasSubstr("cuda:0"));
      EXPECT_THAT(error, HasSubstr(" failed with "));
    }
    // A single failure costs at most the batch it was made for: or, in the destructor of a batch, none.
    if (!sticky && outcome.delivered > 0) {
      EXPECT_LE(outcome.errors.size(), 1u);
    }
    if (!sticky && !given && outcome.delivered > 0) {
      EXPECT_EQ(outcome.delivered + static_cast<int>(outcome.errors.size()), 8);
    }
    ASSERT_LT(n, 2000u);
  }
}

std::string memory_name(const ::testing::TestParamInfo<FailingCase>& failing) {
  return failing.param.given ? "given_memory" : "own_memory";
}

INSTANTIATE_TEST_SUITE_P(Once, FailingCall,
                         ::testing::Values(FailingCase{false, false}, FailingCase{false, true}), memory_name);
INSTANTIATE_TEST_SUITE_P(ForEver, FailingCall,
                         ::testing::Values(FailingCase{true, false}, FailingCase{true, true}), memory_name);

TEST(DeviceErrors, name_the_call_the_device_and_the_batch) {
  FakeCuda cuda;
  const BatchKind kind;
  const auto device = gpu::make_cuda_device(kind.settings(2, 1));
  const auto assembled = kind.assemble(*device, 12);
  assembled->epoch = 3;
  cuda.fail_call_of("cudaMemcpyAsync", 1, cudaErrorLaunchOutOfResources);
  EXPECT_THAT(
      refusal_of<DeviceError>([&] { device->deliver(12, std::move(*assembled), {}); }),
      HasSubstr("cuda:0, epoch 3, batch 12: cudaMemcpyAsync failed with cudaErrorLaunchOutOfResources"));
}

TEST(DeviceErrors, of_later_calls_name_the_batch_too) {
  FakeCuda cuda;
  const BatchKind kind;
  const auto device = gpu::make_cuda_device(kind.settings(1, 1));
  auto assembled = kind.assemble(*device, 4);
  const Batch batch = device->deliver(4, std::move(*assembled), {});
  cuda.fail_call_of("cudaStreamWaitEvent", 1, cudaErrorLaunchOutOfResources);
  EXPECT_THAT(refusal_of<DeviceError>([&] { batch.gpu->use_on(nullptr); }), HasSubstr("epoch 0, batch 4: "));
  cuda.fail_call_of("cudaEventQuery", 1, cudaErrorLaunchOutOfResources);
  EXPECT_THAT(refusal_of<DeviceError>([&] { device->acquire_slot({.epoch = 2, .batch = 5}); }),
              HasSubstr("cuda:0, epoch 2, batch 5: cudaEventQuery"));
  assembled = kind.assemble(*device, 6);
  cuda.fail_call_of("cudaPointerGetAttributes", 1, cudaErrorLaunchOutOfResources);
  const gpu::DeviceMemory data = gpu::make_device_memory(4 * 60 * sizeof(float), 0);
  EXPECT_THAT(refusal_of<DeviceError>([&] {
                device->deliver(6, std::move(*assembled), [&](int, const DeviceTensors&) {
                  return DeviceOutput{.data = data.get(), .target = data.get(), .fields = {data.get()}};
                });
              }),
              HasSubstr("epoch 0, batch 6: cudaPointerGetAttributes"));
}

TEST(DeviceErrors, tell_a_gpu_that_is_gone_or_taken_from_a_driver_that_cannot_start) {
  FakeCuda cuda;
  EXPECT_THAT(refusal_of<DeviceError>([] { gpu::check(cudaErrorUnknown, "cudaMemcpyAsync", {1}); }),
              HasSubstr("as when a GPU falls off the bus; look for Xid errors"));
  EXPECT_THAT(refusal_of<DeviceError>([] { gpu::check(cudaErrorDevicesUnavailable, "cudaMalloc", {1}); }),
              HasSubstr("another process uses this GPU exclusively"));
  EXPECT_EQ(gpu::why_no_gpu(cudaErrorUnknown), "the NVIDIA driver cannot be initialized; check nvidia-smi");
  EXPECT_TRUE(gpu::ends_context(cudaErrorUnknown));
  EXPECT_FALSE(gpu::ends_context(cudaErrorDevicesUnavailable)) << "the other process may end";
}

TEST(DeviceErrors, of_staged_batches_come_with_their_delivery) {
  FakeCuda cuda;
  const BatchKind kind;
  const auto device = gpu::make_cuda_device(kind.settings(4, 2));
  const auto first = kind.assemble(*device, 0);
  const auto second = kind.assemble(*device, 1);
  cuda.fail_call(2, cudaErrorLaunchOutOfResources);
  device->stage(0, first);
  device->stage(1, second);
  EXPECT_THAT(refusal_of<DeviceError>([&] { device->deliver(0, std::move(*first), {}); }),
              HasSubstr("epoch 0, batch 0: "));
  EXPECT_EQ(refusal_of<DeviceError>([&] { device->deliver(1, std::move(*second), {}); }), "accepted");
}

TEST(DeviceErrors, of_a_wait_for_the_consumer_leave_the_buffer_to_its_work) {
  FakeCuda cuda;
  const BatchKind kind;
  Consumer consumer(cuda, kind);
  const TestStream first, second;
  const auto device = gpu::make_cuda_device(kind.settings(16, 1));
  // Returns how often streams were made to wait.
  const auto deliver = [&](std::uint64_t ticket) {
    const std::uint64_t before = cuda.stream_waits();
    const auto assembled = kind.assemble(*device, ticket);
    const Batch batch = device->deliver(ticket, std::move(*assembled), {});
    consumer.use(batch, ticket, first.get());
    consumer.use(batch, ticket, second.get());
    return cuda.stream_waits() - before;
  };
  for (std::uint64_t ticket = 0; ticket < 3; ++ticket) deliver(ticket);
  std::uint64_t ticket = 3;
  for (const std::uint64_t failing : {1U, 2U}) {
    // The next batch gets the buffer of three batches ago. Its copy waits once before its kernel waits for
    // the two streams of the consumer.
    const auto assembled = kind.assemble(*device, ticket);
    cuda.fail_call_of("cudaStreamWaitEvent", 1 + failing, cudaErrorLaunchOutOfResources);
    EXPECT_NE(refusal_of<DeviceError>([&] { device->deliver(ticket, std::move(*assembled), {}); }),
              "accepted");
    const std::uint64_t usual = deliver(ticket + 1);
    deliver(ticket + 2);
    EXPECT_EQ(deliver(ticket + 3), usual) << "in the buffer of the failed batch, wait " << failing;
    ticket += 4;
  }
  first.wait();
  second.wait();
  EXPECT_EQ(consumer.wrong(), 0);
}

TEST(DeviceErrors, that_end_the_context_end_the_loader_with_the_first_message) {
  FakeCuda cuda({.manual = true});
  const BatchKind kind;
  const auto device = gpu::make_cuda_device(kind.settings(4, 1));
  auto assembled = kind.assemble(*device, 0);
  Batch batch = device->deliver(0, std::move(*assembled), {});
  const auto next = kind.assemble(*device, 1);
  cuda.fail_operation(2, cudaErrorIllegalAddress);
  cuda.run_all();
  const std::string first = refusal_of<DeviceError>([&] { device->deliver(1, std::move(*next), {}); });
  EXPECT_THAT(first,
              AllOf(HasSubstr("cudaErrorIllegalAddress"), HasSubstr("the context of this device is lost")));
  EXPECT_EQ(refusal_of<DeviceError>([&] { device->acquire_slot({}); }), first);
  EXPECT_EQ(refusal_of<DeviceError>([&] { device->deliver(2, Batch{}, {}); }), first);
}

TEST(DeviceErrors, of_memory_name_the_sizes_and_what_to_lower) {
  FakeCuda cuda({.memory_bytes = std::size_t{1} << 20});
  const BatchKind kind{.samples = 64, .pixels = 1000};
  EXPECT_THAT(refusal_of<DeviceError>([&] { gpu::make_cuda_device(kind.settings(2, 2)); }),
              AllOf(HasSubstr("cudaMalloc failed with cudaErrorMemoryAllocation"),
                    HasSubstr("751 KiB were asked for"), HasSubstr(" of 1 MiB are free"),
                    HasSubstr("lower batch_size or copy_depth")));
  EXPECT_EQ(cuda.live(), FakeCudaLive{});
}

TEST(DeviceErrors, of_memory_for_kept_batches_fail_one_batch_and_pass) {
  const CapturedLog log;
  FakeCuda cuda({.memory_bytes = 10000});
  const BatchKind kind;  // about 1.5 KiB a buffer
  const auto device = gpu::make_cuda_device(kind.settings(8, 1));
  std::vector<Batch> kept;
  std::string error = "accepted";
  for (std::uint64_t ticket = 0; ticket < 20 && error == "accepted"; ++ticket) {
    const auto assembled = kind.assemble(*device, ticket);
    error =
        refusal_of<DeviceError>([&] { kept.push_back(device->deliver(ticket, std::move(*assembled), {})); });
  }
  EXPECT_THAT(error, AllOf(HasSubstr("cudaErrorMemoryAllocation"),
                           HasSubstr("epoch 0, batch " + std::to_string(kept.size()) + ": cudaMalloc")));
  kept.clear();
  const auto assembled = kind.assemble(*device, 30);
  EXPECT_EQ(refusal_of<DeviceError>([&] { device->deliver(30, std::move(*assembled), {}); }), "accepted");
}

}  // namespace
}  // namespace h5feed::test
