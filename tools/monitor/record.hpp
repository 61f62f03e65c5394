// SPDX-License-Identifier: Apache-2.0
// The record of a run that `monitor` watched: one series of points for GPUs, machine, process and loaders.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace h5feed::cli {

/// Unit of a recorded quantity. Shares are 0 … 1.
enum class Unit : std::uint8_t { share, bytes, bytes_per_s, samples_per_s, cores, count, watt, celsius, mhz };

/// One GPU at one time. Unset: the driver does not tell.
struct GpuPoint {
  std::optional<double> busy = {}, sm_active = {}, tensor_active = {}, dram_active = {};
  std::optional<double> memory_used_bytes = {}, memory_total_bytes = {};
  std::optional<double> pcie_received_bytes_per_s = {};
  std::optional<double> power_w = {}, temperature_c = {}, sm_clock_mhz = {};
  std::uint64_t throttle_reasons = 0;  ///< Bits of NVML; see `gpu::throttle_text`
};

/// Everything at one time. Unset: not watched, or the kernel does not tell. Rates are means since the point
/// before.
struct Point {
  double time_s = 0;  ///< Seconds since the record began
  std::vector<GpuPoint> gpus = {};

  // The machine.
  std::optional<double> cpu_busy = {};           ///< Share of all its CPUs
  std::optional<double> memory_used_bytes = {};  ///< Memory that could not be given to a new process
  std::optional<double> page_cache_bytes = {};
  std::optional<double> disk_read_bytes_per_s = {}, disk_written_bytes_per_s = {};  ///< All disks together
  std::optional<double> disk_busy = {};   ///< Share of time in which the busiest disk had work
  std::optional<double> io_stalled = {};  ///< Share of time in which some process waited for storage
  std::optional<double> net_received_bytes_per_s = {},
                        net_sent_bytes_per_s = {};  ///< All links but the loopback
  std::optional<double> net_busy = {};  ///< Share of the speed of the fullest link, in the busier direction

  // The watched process and its descendants.
  std::optional<double> process_cores = {};  ///< Busy CPUs
  std::optional<double> process_rss_bytes = {}, processes = {};
  std::optional<double> process_read_bytes_per_s = {}, process_written_bytes_per_s = {};

  // The loaders of the watched processes whose epochs run.
  std::optional<double> loader_wait = {};       ///< Share of time that the training waited for batches; mean
  std::optional<double> loader_wait_read = {};  ///< Part of `loader_wait` for storage
  std::optional<double> loader_samples_per_s = {};  ///< Sum
};

/// A quantity of a `Point` or `GpuPoint`: its name in every output.
template <typename T>
struct Quantity {
  const char* key;     ///< Name in JSON and traces: "machine/cpu_busy"
  const char* metric;  ///< Name for Prometheus, without prefix: "cpu_busy_ratio"
  const char* text;    ///< Words for people: "use of the processor"
  Unit unit;
  std::optional<double> T::*value;
};

/// Returns all quantities of a GPU.
std::span<const Quantity<GpuPoint>> gpu_quantities() noexcept;
/// Returns all quantities of a `Point` that do not belong to a GPU.
std::span<const Quantity<Point>> host_quantities() noexcept;
/// Formats a value with its unit: "41 %", "1.5 GiB/s", "3.2 cores".
std::string value_text(double value, Unit unit);

/// An epoch of one loader of a watched process.
struct LoaderEpoch {
  std::int64_t pid = 0;
  std::int64_t loader = 0;  ///< Number of the loader in its process
  std::int64_t epoch = 0;
  double begin_s = 0, end_s = 0;  ///< Seconds since the record began; the end so far, if not finished
  bool finished = false;
  double samples = 0;
  double wait_share = 0;
  std::string bottleneck = {};           ///< `name_of(Verdict::Cause)`
  std::vector<std::string> advice = {};  ///< What the loader advises
};

/// Facts about a GPU that do not change during a record.
struct GpuFacts {
  unsigned index = 0;  ///< NVML's index
  std::string name, pci_id;
};

/// The record of a run.
struct Record {
  double interval_s = 1;       ///< Time between points
  double started_s = 0;        ///< Seconds since 1970
  std::uint64_t start_ns = 0;  ///< The monotonic clock at the start, as in the traces of loaders
  unsigned cpus = 1;           ///< CPUs that a process may use
  double memory_bytes = 0;     ///< Memory of the machine; 0 if not known
  std::string disk;            ///< Name of the disk that had work for the longest time
  std::vector<GpuFacts> gpus;
  std::vector<Point> points;
  std::vector<LoaderEpoch> epochs;

  /// Halves the points by joining neighbours, if there are more than `most`: rates and shares are averaged,
  /// reasons of throttling united. `interval_s` doubles then.
  void thin(std::size_t most);
};

}  // namespace h5feed::cli
