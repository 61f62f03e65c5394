// SPDX-License-Identifier: Apache-2.0
// h5feed doctor: looks at machine, file, storage and settings, and at a short run of the training; names what
// slows it down, and what mends that.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/file_list.hpp"
#include "base/system_limits.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/error.hpp"
#include "tools/doctor/examined.hpp"
#include "tools/doctor/file_faults.hpp"
#include "tools/doctor/loader_faults.hpp"
#include "tools/doctor/reading_faults.hpp"
#include "tools/doctor/report.hpp"
#include "tools/doctor/speed.hpp"
#include "tools/doctor/trial_run.hpp"
#include "tools/doctor/tuned.hpp"
#include "tools/measure/time_budget.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/commands.hpp"
#include "tools/program/option_text.hpp"
#include "tools/program/output.hpp"
#include "tools/program/progress.hpp"
#include "tools/program/table.hpp"

namespace h5feed::cli {
namespace {

struct DoctorArguments {
  TypedSettings typed;
  std::string num_workers;
  std::string time_budget = "60s";
  std::vector<std::string> command;
  OutputOptions output;
};

// Settings of `bench` that say how it measures.
constexpr std::array<std::string_view, 6> kOnlyMeasuring = {"runs",       "warmup",    "time_budget_s",
                                                            "trace_path", "epoch_log", "headroom"};

void add(std::vector<Fault>& faults, std::optional<Fault> fault) {
  if (fault) faults.push_back(std::move(*fault));
}

// The first fault of how the samples are stored that other chunks or filters mend; null if there is none.
Fault* fault_of_storage(std::vector<Fault>& faults) {
  constexpr std::array<std::string_view, 5> kMended = {"cut_samples", "unset_chunks", "one_chunk",
                                                       "one_row_chunks", "useless_filter"};
  const auto found = std::ranges::find_if(
      faults, [&](const Fault& fault) { return std::ranges::find(kMended, fault.name) != kMended.end(); });
  return found != faults.end() ? &*found : nullptr;
}

// Lets `tune` find what stores the samples best, if there is time.
void tune_storage(const Examined& examined, unsigned cpus, const TimeBudget& budget,
                  std::vector<Fault>& faults) {
  constexpr std::chrono::seconds kLeast(3), kMost(15);
  constexpr double kShare = 0.4;  // of the time that is left
  Fault* const fault = fault_of_storage(faults);
  const std::chrono::duration<double> left(kShare * budget.left_s(1));
  if (fault == nullptr || left < kLeast) return;
  const auto duration =
      std::min<std::chrono::nanoseconds>(kMost, std::chrono::duration_cast<std::chrono::nanoseconds>(left));
  say(fmt::format("looking for better chunks and filters for at most {:.3g} s",
                  std::chrono::duration<double>(duration).count()));
  if (auto command = tuned_command(examined, cpus, duration))
    fault->mend.insert(fault->mend.begin(), std::move(*command));
}

// A file that cannot be read is not measured.
bool is_readable(const std::vector<Fault>& faults) {
  return std::ranges::none_of(faults, [](const Fault& fault) {
    return fault.name == "damaged" || fault.name == "image_sizes" || fault.name == "not_measured";
  });
}

// Returns what is wrong with data that could not be measured.
Fault fault_of_failure(const Examined& examined) {
  if (auto fault = reading_fault(examined)) return *std::move(fault);
  return {Severity::serious,
          "not_measured",
          "the loader failed while it was measured, with the message above, and read all samples after that",
          {fmt::format("h5feed doctor {}  # once what the message names is mended", examined.typed)}};
}

// Says what samples are damaged that the settings do without, or how to train without them.
void complete_damage(const Examined& examined, const TimeBudget& budget, Checkup& checkup) {
  constexpr double kShare = 0.5;  // of the time
  if (checkup.speed && examined.settings.loader.on_error != OnError::fail) {
    add(checkup.faults, skipped_fault(examined, *checkup.speed, budget.part(kShare)));
    return;
  }
  const auto damaged = std::ranges::find(checkup.faults, "damaged", &Fault::name);
  if (damaged == checkup.faults.end()) return;
  if (auto mend = skip_mend(examined, budget.part(kShare))) damaged->mend.push_back(std::move(*mend));
}

// The share of the time that measuring the settings takes is small, but enough for a stable figure.
std::chrono::nanoseconds time_to_measure(const TimeBudget& budget) {
  return std::min<std::chrono::nanoseconds>(std::chrono::milliseconds(2500), budget.slice(0.1));
}

// Adds what is wrong with the samples, their storage and the settings.
void look_at(const Examined& examined, const TimeBudget& budget, Progress& progress, Checkup& checkup) {
  checkup.faults = file_faults(examined.state(), examined.options);
  // Where settings skip or replace damaged samples, measuring tells whether these are too many.
  if (examined.settings.loader.on_error != OnError::fail)
    std::erase_if(checkup.faults, [](const Fault& fault) { return fault.name == "damaged"; });
  if (!is_readable(checkup.faults)) {
    // The size of images may be why one of them could not be read.
    if (are_encoded_images(examined.state())) {
      auto fault = reading_fault(examined);
      if (fault && fault->name == "image_sizes") checkup.faults = {std::move(*fault)};
    }
  } else {
    std::optional<Speed> with_auto;
    checkup.speed = measure_speed(examined.settings, examined.num_workers, time_to_measure(budget), progress);
    if (checkup.speed && examined.num_workers == 0)
      with_auto = measure_speed(examined.settings, kAuto, time_to_measure(budget), progress);
    if (!checkup.speed) checkup.faults.insert(checkup.faults.begin(), fault_of_failure(examined));
    add(checkup.faults, core_fault(checkup.limits, examined.num_workers));
    add(checkup.faults, worker_fault(examined.num_workers, checkup.speed, with_auto));
    add(checkup.faults, cache_fault(examined.state(), examined.options));
  }
  progress.hide();
  complete_damage(examined, budget, checkup);
  if (is_readable(checkup.faults)) tune_storage(examined, checkup.limits.cpus, budget, checkup.faults);
}

Checkup check_up(const DoctorArguments& arguments, const TimeBudget& budget) {
  Progress progress("doctor", ProgressUnit::seconds, budget.total_s());
  const BenchSettings settings = settings_to_examine(arguments.typed);
  const std::vector<std::filesystem::path> files = expand_files(settings.dataset.files);
  Checkup checkup{.file = settings.file(), .storage = storage_kind(files.front()), .limits = system_limits()};
  try {
    checkup.examined = examine(settings, arguments.typed, arguments.num_workers, checkup.limits);
  } catch (const ChunkError& error) {
    checkup.faults = {opening_fault(files, settings, error)};
  } catch (const FileError& error) {
    if (!std::filesystem::exists(files.front())) throw;  // a misspelled name is not a finding
    checkup.faults = {opening_fault(error)};
  }
  if (checkup.examined) look_at(*checkup.examined, budget, progress, checkup);
  progress.hide();
  if (!arguments.command.empty()) {
    say(fmt::format("running {} for at most {:.3g} s", printable(arguments.command.front()),
                    budget.left_s(1)));
    checkup.trial = try_command(
        arguments.command,
        std::max<std::chrono::nanoseconds>(std::chrono::seconds(1), budget.part(1) - Clock::now()));
    for (const Fault& fault : checkup.trial->faults) checkup.faults.push_back(fault);
  }
  sort_faults(checkup.faults);
  return checkup;
}

int doctor(const DoctorArguments& arguments) {
  const TimeBudget budget(parse_duration("--time-budget", arguments.time_budget));
  const auto file = arguments.typed.texts.find("file");
  check_export_places(arguments.output,
                      file != arguments.typed.texts.end() ? file->second.front() : std::string());
  const Checkup checkup = check_up(arguments, budget);
  const Json json = checkup_json(checkup);
  export_results(arguments.output, checkup_table(checkup), json);
  print(arguments.output.json ? json_text(json) : checkup_text(checkup));
  return checkup.serious() ? kFailed : kDone;
}

constexpr const char* kDoctorFooter =
    R"(Looks at the machine, at how and where the samples are stored, and at the settings of the loader; measures those for
some seconds; and runs COMMAND, if there is one, under the watch of monitor until it ends or the time is over. Each
finding comes with the command or the line of code that mends it, the costliest first. Without settings, those are
supposed that info --write-config starts with: batches of 256, chunk:16, as many workers as the loader chooses.
Give those that you train with, best as the --config file of the training. COMMAND is ended when the time is over;
its output goes to stderr.
Exit code: 0 if nothing serious was found, 1 if something was, or the file cannot be read, or COMMAND failed, 2 for
wrong usage.

Examples:
  h5feed doctor train.h5
  h5feed doctor train.h5 --batch-size 64 --shuffle full --num-workers 4 --cache-bytes 2GiB
  h5feed doctor --config train.json
  h5feed doctor train.h5 --time-budget 2m -- python train.py
  h5feed doctor train.h5 --json)";

}  // namespace

