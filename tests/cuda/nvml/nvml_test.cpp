// SPDX-License-Identifier: Apache-2.0
#include "cuda/nvml/nvml.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include "cuda/nvml/gpu_monitor.hpp"
#include "h5feed/error.hpp"
#include "h5feed/gpu_monitor.hpp"
#include "support/refusal.hpp"

namespace h5feed::gpu {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

/// The controls of the fake library.
class FakeNvml {
 public:
  explicit FakeNvml(const char* path = FAKE_NVML_PATH) : handle_(::dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw std::runtime_error(::dlerror());
    reset();
  }
  FakeNvml(const FakeNvml&) = delete;
  FakeNvml& operator=(const FakeNvml&) = delete;
  ~FakeNvml() {
    reset();
    ::dlclose(handle_);
  }

  void set(const char* key, double value) {
    reinterpret_cast<void (*)(const char*, double)>(::dlsym(handle_, "fake_nvml_set"))(key, value);
  }
  int initialized() { return number("fake_nvml_initialized"); }
  int gpm_samples() { return number("fake_nvml_gpm_samples"); }

 private:
  void reset() { reinterpret_cast<void (*)()>(::dlsym(handle_, "fake_nvml_reset"))(); }
  int number(const char* name) { return reinterpret_cast<int (*)()>(::dlsym(handle_, name))(); }
  void* handle_;
};

std::shared_ptr<Nvml> load(const char* path = FAKE_NVML_PATH) {
  std::string why;
  auto nvml = Nvml::load(path, why);
  EXPECT_TRUE(nvml) << why;
  return nvml;
}

TEST(Nvml, says_why_it_cannot_be_loaded) {
  std::string why;
  EXPECT_FALSE(Nvml::load("/no/such/library.so", why));
  EXPECT_THAT(why, HasSubstr("NVML cannot be loaded (/no/such/library.so: "));
  FakeNvml fake;
  fake.set("init_error", 1);
  EXPECT_FALSE(Nvml::load(FAKE_NVML_PATH, why));
  EXPECT_EQ(why, "NVML cannot be initialized (error 999); check nvidia-smi");
}

TEST(Nvml, takes_the_path_from_the_environment) {
  ASSERT_EQ(::setenv("H5FEED_NVML", FAKE_NVML_PATH, 1), 0);
  EXPECT_EQ(load("")->driver_version(), "580.65.06");
  ASSERT_EQ(::unsetenv("H5FEED_NVML"), 0);
}

TEST(Nvml, finds_gpus_by_their_pci_address_in_any_spelling) {
  const auto nvml = load();
  EXPECT_EQ(nvml->count(), 2u);
  EXPECT_THAT(nvml->find("0000:3b:00.0"), Optional(0u));
  EXPECT_THAT(nvml->find("00000000:19:00.0"), Optional(1u));
  EXPECT_EQ(nvml->find("0000:1a:00.0"), std::nullopt);
  EXPECT_EQ(nvml->name(0), "NVIDIA H200");
  EXPECT_EQ(nvml->pci_id(1), "00000000:19:00.0");
}

TEST(Nvml, reads_what_the_card_offers) {
  FakeNvml fake;
  fake.set("throttle", 0x44);
  fake.set("sm_total", 10);
  {
    const auto nvml = load();
    const GpuReading first = nvml->read(0);
    EXPECT_THAT(first.busy, Optional(0.41));
    EXPECT_THAT(first.memory_busy, Optional(0.12));
    EXPECT_THAT(first.memory_total_bytes, Optional(1000u));
    EXPECT_THAT(first.memory_free_bytes, Optional(300u));
    EXPECT_THAT(first.memory_used_bytes, Optional(700u));
    EXPECT_THAT(first.power_w, Optional(350.5));
    EXPECT_THAT(first.energy_j, Optional(7.0));
    EXPECT_THAT(first.temperature_c, Optional(54.0));
    EXPECT_THAT(first.sm_clock_mhz, Optional(1980u));
    EXPECT_THAT(first.memory_clock_mhz, Optional(3201u));
    EXPECT_THAT(first.throttle_reasons, Optional(0x44u));
    ASSERT_EQ(first.processes.size(), 2u);
    EXPECT_EQ(first.processes[0].pid, 4242u);
    EXPECT_THAT(first.processes[0].used_bytes, Optional(500u));
    EXPECT_EQ(first.processes[1].used_bytes, std::nullopt);
    EXPECT_EQ(first.sm_active, std::nullopt) << "a difference needs two samples";

    fake.set("sm_total", 58);
    const GpuReading second = nvml->read(0);
    EXPECT_THAT(second.sm_active, Optional(0.5)) << "(58 - 10 + 2) %";
    EXPECT_THAT(second.dram_active, Optional(0.58));
    EXPECT_EQ(second.tensor_active, std::nullopt) << "this card does not say";
    EXPECT_THAT(second.pcie_received_bytes_per_s, Optional(69.0 * 1024 * 1024));
    EXPECT_EQ(nvml->read(1).sm_active, std::nullopt);
    EXPECT_EQ(nvml->read(1).sm_active, std::nullopt) << "a card without GPM";
    EXPECT_EQ(fake.gpm_samples(), 2);
    EXPECT_EQ(fake.initialized(), 1);
  }
  EXPECT_EQ(fake.gpm_samples(), 0);
  EXPECT_EQ(fake.initialized(), 0);
}

TEST(Nvml, leaves_unset_what_an_old_driver_lacks) {
  const auto nvml = load(FAKE_OLD_NVML_PATH);
  const GpuReading reading = nvml->read(0);
  EXPECT_THAT(reading.busy, Optional(0.41));
  EXPECT_EQ(reading.memory_used_bytes, std::nullopt);
  EXPECT_EQ(reading.power_w, std::nullopt);
  EXPECT_EQ(reading.throttle_reasons, std::nullopt);
  EXPECT_TRUE(reading.processes.empty());
  EXPECT_EQ(nvml->driver_version(), "");
  EXPECT_EQ(nvml->name(0), "");
}

TEST(Nvml, survives_a_gpu_that_is_lost) {
  FakeNvml fake;
  const auto nvml = load();
  fake.set("lost", 1);
  EXPECT_EQ(nvml->read(0).busy, std::nullopt);
}

TEST(ThrottleText, names_what_lowers_the_clocks) {
  EXPECT_EQ(throttle_text(0), "");
  EXPECT_EQ(throttle_text(0x1 | 0x2), "") << "idle, and clocks set by the user";
  EXPECT_EQ(throttle_text(0x4 | 0x40), "power cap, thermal (hardware)");
}

TEST(GpuMonitor, averages_its_readings_on_a_thread_of_its_own) {
  FakeNvml fake;
  fake.set("busy", 20);
  std::mutex mutex;
  std::condition_variable changed;
  int readings = 0;
  GpuMonitor monitor(load(), 0, std::chrono::milliseconds(1), [&](const GpuReading&) {
    const std::lock_guard lock(mutex);
    // What the next reading finds.
    fake.set("busy", ++readings == 1 ? 60 : 40);
    fake.set("throttle", readings == 1 ? 4 : 0);
    changed.notify_all();
  });
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return readings >= 3; });
  lock.unlock();
  const GpuUse use = monitor.use();
  ASSERT_GE(use.readings, 3u);
  EXPECT_EQ(use.busy.count, use.readings);
  EXPECT_NEAR(use.busy.mean().value(), 0.4, 1e-9) << "20, 60, 40, 40, …";
  EXPECT_EQ(use.sm_active.count, use.readings - 1) << "the first one is no difference";
  EXPECT_THAT(use.to_string(), HasSubstr("the GPU was busy 40 %, its SMs 2 %"));
  EXPECT_THAT(use.to_string(), HasSubstr("clocks lowered: power cap"));
}

