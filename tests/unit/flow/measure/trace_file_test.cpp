// SPDX-License-Identifier: Apache-2.0
// The file of `trace_path`: valid, complete, bounded.
#include "flow/measure/trace_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>

#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "support/captured_log.hpp"
#include "support/case_step.hpp"
#include "support/files/sample_set.hpp"
#include "support/files/temp_dir.hpp"
#include "support/files/trace_events.hpp"
#include "support/refusal.hpp"

namespace h5feed::test {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

json parsed(const fs::path& path) {
  std::ifstream file(path);
  return json::parse(file);
}

SampleSetSpec gzip_set() { return {.shape = {100, 8, 6}, .chunk_shape = {7, 8, 6}, .gzip = 1}; }

Dataset open(const SampleSet& set) {
  return Dataset::open({.files = {set.path()}, .data = "images", .target = "labels"});
}

// Checks each event as the format says and as the loader writes it, and returns the numbers of stages by
// name.
std::map<std::string, int> check_events(const json& trace) {
  EXPECT_EQ(trace_fault(trace), "");
  std::map<std::string, int> stages;
  std::set<std::int64_t> threads, named;
  for (const json& event : trace.at("traceEvents")) {
    EXPECT_EQ(event.at("pid"), ::getpid());
    const std::int64_t thread = event.at("tid");
    if (event.at("ph") == "M") {
      if (event.at("name") == "thread_name") named.insert(thread);
      continue;
    }
    EXPECT_EQ(event.at("ph"), "X");
    EXPECT_EQ(event.at("cat"), "h5feed");
    EXPECT_GE(event.at("args").at("batch").get<std::int64_t>(), 0);
    threads.insert(thread);
    ++stages[event.at("name")];
  }
  EXPECT_EQ(threads, named);
  return stages;
}

TEST(TraceFileTest, of_two_loaders_is_warned_of) {
  const SampleSet set(gzip_set());
  const TempDir dir;
  const CapturedLog log;
  { const DataLoader first(open(set), {.trace_path = dir / "run.json"}); }
  const DataLoader training(open(set), {.trace_path = dir / "run.json"});
  const DataLoader other(open(set), {.trace_path = dir / "other.json"});
  EXPECT_THAT(log.lines(), testing::IsEmpty());
  const DataLoader validation(open(set), {.trace_path = dir / "." / "run.json"});
  EXPECT_THAT(log.lines(), testing::ElementsAre(testing::HasSubstr(
                               "run.json is that of another loader too; the last one that ends replaces "
                               "it: name a file for each loader")));
}

TEST(TraceFileTest, has_each_stage_of_each_batch) {
  const SampleSet set(gzip_set());
  for (const std::int64_t workers : {0, 2}) {
    const TempDir dir;
    {
      DataLoader loader(open(set),
                        {.batch_size = 10, .num_workers = workers, .trace_path = dir / "run.json"});
      while (loader.next()) {
      }
      EXPECT_FALSE(fs::exists(dir / "run.json")) << "written in the end";
    }
    const json trace = parsed(dir / "run.json");
    const std::map<std::string, int> stages = check_events(trace);
    // With workers, batches of the next epoch may have been begun.
    EXPECT_GE(stages.at("plan"), 10);
    EXPECT_GE(stages.at("gather"), 10);
    EXPECT_EQ(stages.at("wait"), 10);
    EXPECT_GE(stages.at("read+decode"), 15);
    EXPECT_EQ(trace.at("otherData").at("older_stages_left_out"), 0);
    EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), {}), 1) << "no temporary file is left";
  }
}

TEST(TraceFileTest, names_the_thread_that_waits) {
  const SampleSet set(gzip_set());
  const TempDir dir;
  {
    DataLoader loader(open(set), {.batch_size = 10, .num_workers = 1, .trace_path = dir / "run.json"});
    while (loader.next()) {
    }
  }
  std::map<std::int64_t, std::string> names;
  const json trace = parsed(dir / "run.json");
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("name") == "thread_name") names[event.at("tid")] = event.at("args").at("name");
  }
  EXPECT_EQ(names.at(::gettid()), "consumer");
  EXPECT_GE(std::ranges::count(names, "loader", [](const auto& pair) { return pair.second; }), 1);
}

