// SPDX-License-Identifier: Apache-2.0
// h5feed report: one HTML page from what bench, monitor and loaders wrote.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"
#include "store/write/staged_file.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/commands.hpp"
#include "tools/program/output.hpp"
#include "tools/program/progress.hpp"
#include "tools/program/table.hpp"
#include "tools/report/facts.hpp"
#include "tools/report/input.hpp"
#include "tools/report/page.hpp"

namespace h5feed::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostInputs = 8;

struct ReportArguments {
  std::vector<std::string> inputs;
  std::string output;
  bool json = false;
};

// Returns whether a file starts as the pages of this command do.
bool is_page(const fs::path& path) {
  constexpr std::string_view kStart = "<!doctype html>";
  std::ifstream in(path, std::ios::binary);
  std::string start(kStart.size(), '\0');
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  return in.gcount() == static_cast<std::streamsize>(kStart.size()) && start == kStart;
}

// A page replaces another page, but nothing else: neither an input nor data by a slip.
void check_output(const ReportArguments& arguments) {
  const fs::path output = arguments.output;
  std::error_code ignored;
  for (const std::string& input : arguments.inputs) {
    if (fs::equivalent(input, output, ignored))
      throw OptionError(fmt::format("{} is both input and output; choose another file for -o",
                                    printable(arguments.output)));
  }
  if (fs::is_regular_file(output, ignored) && fs::file_size(output, ignored) > 0 && !is_page(output)) {
    throw OptionError(
        fmt::format("{} is no HTML page and is not replaced; choose another file for -o, or remove it",
                    printable(arguments.output)));
  }
  StagedFile(output, true).probe(kMostInputs);
}

void check_inputs(const ReportArguments& arguments) {
  if (arguments.inputs.size() > kMostInputs) {
    throw OptionError(fmt::format("{} inputs are too many for one page; give at most {}",
                                  arguments.inputs.size(), kMostInputs));
  }
  std::error_code ignored;
  for (std::size_t i = 0; i < arguments.inputs.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (arguments.inputs[i] == arguments.inputs[j] ||
          fs::equivalent(arguments.inputs[i], arguments.inputs[j], ignored))
        throw OptionError(
            fmt::format("{} is given twice; give each input once", printable(arguments.inputs[i])));
    }
  }
}

Json lines_json(const std::vector<VerdictLine>& lines) {
  Json json = Json::array();
  for (const VerdictLine& line : lines) json.push_back({{"text", line.text}, {"try", line.advice}});
  return json;
}

// Returns the statements of the page as JSON.
Json summary_of(const std::vector<Input>& inputs, const std::string& output, std::size_t bytes) {
  Json json = {{"page", output}, {"bytes", bytes}, {"inputs", Json::array()}, {"differences", Json::array()}};
  const Input* first = nullptr;
  for (const Input& input : inputs) {
    const InputVerdict verdict = verdict_of(input, first);
    if (first == nullptr && input.kind == Input::Kind::bench) first = &input;
    json["inputs"].push_back({{"file", input.path},
                              {"label", input.label},
                              {"kind", name_of(input.kind)},
                              {"notes", input.notes},
                              {"verdict", lines_json(verdict.lines)},
                              {"findings", lines_json(verdict.findings)}});
  }
  for (const SettingRow& row : settings_of(inputs)) {
    if (!row.differs(inputs)) continue;
    Json values = Json::array();
    for (const auto& value : row.values) values.push_back(value ? Json(*value) : Json());
    json["differences"].push_back({{"setting", row.name}, {"values", values}});
  }
  return json;
}

int report(const ReportArguments& arguments) {
  check_inputs(arguments);
  check_output(arguments);
  std::vector<Input> inputs;
  Progress progress("report", ProgressUnit::items, static_cast<double>(arguments.inputs.size()));
  for (const std::string& path : arguments.inputs) {
    inputs.push_back(read_input(path));
    progress.advance(1);
  }
  progress.hide();
  label_inputs(inputs);
  const std::string page = page_of(inputs);
  write_file(arguments.output, page);
  if (arguments.json) {
    print(json_text(summary_of(inputs, arguments.output, page.size())));
    return kDone;
  }
  std::string text;
  for (const Input& input : inputs) {
    for (const std::string& note : input.notes)
      text += fmt::format("{}: {}\n", printable(input.label), printable(note));
  }
  print(text + fmt::format("wrote {} ({}) from {}\n", printable(arguments.output), format_bytes(page.size()),
                           format_counted(static_cast<std::int64_t>(inputs.size()), "input", "inputs")));
  return kDone;
}

}  // namespace

void add_report(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<ReportArguments>();
  CLI::App* const command = app.add_subcommand(
      "report", "Make one HTML page of results of bench, records of monitor and logs of loaders");
  command
      ->add_option("files", arguments->inputs, "Results of bench, records of monitor, epoch logs of loaders")
      ->required()
      ->type_name("FILE");
  command->add_option("-o,--output", arguments->output, "The page; a page of that name is replaced")
      ->required()
      ->type_name("PAGE.html");
  command->add_flag("--json", arguments->json, "Print what the page says in words as JSON");
  command->footer(
      R"(The page needs no network and no other file: charts of samples/s with the limits of the machine, waiting, cache
hits, decodes per chunk, the stages of each epoch, GPUs and waiting over time, and the verdicts. Several inputs
are drawn over each other, with what differs between them on top. At most 8 inputs and 200 KB.

Inputs: bench --export-json FILE (or --json), monitor -o FILE (or --json), epoch_log of a loader, and the file of
H5FEED_STATS_FILE.

Examples:
  h5feed report bench.json -o bench.html
  h5feed report before.json after.json -o compared.html
  h5feed report bench.json run.jsonl epochs.jsonl -o run.html)");
  command->callback([arguments, &action] { action = [arguments] { return report(*arguments); }; });
}

}  // namespace h5feed::cli
