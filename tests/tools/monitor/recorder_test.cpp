// SPDX-License-Identifier: Apache-2.0
// Records of scripted runs: the tests' own NVML, and files of /proc, /sys and loaders that the tests write.
#include "tools/monitor/recorder.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/files/temp_dir.hpp"
#include "support/files/trace_events.hpp"
#include "tools/monitor/exports.hpp"
#include "tools/monitor/findings.hpp"
#include "tools/monitor/metrics_server.hpp"

namespace h5feed::test {
namespace {

using namespace cli;  // NOLINT: this file tests it
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// What the machine shows at one second of a script.
struct Second {
  double busy0 = 95, busy1 = 95;  // percent
  double memory_used0 = 700;      // of 1000
  double throttle0 = 0;
  double sectors = 0, disk_busy_ms = 0;  // totals
  double host_free_kib = 900'000;        // of 1,000,000
  double rss_bytes = 1e8;
  std::string loader_line = {};
};

/// A run of which a script tells every second. Nothing takes time.
class ScriptedRun : public ::testing::Test {
 protected:
  ScriptedRun() : library_(::dlopen(FAKE_NVML_PATH, RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) throw std::runtime_error(::dlerror());
    set_ = reinterpret_cast<void (*)(const char*, double)>(::dlsym(library_, "fake_nvml_set"));
    reset();
  }
  ~ScriptedRun() override {
    reset();
    ::dlclose(library_);
  }

  void reset() { reinterpret_cast<void (*)()>(::dlsym(library_, "fake_nvml_reset"))(); }

  void write(const std::string& path, const std::string& text) {
    std::string& last = written_[path];
    if (last == text) return;
    if (last.empty()) std::filesystem::create_directories((dir_ / path).parent_path());
    // A new file: some file systems wait for the disk when a file with content is emptied and closed.
    std::filesystem::remove(dir_ / path);
    std::ofstream(dir_ / path) << text;
    last = text;
  }

