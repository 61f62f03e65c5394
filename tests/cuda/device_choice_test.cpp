// SPDX-License-Identifier: Apache-2.0
#include "cuda/device_choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <string>

#include "cuda/runtime/handles.hpp"
#include "h5feed/error.hpp"
#include "support/captured_log.hpp"
#include "support/fakes/fake_cuda.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using gpu::choose_device;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(DeviceChoice, reads_names) {
  EXPECT_EQ(gpu::ordinal_in("cuda"), 0);
  EXPECT_EQ(gpu::ordinal_in("cuda:11"), 11);
  EXPECT_EQ(gpu::ordinal_in("auto"), std::nullopt);
  for (const char* const name :
       {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda:99999999999", "CUDA:0", "cuda0"}) {
    EXPECT_THROW(gpu::ordinal_in(name), OptionError) << name;
  }
}

TEST(DeviceChoice, takes_devices_that_exist) {
  FakeCuda cuda({.devices = 2});
  EXPECT_EQ(choose_device("cuda"), 0);
  EXPECT_EQ(choose_device("cuda:1"), 1);
  EXPECT_EQ(refusal_of<OptionError>([] { choose_device("cuda:2"); }),
            "device \"cuda:2\": this process sees cuda:0 to cuda:1; choose one of them");
}

TEST(DeviceChoice, says_why_there_is_no_gpu) {
  {
    FakeCuda cuda({.device_count_error = cudaErrorInsufficientDriver, .driver_version = 0});
    EXPECT_EQ(refusal_of<DeviceError>([] { choose_device("cuda:0"); }),
              "device \"cuda:0\": no NVIDIA driver is loaded; install one, or use device = \"cpu\"");
  }
  {
    FakeCuda cuda({.device_count_error = cudaErrorInsufficientDriver, .driver_version = 11080});
    EXPECT_THAT(refusal_of<DeviceError>([] { choose_device("cuda"); }),
                HasSubstr("the NVIDIA driver supports CUDA 11.8, h5feed was built with "));
  }
  {
    FakeCuda cuda({.device_count_error = cudaErrorNoDevice});
    EXPECT_THAT(refusal_of<DeviceError>([] { choose_device("cuda"); }), HasSubstr("the driver s"));
  }
  {
    FakeCuda cuda({.devices = 0});
    EXPECT_THAT(refusal_of<DeviceError>([] { choose_device("cuda"); }), HasSubstr("the driver s"));
  }
}

TEST(DeviceChoice, automatic_is_the_cpu_where_no_gpu_can_be_used) {
  for (const cudaError_t error : {cudaErrorInsufficientDriver, cudaErrorNoDevice, cudaErrorUnknown}) {
    const CapturedLog log;
    FakeCuda cuda({.device_count_error = error, .driver_version = 0});
    EXPECT_EQ(choose_device("auto"), std::nullopt);
    EXPECT_THAT(log.lines(), ElementsAre(HasSubstr("device \"auto\": batches go to the CPU; ")));
    EXPECT_EQ(choose_device("auto"), std::nullopt);
    EXPECT_EQ(log.lines().size(), 1u) << "said once";
  }
}

TEST(DeviceChoice, automatic_is_the_cpu_where_a_gpu_is_broken) {
  const CapturedLog log;
  FakeCuda cuda;
  cuda.fail_call_of("cudaGetDevice", 1, cudaErrorIllegalAddress);
  EXPECT_EQ(choose_device("auto"), std::nullopt);
  EXPECT_THAT(log.lines(), ElementsAre(HasSubstr("because the GPU failed")));
}

// NVML of the tests, or none, whatever the machine has.
class NvmlPath {
 public:
  explicit NvmlPath(const char* path) { ::setenv("H5FEED_NVML", path, 1); }
  NvmlPath(const NvmlPath&) = delete;
  NvmlPath& operator=(const NvmlPath&) = delete;
  ~NvmlPath() { ::unsetenv("H5FEED_NVML"); }
};

TEST(DeviceChoice, automatic_asks_nvml_for_free_memory_and_creates_no_context_for_it) {
  const CapturedLog log;
  const NvmlPath path(FAKE_NVML_PATH);  // says 300 bytes are free on the GPU at 19:00.0, knows no other
  FakeCuda cuda({.devices = 2, .memory_bytes = 299});
  EXPECT_EQ(choose_device("auto"), 0);
}

TEST(DeviceChoice, automatic_takes_the_gpu_with_most_free_memory_and_names_its_place) {
  const CapturedLog log;
  const NvmlPath path("/no/such/library.so");
  FakeCuda cuda({.devices = 3, .memory_bytes = 1 << 20, .busy_devices = {0}});
  const auto allocate = [](std::size_t bytes, int device) {
    const gpu::DeviceGuard guard(device);
    return gpu::make_device_memory(bytes, device);
  };
  const gpu::DeviceMemory on_1 = allocate(1000, 1), on_2 = allocate(2000, 2);
  EXPECT_EQ(choose_device("auto"), 1);
  EXPECT_THAT(log.lines(), ElementsAre("device \"auto\": cuda:1 (PCI 0000:1a:00.0)"));
}

TEST(DeviceChoice, automatic_follows_a_program_that_has_set_device_0) {
  const CapturedLog log;
  const NvmlPath path("/no/such/library.so");
  FakeCuda cuda({.devices = 3, .memory_bytes = 1 << 20});
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  const gpu::DeviceMemory model = gpu::make_device_memory(1000, 0);
  EXPECT_EQ(choose_device("auto"), 0) << "though the others have more free memory";
}

TEST(DeviceChoice, automatic_leaves_a_context_on_no_device_but_the_chosen_one) {
  const CapturedLog log;
  const NvmlPath path("/no/such/library.so");
  FakeCuda cuda({.devices = 3});
  const std::optional<int> chosen = choose_device("auto");
  ASSERT_TRUE(chosen);
  EXPECT_EQ(cuda.contexts(), std::set<int>{*chosen});
}

TEST(DeviceChoice, automatic_passes_over_a_gpu_that_another_process_has_for_itself) {
  const NvmlPath path("/no/such/library.so");
  {
    const CapturedLog log;
    FakeCuda cuda({.devices = 3, .busy_devices = {0, 1}});
    EXPECT_EQ(choose_device("auto"), 2);
  }
  const CapturedLog log;
  FakeCuda cuda({.devices = 1, .busy_devices = {0}});
  EXPECT_EQ(choose_device("auto"), std::nullopt);
  EXPECT_THAT(log.lines(), ElementsAre(HasSubstr("another process uses this GPU exclusively")));
}

TEST(DeviceChoice, automatic_follows_the_device_the_program_has_set) {
  const CapturedLog log;
  FakeCuda cuda({.devices = 3});
  const gpu::DeviceGuard guard(2);
  EXPECT_EQ(choose_device("auto"), 2);
}

}  // namespace
}  // namespace h5feed::test
