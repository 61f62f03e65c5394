// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/trial_run.hpp"

#include <fmt/format.h>

#include <csignal>
#include <cstring>

#include "base/clock.hpp"
#include "tools/bench/report.hpp"
#include "tools/monitor/run.hpp"
#include "tools/program/interrupt.hpp"
#include "tools/program/table.hpp"

namespace h5feed::cli {
namespace {

// Readings close enough to each other that a run of some seconds can be judged.
constexpr const char* kInterval = "0.2";

Fault failure_of(const TrialRun& run) {
  Fault fault{
      .name = "command_failed",
      .what = fmt::format("COMMAND ended with exit code {} after {}", run.exit_code, time_text(run.seconds))};
  if (run.exit_code == 128 + SIGKILL) {
    fault.what += " (killed, as the kernel does if memory runs out)";
    fault.mend = {"DataLoader(..., memory_budget_bytes=...)  # less memory",
                  "dmesg | tail  # says who was killed"};
  } else {
    fault.mend = {run.command + "  # alone, and read its messages"};
  }
  return fault;
}

// Returns the samples/s of all loaders while their epochs ran.
double rate_of(const Record& record) {
  double samples = 0, seconds = 0;
  for (const LoaderEpoch& epoch : record.epochs) {
    samples += epoch.samples;
    seconds += epoch.end_s - epoch.begin_s;
  }
  return seconds > 0 ? samples / seconds : 0;
}

}  // namespace

std::string TrialRun::text() const {
  std::string text = cut_short ? fmt::format("ended after {}, when its time was over", time_text(seconds))
                               : fmt::format("exit code {} after {}", exit_code, time_text(seconds));
  if (samples_per_s > 0)
    text += fmt::format("; its loaders delivered {} samples/s", rate_text(samples_per_s));
  if (!starts_loader) text += "; no loader of h5feed told its figures";
  return text + "; " + verdict;
}

Json TrialRun::to_json() const {
  return {{"command", command},
          {"exit_code", exit_code},
          {"cut_short", cut_short},
          {"seconds", seconds},
          {"samples_per_s", samples_per_s > 0 ? Json(samples_per_s) : Json()},
          {"verdict", verdict}};
}

TrialRun try_command(const std::vector<std::string>& command, std::chrono::nanoseconds limit) {
  const MonitorArguments arguments{
      .interval = kInterval, .command = command, .trial = MonitorArguments::Trial{.time_limit = limit}};
  const Clock::time_point start = Clock::now();
  MonitorRun monitored(arguments);
  TrialRun run{.command = command_line(command), .exit_code = monitored.go()};
  if (const int signal = monitored.interrupted_by(); signal != 0) throw Interrupted(signal);
  run.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  run.cut_short = monitored.cut_short();
  run.starts_loader = !monitored.record().epochs.empty();
  run.samples_per_s = rate_of(monitored.record());
  run.verdict =
      monitored.diagnosis().judged ? monitored.diagnosis().verdict : "it was too short to be judged";
  if (run.exit_code != 0 && !run.cut_short) run.faults.push_back(failure_of(run));
  for (const Finding& finding : monitored.diagnosis().findings)
    run.faults.push_back({Severity::serious, finding.name, finding.what, finding.advice});
  return run;
}

}  // namespace h5feed::cli
