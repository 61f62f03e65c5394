// SPDX-License-Identifier: Apache-2.0
#include "cuda/nvml/nvml.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "cuda/nvml/nvml_abi.hpp"

namespace h5feed::gpu {
namespace {

using nvml::Device;
using nvml::Result;

/// A function of the library. If this driver does not have it, a call returns kNotSupported.
template <typename Signature>
class Function;
template <typename... Arguments>
class Function<Result(Arguments...)> {
 public:
  Function(void* library, const char* name)
      : call_(reinterpret_cast<Result (*)(Arguments...)>(::dlsym(library, name))) {}
  explicit operator bool() const noexcept { return call_ != nullptr; }
  Result operator()(Arguments... arguments) const noexcept {
    return call_ != nullptr ? call_(arguments...) : nvml::kNotSupported;
  }

 private:
  Result (*call_)(Arguments...);
};

struct Library {
  explicit Library(void* from) : handle(from) {}
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() { ::dlclose(handle); }

  void* const handle;
  Function<Result()> init{handle, "nvmlInit_v2"};
  Function<Result()> shutdown{handle, "nvmlShutdown"};
  Function<Result(char*, unsigned)> driver_version{handle, "nvmlSystemGetDriverVersion"};
  Function<Result(unsigned*)> count{handle, "nvmlDeviceGetCount_v2"};
  Function<Result(unsigned, Device*)> by_index{handle, "nvmlDeviceGetHandleByIndex_v2"};
  Function<Result(Device, char*, unsigned)> name{handle, "nvmlDeviceGetName"};
  Function<Result(Device, nvml::PciInfo*)> pci{handle, "nvmlDeviceGetPciInfo_v3"};
  Function<Result(Device, nvml::Utilization*)> utilization{handle, "nvmlDeviceGetUtilizationRates"};
  Function<Result(Device, nvml::Memory*)> memory{handle, "nvmlDeviceGetMemoryInfo"};
  Function<Result(Device, unsigned*)> power{handle, "nvmlDeviceGetPowerUsage"};
  Function<Result(Device, unsigned long long*)> energy{handle, "nvmlDeviceGetTotalEnergyConsumption"};
  Function<Result(Device, int, unsigned*)> temperature{handle, "nvmlDeviceGetTemperature"};
  Function<Result(Device, int, unsigned*)> clock{handle, "nvmlDeviceGetClockInfo"};
  Function<Result(Device, unsigned long long*)> throttle{handle, "nvmlDeviceGetCurrentClocksThrottleReasons"};
  Function<Result(Device, unsigned*, nvml::ProcessInfo*)> processes{
      handle, "nvmlDeviceGetComputeRunningProcesses_v3"};
  Function<Result(Device, nvml::GpmSupport*)> gpm_support{handle, "nvmlGpmQueryDeviceSupport"};
  Function<Result(nvml::GpmSample*)> gpm_alloc{handle, "nvmlGpmSampleAlloc"};
  Function<Result(nvml::GpmSample)> gpm_free{handle, "nvmlGpmSampleFree"};
  Function<Result(Device, nvml::GpmSample)> gpm_get{handle, "nvmlGpmSampleGet"};
  Function<Result(nvml::GpmMetrics*)> gpm_metrics{handle, "nvmlGpmMetricsGet"};
};

// Two GPM samples of one GPU; metrics are computed from their difference.
struct GpmPair {
  nvml::GpmSample last = nullptr;
  nvml::GpmSample next = nullptr;
  bool has_last = false;
};

// Returns the converted value that `call` writes through its pointer; nullopt if the call fails.
template <typename T, typename Call, typename Convert>
auto asked(Call call, Convert convert) -> std::optional<decltype(convert(T{}))> {
  T raw{};
  if (call(&raw) != nvml::kSuccess) return std::nullopt;
  return convert(raw);
}

double share(unsigned percent) noexcept { return percent / 100.0; }

// Returns whether two PCI addresses name the same GPU: "00000000:19:00.0" equals "0000:19:00.0", in upper or
// lower case.
bool same_address(std::string_view a, std::string_view b) {
  const auto tail = [](std::string_view text) {
    std::string lower(text.substr(std::min(text.size(), text.find_first_not_of('0'))));
    for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);
    return lower;
  };
  return tail(a) == tail(b);
}

}  // namespace

