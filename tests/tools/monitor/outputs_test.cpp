// SPDX-License-Identifier: Apache-2.0
// What h5feed monitor finds in a command and exports, as users run it, on the tests' own NVML.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/files/trace_events.hpp"
#include "support/programs/fake_gpus.hpp"

namespace h5feed::test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class MonitorOutputs : public Gpus {};

TEST_F(MonitorOutputs, take_no_place_that_would_lose_data_or_the_record) {
  ASSERT_EQ(run({"generate", "a.h5", "--samples", "10", "--shape", "3,8,8"}).exit_code, 0);
  const std::string before = content_of("a.h5");
  for (const std::string option : {"-o", "--scalars", "--trace"}) {
    const ProgramResult result = run({"monitor", option, "a.h5", "--", "touch", "started"});
    EXPECT_EQ(result.exit_code, 2) << option;
    EXPECT_THAT(result.err,
                HasSubstr("a.h5 is an HDF5 file and is not replaced; choose another file, or remove it\n"));
  }
  EXPECT_EQ(content_of("a.h5"), before);
  // The timeline is written when the command has ended, and replaces what is there.
  const ProgramResult device = run({"monitor", "--trace", "/dev/null", "--", "touch", "started"});
  EXPECT_EQ(device.exit_code, 1);
  EXPECT_THAT(device.err, HasSubstr("/dev/null: not a regular file; choose another name\n"));
  EXPECT_THAT(names_in(dir_.path()), ElementsAre("a.h5"));
}

TEST_F(MonitorOutputs, names_what_it_found_and_exports_the_record) {
  const ScopedVariable idle("FAKE_NVML_busy", "3");
  // The command ends once there are readings enough to judge by.
  const ProgramResult result =
      run({"monitor", "--interval", "0.1", "-o", "run.jsonl", "--scalars", "scalars.jsonl", "--trace",
           "trace.json", "--listen", "0", "--", "sh", "-c",
           "until [ \"$(grep -c seconds scalars.jsonl)\" -ge 12 ]; do sleep 0.05; done"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("metrics at http://127.0.0.1:"));
  EXPECT_THAT(result.err, HasSubstr("low_average: the GPUs were busy 4 % on average (from "));
  EXPECT_THAT(result.err, HasSubstr("  try: "));
  const json summary = objects_in(content_of("run.jsonl")).back();
  // The machine may be busy with other tests, which is then found as well.
  EXPECT_TRUE(std::ranges::any_of(summary["findings"], [](const json& finding) {
    return finding["finding"] == "low_average" && finding["what"] == "the GPUs were busy 4 % on average";
  })) << summary;
  EXPECT_THAT(summary["verdict"].get<std::string>(), StartsWith("the GPUs were busy 4 % "));

  for (const json& line : objects_in(content_of("scalars.jsonl"))) {
    EXPECT_GT(line["time"], 1.6e9);
    EXPECT_EQ(line["gpu0/busy"], 0.03);
    EXPECT_TRUE(std::ranges::all_of(line, [](const json& value) { return value.is_number(); })) << line;
  }
  const json trace = json::parse(content_of("trace.json"));
  EXPECT_EQ(trace_fault(trace), "");
  const auto has = [&](const std::string& name, const std::string& kind) {
    return std::ranges::any_of(trace["traceEvents"], [&](const json& event) {
      return event["name"] == name && event["ph"] == kind;
    });
  };
  EXPECT_TRUE(has("gpu1/busy", "C"));
  EXPECT_TRUE(has("process/rss_bytes", "C"));
  EXPECT_TRUE(has("low_average", "X"));
}

TEST_F(MonitorOutputs, takes_the_figures_of_loaders_in_its_command) {
  const ProgramResult made =
      run({"generate", "a.h5", "--samples", "200", "--shape", "1,8,8", "--chunk", "10"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const ProgramResult result =
      run({"monitor", "-o", "run.jsonl", "--", H5FEED_PROGRAM, "bench", "a.h5", "--num-workers", "0",
           "--batch-size", "10", "--runs", "1", "--time-budget", "200ms"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const json epochs = objects_in(content_of("run.jsonl")).back()["epochs"];
  ASSERT_FALSE(epochs.empty());
  EXPECT_EQ(epochs[0]["epoch"], 0);
  EXPECT_GT(epochs[0]["samples"], 0);
  EXPECT_GT(epochs[0]["pid"], 0);
}

TEST_F(MonitorOutputs, refuses_outputs_and_addresses_before_anything_is_started) {
  EXPECT_EQ(run({"monitor", "-o", "a", "--trace", "./a", "--", "touch", "started"}).err,
            "./a: named for two outputs; give each a file of its own\n");
  EXPECT_EQ(run({"monitor", "--trace", "none/a", "--", "touch", "started"}).exit_code, 1);
  for (const std::string text : {"", ":", "a", "65536", "::1:9400", "[::1]", ":9400", "localhost:9400"}) {
    const ProgramResult result = run({"monitor", "--listen", text, "--", "touch", "started"});
    EXPECT_EQ(result.exit_code, 2) << text;
    EXPECT_THAT(result.err, StartsWith("--listen")) << text;
  }
  EXPECT_THAT(names_in(dir_.path()), ElementsAre());
}

}  // namespace
}  // namespace h5feed::test