  // Runs a script of `seconds` seconds and returns what is found.
  Diagnosis run(int seconds, const std::function<Second(int)>& at) {
    std::string why;
    const auto nvml = gpu::Nvml::load(FAKE_NVML_PATH, why);
    EXPECT_TRUE(nvml) << why;
    std::filesystem::create_directories(dir_ / "sys/block/nvme0n1");
    recorder_.emplace(
        RecorderSources{.gpus = {{0, "NVIDIA H200", "00000000:3B:00.0"}, {1, "Tesla T4", "x\"y"}},
                        .stats_file = dir_ / "stats.jsonl",
                        .root = dir_.path()},
        1, 1000, 5'000'000'000);
    for (int i = 0; i < seconds; ++i) {
      const Second second = at(i);
      set_("busy0", second.busy0);
      set_("busy1", second.busy1);
      set_("memory_used0", second.memory_used0);
      set_("throttle0", second.throttle0);
      write("proc/meminfo",
            fmt::format("MemTotal: 1000000 kB\nMemAvailable: {} kB\nBuffers: 0 kB\nCached: 500 kB\n"
                        "Shmem: 100 kB\n",
                        second.host_free_kib));
      write("proc/stat", fmt::format("cpu {} 0 0 {} 0 0 0 0 0 0\n", i * 40, i * 60));
      write("proc/diskstats",
            fmt::format("259 0 nvme0n1 9 0 {} 0 9 0 0 0 0 {} 0\n259 1 nvme0n1p1 9 0 {} 0 9 0 0 0 0 {} 0\n",
                        second.sectors, second.disk_busy_ms, second.sectors, second.disk_busy_ms));
      write("proc/net/dev", fmt::format("Inter-|   Receive\n face |bytes\n    lo: 9 0 0 0 0 0 0 0 9 0\n"
                                        "  eth0: {} 0 0 0 0 0 0 0 {} 0 0\n",
                                        i * 1000, i * 10));
      write("sys/class/net/eth0/speed", "1\n");
      if (!second.loader_line.empty())
        std::ofstream(dir_ / "stats.jsonl", std::ios::app) << second.loader_line << '\n';
      for (unsigned gpu = 0; gpu < 2; ++gpu) recorder_->add(gpu, nvml->read(gpu));
      recorder_->close(
          {.time_s = static_cast<double>(i), .process_cores = 0.5, .process_rss_bytes = second.rss_bytes});
    }
    recorder_->finish();
    return diagnose(recorder_->record());
  }

  static std::vector<std::string> names_of(const Diagnosis& diagnosis) {
    std::vector<std::string> names;
    for (const Finding& finding : diagnosis.findings) names.push_back(finding.name);
    return names;
  }

  // A loader's line at a second of the script: epochs of `length` seconds with `gap` between them.
  static std::string line_at(int i, int length, int gap, double wait_share) {
    const int epoch = i / (length + gap);
    const int within = i % (length + gap);
    if (within > length) return {};
    return fmt::format(R"({{"time": {}, "pid": 42, "loader": 0, "epoch": {}, "finished": {}, "samples": {}, )"
                       R"("seconds": {}, "wait_decode_s": {}, "wait_share": {}, "bottleneck": "decode", )"
                       R"("advice": ["4 workers more would feed this model"]}})",
                       1000 + i, epoch, within == length, within * 100, within, within * wait_share,
                       wait_share);
  }

  TempDir dir_;
  std::map<std::string, std::string> written_;  // by path
  void* const library_;
  void (*set_)(const char*, double) = nullptr;
  std::optional<Recorder> recorder_;
};

TEST_F(ScriptedRun, is_recorded_from_nvml_proc_and_loaders) {
  const Diagnosis diagnosis = run(20, [](int i) {
    return Second{.sectors = i * 2048.0, .disk_busy_ms = i * 250.0, .loader_line = line_at(i, 30, 0, 0.02)};
  });
  EXPECT_THAT(names_of(diagnosis), IsEmpty()) << diagnosis.to_text();
  const Record& record = recorder_->record();
  ASSERT_EQ(record.points.size(), 20U);
  const Point& point = record.points[10];
  EXPECT_DOUBLE_EQ(*point.gpus[0].busy, 0.95);
  EXPECT_EQ(point.gpus[0].memory_used_bytes, 700);
  EXPECT_DOUBLE_EQ(*point.cpu_busy, 0.4);
  EXPECT_EQ(point.memory_used_bytes, 100'000 * 1024.0);
  EXPECT_EQ(point.page_cache_bytes, 400 * 1024.0);
  EXPECT_EQ(point.disk_read_bytes_per_s, 2048 * 512.0) << "the partition does not count again";
  EXPECT_DOUBLE_EQ(*point.disk_busy, 0.25);
  EXPECT_EQ(point.net_received_bytes_per_s, 1000);
  EXPECT_DOUBLE_EQ(*point.net_busy, 0.008);
  EXPECT_NEAR(*point.loader_wait, 0.02, 1e-9);
  EXPECT_EQ(point.loader_samples_per_s, 100);
  EXPECT_EQ(record.points[0].cpu_busy, std::nullopt) << "nothing to compare with";
  EXPECT_EQ(record.disk, "nvme0n1");
  EXPECT_EQ(record.memory_bytes, 1'000'000 * 1024.0);
  ASSERT_EQ(record.epochs.size(), 1U);
  EXPECT_EQ(record.epochs[0].begin_s, 0);
  EXPECT_EQ(record.epochs[0].end_s, 19);
}

TEST_F(ScriptedRun, with_a_fault_shows_it) {
  struct Case {
    const char* name;
    std::function<Second(int)> at;
  };
  const std::vector<Case> cases = {
      {"starved_gpu",
       [](int i) { return Second{.busy0 = 40, .busy1 = 40, .loader_line = line_at(i, 200, 0, 0.6)}; }},
      {"fall_of_use",
       [](int i) {
         const double level = i < 60 ? 95 : 50;
         return Second{.busy0 = level, .busy1 = level};
       }},
      {"silent_gpu", [](int i) { return Second{.busy1 = i < 60 ? 95.0 : 0.0}; }},
      {"periodic_idling",
       [](int i) {
         const double level = i % 20 < 3 ? 0 : 95;
         return Second{.busy0 = level, .busy1 = level};
       }},
      {"host_memory_rises",
       [](int i) {
         return Second{.busy0 = 95 - i * 0.5, .busy1 = 95 - i * 0.5, .rss_bytes = 1e8 + i * 3e6};
       }},
      {"device_memory_rises",
       [](int i) {
         return Second{.memory_used0 = 600.0 + i / 20 * 30, .loader_line = line_at(i, 19, 1, 0.01)};
       }},
      {"validation_gaps",
       [](int i) {
         const double level = i % 30 > 24 ? 2 : 95;
         return Second{.busy0 = level, .busy1 = level, .loader_line = line_at(i, 24, 6, 0.01)};
       }},
      {"throttling", [](int i) { return Second{.throttle0 = i > 60 ? 64.0 : 0.0}; }},
      {"storage_at_limit",
       [](int i) { return Second{.busy0 = 60, .busy1 = 60, .sectors = i * 1e6, .disk_busy_ms = i * 990.0}; }},
      {"low_average", [](int) { return Second{.busy0 = 8, .busy1 = 8}; }},
  };
  for (const Case& each : cases) {
    std::filesystem::remove(dir_ / "stats.jsonl");
    const Diagnosis diagnosis = run(120, each.at);
    ASSERT_FALSE(diagnosis.findings.empty()) << each.name;
    EXPECT_EQ(diagnosis.findings.front().name, each.name) << diagnosis.to_text();
  }
}

TEST_F(ScriptedRun, has_the_advice_of_its_loader) {
  const Diagnosis diagnosis =
      run(30, [](int i) { return Second{.busy0 = 40, .busy1 = 40, .loader_line = line_at(i, 200, 0, 0.6)}; });
  ASSERT_THAT(names_of(diagnosis), ElementsAre("starved_gpu"));
  EXPECT_EQ(diagnosis.verdict,
            "the GPUs were busy 40 %: the training waited for batches 60 % of the time (bottleneck: decode)");
  EXPECT_THAT(diagnosis.findings[0].advice, ElementsAre("4 workers more would feed this model"));
}

TEST_F(ScriptedRun, ignores_lines_of_loaders_that_it_does_not_understand) {
  const std::string deep =
      "{\"time\": 1, \"advice\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  run(4, [&](int i) {
    return Second{.loader_line = std::vector<std::string>{"{", R"({"time": "x", "advice": 3})", "[1]",
                                                          deep}[static_cast<std::size_t>(i)]};
  });
  EXPECT_THAT(recorder_->record().epochs, IsEmpty());
}

TEST_F(ScriptedRun, is_text_for_prometheus_with_every_metric_once) {
  run(3, [](int i) { return Second{.loader_line = line_at(i, 30, 0, 0.02)}; });
  const Record& record = recorder_->record();
  const std::string text = prometheus_text(record, record.points.back());
  EXPECT_THAT(
      text,
      AllOf(
          HasSubstr("# TYPE h5feed_gpu_busy_ratio gauge\n"
                    "h5feed_gpu_busy_ratio{gpu=\"0\",name=\"NVIDIA H200\",pci_id=\"00000000:3B:00.0\"} 0.95\n"
                    "h5feed_gpu_busy_ratio{gpu=\"1\",name=\"Tesla T4\",pci_id=\"x\\\"y\"} 0.95\n"),
          HasSubstr("h5feed_gpu_sm_clock_hertz{gpu=\"0\",name=\"NVIDIA H200\",pci_id=\"00000000:3B:00.0\"} "
                    "1980000000"),
          HasSubstr("\nh5feed_loader_wait_ratio 0.02\n"), Not(HasSubstr("processes"))));
}

TEST_F(ScriptedRun, is_text_that_promtool_accepts) {
  if (std::system("command -v promtool > /dev/null") != 0)
    GTEST_SKIP() << "promtool (package prometheus) is not here";
  run(3, [](int i) { return Second{.loader_line = line_at(i, 30, 0, 0.02)}; });
  std::ofstream(dir_ / "metrics") << prometheus_text(recorder_->record(), recorder_->record().points.back());
  EXPECT_EQ(std::system(("promtool check metrics < " + (dir_ / "metrics").string()).c_str()), 0);
}

TEST_F(ScriptedRun, is_a_timeline_of_counters_epochs_and_findings) {
  const Diagnosis diagnosis =
      run(12, [](int i) { return Second{.busy0 = 8, .busy1 = 8, .loader_line = line_at(i, 5, 0, 0.02)}; });
  const auto trace = nlohmann::json::parse(trace_text(recorder_->record(), diagnosis));
  EXPECT_EQ(trace_fault(trace), "");
  std::size_t counters = 0, slices = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "C") ++counters;
    if (event["ph"] != "X") continue;
    ++slices;
    EXPECT_GE(event["ts"], 5e6) << "the monotonic clock of the start";
  }
  EXPECT_GT(counters, 12U * 10);
  EXPECT_GE(slices, 3U) << "epochs and low_average";
}

TEST_F(ScriptedRun, is_a_timeline_that_shows_findings_which_overlap) {
  Diagnosis diagnosis = run(12, [](int) { return Second{}; });
  diagnosis.findings = {{.name = "starved_gpu", .from_s = 1, .to_s = 5},
                        {.name = "disk_busy", .from_s = 3, .to_s = 9}};
  const auto trace = nlohmann::json::parse(trace_text(recorder_->record(), diagnosis));
  EXPECT_EQ(trace_fault(trace), "");
  std::vector<std::string> names;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X") names.push_back(event["name"]);
  }
  EXPECT_THAT(names, ElementsAre("starved_gpu", "disk_busy"));
}

TEST(ListenAddress, is_the_loopback_unless_one_is_given) {
  EXPECT_EQ(parse_listen("9400").host, "127.0.0.1");
  EXPECT_EQ(parse_listen("9400").port, "9400");
  EXPECT_EQ(parse_listen("0.0.0.0:1").host, "0.0.0.0");
  EXPECT_EQ(parse_listen("[::1]:9400").host, "::1");
}

}  // namespace
}  // namespace h5feed::test