struct Nvml::State {
  explicit State(void* handle) : library(handle) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    for (const GpmPair& pair : gpm) {
      if (pair.last != nullptr) library.gpm_free(pair.last);
      if (pair.next != nullptr) library.gpm_free(pair.next);
    }
    if (initialized) library.shutdown();
  }

  void find_devices() {
    unsigned count = 0;
    if (library.count(&count) != nvml::kSuccess) return;
    for (unsigned i = 0; i < count; ++i) {
      Device device = nullptr;
      if (library.by_index(i, &device) != nvml::kSuccess) continue;
      devices.push_back(device);
      gpm.push_back(open_gpm(device));
    }
  }

  GpmPair open_gpm(Device device) const {
    GpmPair pair;
    nvml::GpmSupport support{1, 0};
    if (library.gpm_support(device, &support) != nvml::kSuccess || support.supported == 0) return pair;
    if (library.gpm_alloc(&pair.last) != nvml::kSuccess) pair.last = nullptr;
    if (library.gpm_alloc(&pair.next) != nvml::kSuccess) pair.next = nullptr;
    return pair;
  }

  void read_processes(Device device, GpuReading& reading) const {
    unsigned count = 0;
    const Result needed = library.processes(device, &count, nullptr);
    if (needed != nvml::kInsufficientSize || count == 0) return;
    count += 8;  // processes may start between the calls
    std::vector<nvml::ProcessInfo> found(count);
    if (library.processes(device, &count, found.data()) != nvml::kSuccess) return;
    for (unsigned i = 0; i < count; ++i) {
      GpuProcess process{found[i].pid, {}};
      if (found[i].used_bytes != nvml::kNotAvailable) process.used_bytes = found[i].used_bytes;
      reading.processes.push_back(process);
    }
  }

  void read_gpm(Device device, GpmPair& pair, GpuReading& reading) const {
    if (pair.last == nullptr || pair.next == nullptr) return;
    if (library.gpm_get(device, pair.next) != nvml::kSuccess) return;
    std::swap(pair.last, pair.next);
    if (!std::exchange(pair.has_last, true)) return;

    constexpr double kMiB = 1024.0 * 1024.0;
    struct Wanted {
      unsigned id;
      double factor;
      std::optional<double>& to;
    };
    const std::array<Wanted, 5> wanted = {{{nvml::kGpmSmUtil, 0.01, reading.sm_active},
                                           {nvml::kGpmTensorUtil, 0.01, reading.tensor_active},
                                           {nvml::kGpmDramUtil, 0.01, reading.dram_active},
                                           {nvml::kGpmPcieTx, kMiB, reading.pcie_sent_bytes_per_s},
                                           {nvml::kGpmPcieRx, kMiB, reading.pcie_received_bytes_per_s}}};
    const auto request = std::make_unique<nvml::GpmMetrics>();
    request->version = 1;
    request->count = static_cast<unsigned>(wanted.size());
    request->sample1 = pair.next;  // the older sample
    request->sample2 = pair.last;
    for (std::size_t i = 0; i < wanted.size(); ++i) request->metrics[i].id = wanted[i].id;
    if (library.gpm_metrics(request.get()) != nvml::kSuccess) return;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const nvml::GpmMetric& metric = request->metrics[i];
      if (metric.result == nvml::kSuccess) wanted[i].to = metric.value * wanted[i].factor;
    }
  }

  Library library;
  bool initialized = false;
  std::vector<Device> devices;
  std::vector<GpmPair> gpm;  // one per device
};