void add_doctor(CLI::App& app, Action& action, std::vector<std::string> tried_command) {
  auto arguments = std::make_shared<DoctorArguments>();
  arguments->command = std::move(tried_command);
  CLI::App* const command =
      app.add_subcommand("doctor", "Find what slows a training down, and what mends it: start here");
  for (const BenchField& field : dataset_fields()) {
    BenchField shown = field;
    if (shown.key == "data") shown.help = "Dataset of samples; default: the one with the most samples";
    if (shown.key == "target") shown.help = "Dataset of targets; default: labels beside the samples";
    arguments->typed.add_option(*command, shown);
  }
  command
      ->add_option("--num-workers,--workers", arguments->num_workers, "Threads that read and decode, or auto")
      ->type_name("N")
      ->default_str("auto");
  for (const BenchField& field : loader_fields()) {
    if (std::ranges::find(kOnlyMeasuring, field.key) != kOnlyMeasuring.end()) continue;
    BenchField shown = field;
    if (shown.key == "shuffle") shown.default_text = "chunk:16";
    arguments->typed.add_option(*command, shown);
  }
  arguments->typed.add_config_options(*command);
  command->add_option("--time-budget", arguments->time_budget, "Time limit for everything, COMMAND included")
      ->type_name("TIME")
      ->capture_default_str();
  add_output_options(*command, arguments->output);
  command->footer(kDoctorFooter);
  command->callback([arguments, &action] {
    arguments->typed.drop_empty();
    action = [arguments] { return doctor(*arguments); };
  });
}

}  // namespace h5feed::cli
