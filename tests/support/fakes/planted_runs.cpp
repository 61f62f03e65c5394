// SPDX-License-Identifier: Apache-2.0
#include "support/fakes/planted_runs.hpp"

#include <algorithm>
#include <cmath>

namespace h5feed::test {
namespace {

using cli::GpuPoint;
using cli::LoaderEpoch;
using cli::Point;

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr double kDiskLimit = 500e6;

double share(double value) { return std::clamp(value, 0.0, 1.0); }

void scale(std::optional<double>& value, double factor) {
  if (value) *value *= factor;
}

// Epochs of `length_s` each with `gap_s` between them.
void add_epochs(PlantedRun& run, double length_s, double gap_s) {
  run.record.epochs.clear();
  const double end = run.record.points.back().time_s;
  double begin = run.record.points[run.warm].time_s;
  for (std::int64_t number = 0; begin < end; ++number) {
    const double until = std::min(end, begin + length_s);
    run.record.epochs.push_back({.pid = 42,
                                 .loader = 0,
                                 .epoch = number,
                                 .begin_s = begin,
                                 .end_s = until,
                                 .finished = until < end,
                                 .samples = 1e5,
                                 .wait_share = 0.02,
                                 .bottleneck = "consumer"});
    begin += length_s + gap_s;
  }
}

void plant_starvation(PlantedRun& run) {
  const double level = run.between(0.3, 0.65);
  const bool has_loader = !run.record.epochs.empty();
  for (std::size_t i = run.warm; i < run.points(); ++i) {
    Point& point = run.record.points[i];
    run.scale_use(i, level);
    point.cpu_busy = share(run.between(0.93, 1));
    if (has_loader) point.loader_wait = share(1 - level + run.between(-0.05, 0.05));
  }
  for (LoaderEpoch& epoch : run.record.epochs) {
    epoch.bottleneck = "decode";
    epoch.advice = {"4 workers more would feed this model"};
  }
}

void plant_fall(PlantedRun& run) {
  const auto from = run.warm + static_cast<std::size_t>(static_cast<double>(run.points() - run.warm) *
                                                        run.between(0.3, 0.7));
  const double level = run.between(0.4, 0.7);
  for (std::size_t i = from; i < run.points(); ++i) {
    run.scale_use(i, level);
    run.record.points[i].disk_read_bytes_per_s = 3e8 * run.between(0.9, 1.1);
    run.record.points[i].disk_busy = run.between(0.5, 0.7);
  }
}

void plant_silence(PlantedRun& run) {
  if (run.record.gpus.size() < 2) {
    run.record.gpus.push_back({.index = 1, .name = "GPU", .pci_id = "00000000:19:00.0"});
    for (Point& point : run.record.points) point.gpus.push_back(point.gpus.front());
  }
  const auto from = static_cast<std::size_t>(static_cast<double>(run.points()) * run.between(0, 0.8));
  const std::size_t gpu =
      static_cast<std::size_t>(run.between(0, 0.999) * static_cast<double>(run.record.gpus.size()));
  for (std::size_t i = from; i < run.points(); ++i)
    run.record.points[i].gpus[gpu].busy = run.between(0, 0.02);
}

void plant_periods(PlantedRun& run) {
  const auto period = static_cast<std::size_t>(run.between(15, 40));
  const auto pause = static_cast<std::size_t>(run.between(2, 6));
  for (std::size_t i = run.warm + period; i + period < run.points(); ++i) {
    if ((i - run.warm) % period < pause) run.scale_use(i, run.between(0, 0.05));
  }
}

void plant_host_memory(PlantedRun& run) {
  const auto length = static_cast<double>(run.points() - run.warm);
  const double growth = run.between(0.5, 3), loss = run.between(0.35, 0.7);
  for (std::size_t i = run.warm; i < run.points(); ++i) {
    const double progress = static_cast<double>(i - run.warm) / length;
    Point& point = run.record.points[i];
    scale(point.process_rss_bytes, 1 + growth * progress);
    scale(point.memory_used_bytes, 1 + growth * progress);
    scale(point.page_cache_bytes, 1 - 0.8 * progress);
    run.scale_use(i, 1 - loss * progress);
  }
}

void plant_device_memory(PlantedRun& run) {
  const double length_s = run.record.points.back().time_s / run.between(7, 15);
  add_epochs(run, length_s, 0);
  const double step = run.between(0.008, 0.02) * *run.record.points.back().gpus.front().memory_total_bytes;
  for (std::size_t i = run.warm; i < run.points(); ++i) {
    Point& point = run.record.points[i];
    const double epoch = std::floor((point.time_s - run.record.epochs.front().begin_s) / length_s);
    for (GpuPoint& gpu : point.gpus) *gpu.memory_used_bytes += step * epoch;
  }
}

void plant_validation(PlantedRun& run) {
  const double gap_s = run.between(4, 10);
  add_epochs(run, run.between(25, 60), gap_s);
  for (std::size_t i = run.warm; i < run.points(); ++i) {
    const double time = run.record.points[i].time_s;
    const bool within = std::ranges::any_of(run.record.epochs, [&](const LoaderEpoch& epoch) {
      return time > epoch.begin_s && time <= epoch.end_s;
    });
    if (!within) run.scale_use(i, run.between(0, 0.1));
  }
}

void plant_throttling(PlantedRun& run) {
  const auto from = static_cast<std::size_t>(static_cast<double>(run.points()) * run.between(0.2, 0.6));
  for (std::size_t i = from; i < run.points(); ++i) {
    if (run.between(0, 1) < 0.4) continue;
    GpuPoint& gpu = run.record.points[i].gpus.back();
    gpu.throttle_reasons = 0x40;
    scale(gpu.sm_clock_mhz, 0.7);
  }
}

void plant_storage(PlantedRun& run) {
  const double level = run.between(0.3, 0.7);
  for (std::size_t i = run.warm; i < run.points(); ++i) {
    Point& point = run.record.points[i];
    run.scale_use(i, level);
    point.disk_busy = run.between(0.93, 1);
    point.disk_read_bytes_per_s = kDiskLimit * run.between(0.95, 1);
    if (point.loader_wait) {
      point.loader_wait = 1 - level;
      point.loader_wait_read = (1 - level) * 0.9;
    }
  }
}

void plant_low_average(PlantedRun& run) {
  const double level = run.between(0.02, 0.13);
  for (std::size_t i = 0; i < run.points(); ++i) run.scale_use(i, level);
}

}  // namespace

void PlantedRun::scale_use(std::size_t point, double factor) {
  for (GpuPoint& gpu : record.points[point].gpus) scale(gpu.busy, factor);
  scale(record.points[point].loader_samples_per_s, factor);
}

PlantedRun healthy_run(std::uint64_t seed) {
  PlantedRun run;
  run.random.seed(seed * 7919 + 1);
  const auto gpus = static_cast<unsigned>(run.between(1, 8.99));
  const auto points = static_cast<std::size_t>(run.between(200, 900));
  run.warm = static_cast<std::size_t>(run.between(2, 20));
  const double level = run.between(0.88, 0.99), noise = run.between(0.005, 0.04);
  const double rss = run.between(4, 40) * kGiB, used = rss * run.between(1.1, 1.5);
  const double device = run.between(10, 70) * kGiB, reads = run.between(0, 1e8);
  const double clock = run.between(1700, 1980);
  run.record.cpus = 64;
  run.record.memory_bytes = 256 * kGiB;
  run.record.disk = "nvme0n1";
  for (unsigned i = 0; i < gpus; ++i) run.record.gpus.push_back({.index = i, .name = "GPU", .pci_id = ""});
  const bool has_loader = run.between(0, 1) < 0.7;
  std::normal_distribution<double> normal(0, noise);
  for (std::size_t i = 0; i < points; ++i) {
    const bool works = i >= run.warm;
    const bool pause = works && run.between(0, 1) < 0.005;
    const double since_warm = works ? static_cast<double>(i - run.warm) : 0;
    Point point{.time_s = static_cast<double>(i)};
    for (unsigned gpu = 0; gpu < gpus; ++gpu) {
      point.gpus.push_back({.busy = works ? share((pause ? 0.3 : level) + normal(run.random)) : 0,
                            .memory_used_bytes = works ? device * run.between(0.997, 1) : kGiB,
                            .memory_total_bytes = 139 * kGiB,
                            .temperature_c = 70 - 30 * std::exp(-since_warm / 60),
                            .sm_clock_mhz = clock * run.between(0.97, 1),
                            // A GPU at full load may touch its power cap.
                            .throttle_reasons = run.between(0, 1) < 0.3 ? 0x4U : 0U});
    }
    point.cpu_busy = share(0.3 + normal(run.random));
    point.memory_used_bytes = used * run.between(0.98, 1) * (works ? 1 : 0.5);
    point.page_cache_bytes = 100 * kGiB * (1 - std::exp(-static_cast<double>(i) / 100));
    // The first epoch reads from the disk, later ones from the page cache.
    const double first_epoch = i < points / 5 ? 1 : 0.05;
    point.disk_read_bytes_per_s = reads * first_epoch * run.between(0.5, 1.5);
    point.disk_busy = share(0.6 * first_epoch * run.between(0.5, 1.5));
    point.process_cores = 12 * run.between(0.9, 1.1);
    point.process_rss_bytes = rss * run.between(0.98, 1) * (works ? 1 : 0.3);
    if (has_loader && works) {
      point.loader_wait = run.between(0, 0.06);
      point.loader_wait_read = *point.loader_wait / 2;
      point.loader_samples_per_s = 5000 * run.between(0.95, 1.05);
    }
    run.record.points.push_back(std::move(point));
  }
  if (has_loader) add_epochs(run, run.between(30, 120), run.between(0, 0.5));
  return run;
}

const std::vector<Fault>& faults() {
  static const std::vector<Fault> all = {{"starved_gpu", plant_starvation},
                                         {"fall_of_use", plant_fall},
                                         {"silent_gpu", plant_silence},
                                         {"periodic_idling", plant_periods},
                                         {"host_memory_rises", plant_host_memory},
                                         {"device_memory_rises", plant_device_memory},
                                         {"validation_gaps", plant_validation},
                                         {"throttling", plant_throttling},
                                         {"storage_at_limit", plant_storage},
                                         {"low_average", plant_low_average}};
  return all;
}

}  // namespace h5feed::test