TEST(GpuMonitor, has_nothing_to_say_before_a_reading) { EXPECT_EQ(GpuUse{}.to_string(), ""); }

class Monitor : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::setenv("H5FEED_NVML", FAKE_NVML_PATH, 1), 0); }
  void TearDown() override { ASSERT_EQ(::unsetenv("H5FEED_NVML"), 0); }
};

TEST_F(Monitor, reads_the_gpu_with_a_pci_address) {
  const auto probe = monitor("0000:19:00.0");
  while (probe->use().readings == 0) std::this_thread::yield();
  EXPECT_DOUBLE_EQ(probe->use().busy.mean().value(), 0.42) << "the second GPU of the fake";
}

TEST_F(Monitor, refuses_to_guess_and_names_the_gpus) {
  EXPECT_EQ(h5feed::test::refusal_of<DeviceError>([] { monitor(); }),
            "which GPU to monitor is not said; the driver has 00000000:3B:00.0, 00000000:19:00.0");
  EXPECT_EQ(h5feed::test::refusal_of<DeviceError>([] { monitor("0000:77:00.0"); }),
            "no GPU has the PCI address 0000:77:00.0; the driver has 00000000:3B:00.0, 00000000:19:00.0");
  ASSERT_EQ(::setenv("H5FEED_NVML", "/no/such/library.so", 1), 0);
  EXPECT_THAT(h5feed::test::refusal_of<DeviceError>([] { monitor(); }),
              HasSubstr("it comes with the NVIDIA driver, or set H5FEED_NVML to its path"));
}

}  // namespace
}  // namespace h5feed::gpu
