// SPDX-License-Identifier: Apache-2.0
// h5feed env: prints what h5feed finds on this machine, for bug reports and performance questions.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_units.hpp"
#include "base/system_limits.hpp"
#include "cuda/nvml/nvml.hpp"
#include "h5feed/config.hpp"
#include "store/filters/filters.hpp"
#include "store/hdf5/h5_file.hpp"
#include "tools/gpu/gpu_text.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/commands.hpp"
#include "tools/program/machine.hpp"
#include "tools/program/output.hpp"

namespace h5feed::cli {
namespace {

struct EnvArguments {
  bool json = false;
};

Json build_json() {
  return {{"h5feed", H5FEED_VERSION},
          {"commit", H5FEED_COMMIT},
          {"compiler", __VERSION__},
          {"cuda_path_built", H5FEED_HAS_CUDA != 0},
          {"image_codecs_built", H5FEED_HAS_OPENCV != 0}};
}

// Lists filters by name: those that h5feed decodes on many threads, and those that only libhdf5 decodes, one
// at a time.
Json hdf5_json() {
  const LibHdf5 facts = libhdf5_facts();
  Json own = Json::array(), by_plugin = Json::array(), missing = Json::array();
  for (const unsigned id : named_filters()) {
    (has_own_decoder(id)      ? own
     : libhdf5_has_filter(id) ? by_plugin
                              : missing)
        .push_back(std::string(filter_name(id)));
  }
  return {{"version", facts.version},
          {"compiled_with", facts.header_version},
          {"thread_safe", facts.thread_safe},
          {"plugin_folders", facts.plugin_folders},
          {"filters",
           {{"decoded_by_h5feed", own}, {"only_through_libhdf5", by_plugin}, {"not_available", missing}}}};
}

// Lists the NUMA nodes that have memory: number, CPUs, bytes.
Json numa_json() {
  Json nodes = Json::array();
  for (int node = 0;; ++node) {
    const std::filesystem::path folder = fmt::format("/sys/devices/system/node/node{}", node);
    std::error_code error;
    if (!std::filesystem::exists(folder, error)) break;
    std::string cpus;
    std::getline(std::ifstream(folder / "cpulist") >> std::ws, cpus);
    Json bytes;
    std::ifstream memory(folder / "meminfo");
    for (std::string line; std::getline(memory, line);) {
      const auto at = line.find("MemTotal:");
      if (at == std::string::npos) continue;
      bytes = std::strtoull(line.c_str() + at + 9, nullptr, 10) * 1024;
    }
    nodes.push_back({{"node", node}, {"cpus", cpus}, {"memory_bytes", bytes}});
  }
  return nodes;
}

Json driver_json() {
  std::string why;
  const std::shared_ptr<gpu::Nvml> nvml = gpu::Nvml::load({}, why);
  if (!nvml) return {{"driver", nullptr}, {"why_not", why}, {"gpus", Json::array()}};
  Json gpus = Json::array();
  for (unsigned i = 0; i < nvml->count(); ++i) {
    Json json = {{"gpu", i}, {"name", nvml->name(i)}, {"pci_id", nvml->pci_id(i)}};
    json.update(reading_json(nvml->read(i)));
    // Removes values that need two readings.
    for (const char* key : {"sm_active", "tensor_active", "dram_active", "pcie_received_bytes_per_s",
                            "pcie_sent_bytes_per_s"}) {
      json.erase(key);
    }
    gpus.push_back(std::move(json));
  }
  const std::string version = nvml->driver_version();
  return {{"driver", version.empty() ? Json("of unknown version") : Json(version)}, {"gpus", gpus}};
}

std::string names(const Json& list) {
  return list.empty() ? "none" : fmt::format("{}", fmt::join(list.get<std::vector<std::string>>(), " "));
}

std::string gpu_text(const Json& gpu) {
  const auto bytes = [&](const char* key) {
    return gpu[key].is_null() ? "n/a" : format_bytes(gpu[key].get<std::uint64_t>());
  };
  std::string text = fmt::format("GPU {}         {} ({}): {} of {} free\n", gpu["gpu"].get<unsigned>(),
                                 gpu["name"].get<std::string>(), gpu["pci_id"].get<std::string>(),
                                 bytes("memory_free_bytes"), bytes("memory_total_bytes"));
  for (const Json& process : gpu["processes"]) {
    text += fmt::format(
        "  used by     {}{}: {}\n", process["pid"].get<unsigned>(),
        process["name"].is_null() ? "" : " (" + printable(process["name"].get<std::string>()) + ")",
        process["used_bytes"].is_null() ? "n/a" : format_bytes(process["used_bytes"].get<std::uint64_t>()));
  }
  return text;
}

std::string text_of(const Json& json) {
  const Json& hdf5 = json["hdf5"];
  const Json& machine = json["machine"];
  const Json& gpu = json["nvidia"];
  const auto text = [](const Json& value) { return value.get<std::string>(); };
  const auto bytes = [](const Json& value) { return format_bytes(value.get<std::uint64_t>()); };
  std::string out = fmt::format(
      "h5feed        {} ({}), {}\n"
      "HDF5          {} (compiled with {}), {}\n"
      "  on all cores    {}\n"
      "  one at a time   {} (through libhdf5 and its plugins)\n"
      "  not available   {}\n"
      "  plugins from    {}\n"
      "images        {}\n"
      "CPU           {}, {} usable (bound by {})\n"
      "memory        {}, {} available (bound by {})\n"
      "memlock       {}\n",
      text(json["build"]["h5feed"]), text(json["build"]["commit"]),
      json["build"]["cuda_path_built"].get<bool>() ? "with the GPU path" : "without the GPU path",
      text(hdf5["version"]), text(hdf5["compiled_with"]),
      hdf5["thread_safe"].get<bool>() ? "thread-safe" : "not thread-safe (h5feed locks it)",
      names(hdf5["filters"]["decoded_by_h5feed"]), names(hdf5["filters"]["only_through_libhdf5"]),
      names(hdf5["filters"]["not_available"]),
      hdf5["plugin_folders"].empty() ? "none: HDF5_PLUGIN_PATH is not set" : names(hdf5["plugin_folders"]),
      json["build"]["image_codecs_built"].get<bool>() ? "decoded by OpenCV and libjpeg-turbo"
                                                      : "not decoded: h5feed was built without OpenCV",
      text(machine["cpu"]), machine["cores"].get<unsigned>(), text(machine["cores_bound_by"]),
      bytes(machine["memory_bytes"]), bytes(machine["available_bytes"]), text(machine["memory_bound_by"]),
      json["memlock_bytes"].is_null()
          ? "unlimited"
          : bytes(json["memlock_bytes"]) + " (ulimit -l): larger pinned buffers may be refused");
  for (const Json& node : json["numa"]) {
    out += fmt::format("NUMA node {}   CPUs {}, {}\n", node["node"].get<int>(), text(node["cpus"]),
                       node["memory_bytes"].is_null() ? "n/a" : bytes(node["memory_bytes"]));
  }
  out += gpu["driver"].is_null() ? fmt::format("NVIDIA        no driver: {}\n", text(gpu["why_not"]))
                                 : fmt::format("NVIDIA        driver {}\n", text(gpu["driver"]));
  for (const Json& one : gpu["gpus"]) out += gpu_text(one);
  return out;
}

int env(const EnvArguments& arguments) {
  const SystemLimits limits = system_limits();
  const Json json = {{"build", build_json()},
                     {"hdf5", hdf5_json()},
                     {"machine", machine_json()},
                     {"memlock_bytes", limits.lockable_bytes ? Json(*limits.lockable_bytes) : Json()},
                     {"numa", numa_json()},
                     {"nvidia", driver_json()}};
  print(arguments.json ? json_text(json) : text_of(json));
  return kDone;
}

}  // namespace

void add_env(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<EnvArguments>();
  CLI::App* const command = app.add_subcommand("env", "Show the versions, limits and GPUs that h5feed finds");
  command->add_flag("--json", arguments->json, "Print JSON instead of text");
  command->footer(
      "Add the output to bug reports. GPUs are queried through NVIDIA's driver; no CUDA is needed.\n\n"
      "Examples:\n"
      "  h5feed env --json > env.json");
  command->callback([arguments, &action] { action = [arguments] { return env(*arguments); }; });
}

}  // namespace h5feed::cli