TEST(TraceFileTest, keeps_the_newest_stages) {
  const TempDir dir;
  {
    TraceFile trace(dir / "run.json", nullptr, 64);
    for (std::uint64_t batch = 0; batch < 1000; ++batch) {
      trace.begin(Stage::gather, batch);
      trace.end(Stage::gather, batch);
    }
  }
  const json trace = parsed(dir / "run.json");
  EXPECT_EQ(check_events(trace).at("gather"), 64);
  EXPECT_EQ(trace.at("otherData").at("older_stages_left_out"), 936);
  std::set<std::int64_t> batches;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") batches.insert(event.at("args").at("batch").get<std::int64_t>());
  }
  EXPECT_EQ(*batches.begin(), 936);
  EXPECT_EQ(*batches.rbegin(), 999);
}

TEST(TraceFileTest, keeps_nested_stages_and_those_of_many_threads) {
  constexpr int kBatches = 5000 / static_cast<int>(kCaseStep);
  const TempDir dir;
  {
    TraceFile trace(dir / "run.json", nullptr);
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (std::uint64_t batch = 0; batch < kBatches; ++batch) {
          trace.begin(Stage::wait, batch);
          trace.begin(Stage::plan, batch);
          trace.end(Stage::plan, batch);
          trace.end(Stage::wait, batch);
        }
      });
    }
  }
  const std::map<std::string, int> stages = check_events(parsed(dir / "run.json"));
  EXPECT_EQ(stages.at("wait"), 4 * kBatches);
  EXPECT_EQ(stages.at("plan"), 4 * kBatches);
}

TEST(TraceFileTest, passes_stages_on_to_the_sink) {
  struct Sink final : TraceSink {
    void begin(Stage, std::uint64_t) noexcept override { ++begun; }
    void end(Stage, std::uint64_t) noexcept override { ++ended; }
    std::atomic<int> begun = 0, ended = 0;
  };
  const SampleSet set(gzip_set());
  const TempDir dir;
  const auto sink = std::make_shared<Sink>();
  {
    DataLoader loader(open(set), {.batch_size = 10, .trace = sink, .trace_path = dir / "run.json"});
    while (loader.next()) {
    }
  }
  EXPECT_GE(sink->begun, 40);
  EXPECT_EQ(sink->begun, sink->ended);
  int stages = 0;
  for (const auto& [name, count] : check_events(parsed(dir / "run.json"))) stages += count;
  EXPECT_EQ(stages, sink->ended);
}

TEST(TraceFileTest, each_rank_writes_a_file_of_its_own) {
  const SampleSet set(gzip_set());
  const TempDir dir;
  for (const std::int64_t rank : {0, 1}) {
    DataLoader loader(
        open(set),
        {.batch_size = 10, .seed = 1, .rank = rank, .world_size = 2, .trace_path = dir / "run.json"});
    while (loader.next()) {
    }
  }
  check_events(parsed(dir / "run.rank0.json"));
  check_events(parsed(dir / "run.rank1.json"));
}

TEST(TraceFileTest, refuses_a_path_that_cannot_be_written) {
  const SampleSet set(gzip_set());
  const TempDir dir;
  const auto refused = [&](const fs::path& path) {
    return refusal_in<OptionError>(dir.path(), [&] { DataLoader(open(set), {.trace_path = path}); });
  };
  EXPECT_EQ(
      refused(dir / "none/run.json"),
      "trace_path: none/run.json cannot be written: No such file or directory; name a file in a folder that "
      "exists and may be written");
  fs::create_directory(dir / "folder");
  EXPECT_EQ(
      refused(dir / "folder"),
      "trace_path: folder cannot be written: Is a directory; name a file in a folder that exists and may be "
      "written");
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), S_IRUSR | S_IWUSR), 0);
  EXPECT_EQ(
      refused(dir / "pipe"),
      "trace_path: pipe cannot be written: Operation not supported; name a file in a folder that exists "
      "and may be written");
  EXPECT_TRUE(fs::is_fifo(dir / "pipe")) << "it must not be replaced, as a device must not be";
}

TEST(TraceFileTest, warns_if_it_cannot_be_written_in_the_end) {
  const SampleSet set(gzip_set());
  const TempDir dir;
  fs::create_directory(dir / "folder");
  CapturedLog log;
  {
    DataLoader loader(open(set), {.batch_size = 10, .trace_path = dir / "folder/run.json"});
    while (loader.next()) {
    }
    fs::remove(dir / "folder");
  }
  EXPECT_THAT(
      log.lines(),
      testing::Contains(testing::HasSubstr("folder/run.json cannot be written: No such file or directory")));
}

}  // namespace
}  // namespace h5feed::test