std::string throttle_text(std::uint64_t reasons) {
  // nvmlClocksThrottleReasons of the NVML API Reference Guide.
  static constexpr std::array<std::pair<std::uint64_t, std::string_view>, 6> kReasons = {
      {{0x4, "power cap"},
       {0x8, "slowdown (hardware)"},
       {0x10, "sync boost"},
       {0x20, "thermal (software)"},
       {0x40, "thermal (hardware)"},
       {0x80, "power brake"}}};
  std::vector<std::string_view> words;
  for (const auto& [bit, word] : kReasons) {
    if ((reasons & bit) != 0) words.push_back(word);
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

std::shared_ptr<Nvml> Nvml::load(const std::string& path, std::string& why) {
  const char* const named = std::getenv("H5FEED_NVML");
  std::vector<std::string> files;
  if (!path.empty()) {
    files = {path};
  } else if (named != nullptr && *named != '\0') {
    files = {named};
  } else {
    // Container platforms mount the driver at the second path, which the dynamic linker may not know.
    files = {"libnvidia-ml.so.1", "/usr/local/nvidia/lib64/libnvidia-ml.so.1"};
  }
  void* handle = nullptr;
  std::string reason;
  for (const std::string& file : files) {
    handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) break;
    const char* const text = ::dlerror();
    if (reason.empty()) reason = text != nullptr ? text : file;
  }
  if (handle == nullptr) {
    why = fmt::format(
        "NVML cannot be loaded ({}); it comes with the NVIDIA driver, or set H5FEED_NVML to its path",
        reason);
    return nullptr;
  }
  auto state = std::make_unique<State>(handle);
  const Result result = state->library.init();
  if (result != nvml::kSuccess) {
    why = fmt::format("NVML cannot be initialized (error {}); check nvidia-smi", result);
    return nullptr;
  }
  state->initialized = true;
  state->find_devices();
  return std::shared_ptr<Nvml>(new Nvml(std::move(state)));
}

Nvml::Nvml(std::unique_ptr<State> state) : state_(std::move(state)) {}
Nvml::~Nvml() = default;

unsigned Nvml::count() const { return static_cast<unsigned>(state_->devices.size()); }

std::optional<unsigned> Nvml::find(std::string_view pci_id) const {
  for (unsigned gpu = 0; gpu < count(); ++gpu) {
    if (same_address(this->pci_id(gpu), pci_id)) return gpu;
  }
  return std::nullopt;
}

std::string Nvml::driver_version() const {
  std::array<char, 96> text = {};
  const Result result = state_->library.driver_version(text.data(), static_cast<unsigned>(text.size()));
  return result == nvml::kSuccess ? text.data() : "";
}

std::string Nvml::name(unsigned gpu) const {
  std::array<char, 96> text = {};
  const Result result =
      state_->library.name(state_->devices.at(gpu), text.data(), static_cast<unsigned>(text.size()));
  return result == nvml::kSuccess ? text.data() : "";
}

std::string Nvml::pci_id(unsigned gpu) const {
  nvml::PciInfo info = {};
  return state_->library.pci(state_->devices.at(gpu), &info) == nvml::kSuccess ? info.bus_id : "";
}

GpuReading Nvml::read(unsigned gpu) {
  const Library& library = state_->library;
  const Device device = state_->devices.at(gpu);
  GpuReading reading;
  nvml::Utilization utilization = {};
  if (library.utilization(device, &utilization) == nvml::kSuccess) {
    reading.busy = share(utilization.gpu);
    reading.memory_busy = share(utilization.memory);
  }
  nvml::Memory memory = {};
  if (library.memory(device, &memory) == nvml::kSuccess) {
    reading.memory_total_bytes = memory.total;
    reading.memory_free_bytes = memory.free;
    reading.memory_used_bytes = memory.used;
  }
  constexpr int kGpuSensor = 0, kSmClock = 1, kMemoryClock = 2;
  const auto milli = [](auto raw) { return static_cast<double>(raw) / 1000; };
  const auto as_is = [](auto raw) { return raw; };
  using Large = unsigned long long;
  reading.power_w = asked<unsigned>([&](unsigned* to) { return library.power(device, to); }, milli);
  reading.energy_j = asked<Large>([&](Large* to) { return library.energy(device, to); }, milli);
  reading.temperature_c =
      asked<unsigned>([&](unsigned* to) { return library.temperature(device, kGpuSensor, to); }, as_is);
  reading.sm_clock_mhz =
      asked<unsigned>([&](unsigned* to) { return library.clock(device, kSmClock, to); }, as_is);
  reading.memory_clock_mhz =
      asked<unsigned>([&](unsigned* to) { return library.clock(device, kMemoryClock, to); }, as_is);
  reading.throttle_reasons = asked<Large>([&](Large* to) { return library.throttle(device, to); }, as_is);
  state_->read_processes(device, reading);
  state_->read_gpm(device, state_->gpm[gpu], reading);
  return reading;
}

}  // namespace h5feed::gpu
