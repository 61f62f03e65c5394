// SPDX-License-Identifier: Apache-2.0
// h5feed bench: measures how fast a file feeds by number of workers, and how close that is to the machine's
// limits.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/scratch_folder.hpp"
#include "base/system_limits.hpp"
#include "base/terminal_text.hpp"
#include "h5feed/error.hpp"
#include "tools/bench/alternate.hpp"
#include "tools/bench/help.hpp"
#include "tools/bench/peer.hpp"
#include "tools/bench/ranks.hpp"
#include "tools/bench/rows.hpp"
#include "tools/bench/settings.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/commands.hpp"
#include "tools/program/option_text.hpp"
#include "tools/program/output.hpp"

namespace h5feed::cli {
namespace {

struct BenchArguments {
  TypedSettings typed;
  std::string num_workers;
  bool cold = false;
  bool warm = false;
  bool rate_only = false;
  std::vector<std::string> sweeps;
  std::vector<std::string> alternate;
  std::string max_loss;
  std::string compare;
  std::string target_rate;
  std::string world_size;
  std::string shard = "strided";
  std::string device = "cpu";
  std::string peer;
  std::string python;
  std::string scratch;
  OutputOptions output;
};

// This program is built without CUDA, so that it runs anywhere.
void require_cpu(const std::string& device) {
  if (device == "cpu" || device == "auto") return;
  throw OptionError(
      fmt::format("--device \"{}\": this program measures delivery to the CPU (cpu, auto); to a GPU: "
                  "tools/gpu_check.sh bench",
                  abridged(printable(device))));
}

BenchSettings make_settings(const BenchArguments& arguments) {
  require_cpu(arguments.device);
  BenchSettings settings = arguments.typed.applied_to({});
  if (settings.file().empty()) throw OptionError("bench: no file; give FILE, or dataset.files in --config");
  require_cpu(settings.loader.device.name());
  if (!settings.loader.seed) settings.loader.seed = 0;
  return settings;
}

// Returns 0, 1, 2, 4, … and the number of usable cores, and auto.
std::vector<std::int64_t> default_workers(unsigned cpus) {
  std::vector<std::int64_t> workers = {0};
  for (unsigned n = 1; n < cpus; n *= 2) workers.push_back(n);
  workers.push_back(cpus);
  workers.push_back(kAuto);
  return workers;
}

// The workers that --num-workers gives, or else the configuration.
std::vector<std::int64_t> workers_of(const BenchArguments& arguments, const BenchSettings& settings) {
  if (!arguments.num_workers.empty()) return parse_workers("--num-workers", arguments.num_workers);
  if (settings.loader.num_workers != 0) return {settings.loader.num_workers};
  return default_workers(system_limits().cpus);
}

int bench_beside_peer(const BenchArguments& arguments) {
  const std::vector<std::string> peers = parse_peers(arguments.peer);
  PeerRequest request{.settings = make_settings(arguments), .peers = peers};
  request.loader_workers = workers_of(arguments, request.settings);
  // The peers have no auto.
  if (!arguments.num_workers.empty()) request.peer_workers = request.loader_workers;
  std::erase(request.peer_workers, kAuto);
  if (request.peer_workers.empty()) request.peer_workers = parse_list("--num-workers", kPeerWorkers);
  request.python = arguments.python;
  request.cold = arguments.cold;
  request.scratch = arguments.scratch;
  if (arguments.scratch.empty()) request.scratch = temporary_place();
  return bench_against_peers(request, arguments.output);
}

int bench_ranks(const BenchArguments& arguments) {
  if (arguments.cold) throw OptionError("--world-size measures warm pages; leave out --cold");
  return bench_world_sizes({.settings = make_settings(arguments),
                            .world_sizes = parse_list("--world-size", arguments.world_size),
                            .num_workers = parse_workers(
                                "--num-workers", arguments.num_workers.empty() ? "1" : arguments.num_workers),
                            .shard = arguments.shard},
                           arguments.output);
}

int bench(const BenchArguments& arguments) {
  RowsRequest request{.settings = make_settings(arguments)};
  request.num_workers = workers_of(arguments, request.settings);
  for (const std::string& text : arguments.sweeps) request.sweeps.push_back(parse_sweep("--sweep", text));
  request.cold = arguments.cold;
  request.warm = arguments.warm;
  request.rate_only = arguments.rate_only;
  if (!arguments.target_rate.empty())
    request.target_rate = parse_real("--target-rate", arguments.target_rate, 1e-3, 1e12);
  request.compare_file = arguments.compare;
  return bench_rows(request, arguments.output);
}

// Returns the arguments of the command line that both sides of --alternate get.
std::vector<std::string> shared_arguments(const BenchArguments& arguments) {
  std::vector<std::string> words;
  for (const auto* fields : {&dataset_fields(), &loader_fields()}) {
    for (const BenchField& field : *fields) {
      const auto given = arguments.typed.texts.find(field.key);
      if (given == arguments.typed.texts.end() || field.key == "time_budget_s") continue;
      for (const std::string& text : given->second) {
        const bool has_text = !field.type.empty();
        words.push_back(field.option == "FILE" ? text : has_text ? field.option + '=' + text : field.option);
      }
    }
  }
  if (!arguments.typed.config.empty()) words.push_back("--config=" + arguments.typed.config);
  for (const std::string& text : arguments.typed.set) words.push_back("--set=" + text);
  words.emplace_back(arguments.cold ? "--cold" : "--warm");
  return words;
}

int bench_sides(const BenchArguments& arguments) {
  AlternateRequest request{.settings = make_settings(arguments), .sides = arguments.alternate};
  const std::vector<std::int64_t> workers =
      arguments.num_workers.empty() && request.settings.loader.num_workers == 0
          ? std::vector<std::int64_t>{system_limits().cpus}
          : workers_of(arguments, request.settings);
  if (workers.size() != 1)
    throw OptionError("--alternate measures one number of workers; give --num-workers one");
  request.arguments = shared_arguments(arguments);
  request.num_workers = workers_text(workers.front());
  if (!arguments.max_loss.empty()) request.max_loss = parse_share("--max-loss", arguments.max_loss);
  return bench_alternate(request, arguments.output);
}

// Throws OptionError if two options are given that exclude each other, or one without the other that it
// needs.
void check_combination(const CLI::App& command, const BenchArguments& arguments) {
  const auto given = [&](const char* name) { return command.count(name) > 0; };
  if (given("--tile-size") && (given("--peer") || given("--cold"))) {
    throw OptionError("--tile-size is measured by itself, with pages in memory; leave out --peer and --cold");
  }
  if (given("--peer") &&
      (given("--sample") || given("--image-size") || given("--image-color") || given("--image-shapes"))) {
    throw OptionError("--peer reads rows of one dataset; leave out --sample and the --image options");
  }
  if (given("--peer") &&
      (given("--config") || given("--set") || given("--field") || given("--target-file"))) {
    throw OptionError("--peer reads rows of one file; leave out --config, --set, --field and --target-file");
  }
  const std::pair<const char*, std::string_view> needs[] = {{"--shard", "--world-size"},
                                                            {"--python", "--peer"},
                                                            {"--scratch", "--peer"},
                                                            {"--max-loss", "--alternate"}};
  for (const auto& [option, other] : needs) {
    if (given(option) && !given(std::string(other).c_str()))
      throw OptionError(fmt::format("{} needs {}", option, other));
  }
  if (given("--max-bad-share") && !given("--on-error") && arguments.typed.config.empty())
    throw OptionError("--max-bad-share needs --on-error skip or replace");
  const char* const modes[] = {"--world-size", "--peer", "--alternate"};
  for (const char* const mode : modes) {
    if (!given(mode)) continue;
    for (const char* const other :
         {"--world-size", "--peer", "--alternate", "--sweep", "--compare", "--target-rate", "--rate-only"}) {
      if (std::string_view(mode) != other && given(other))
        throw OptionError(fmt::format("{} and {} exclude each other; use one of them", mode, other));
    }
  }
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App* const command =
      app.add_subcommand("bench", "Measure loading speed, and its limits on this machine");
  const auto option = [&](const char* name, std::string& value, const char* help, const char* type) {
    return command->add_option(name, value, help)->type_name(type);
  };
  const auto repeated = [&](const char* name, std::vector<std::string>& values, const char* help,
                            const char* type) {
    command->add_option(name, values, help)->type_name(type)->allow_extra_args(false);
  };
  for (const BenchField& field : dataset_fields()) arguments->typed.add_option(*command, field);
  option("--num-workers,--workers", arguments->num_workers,
         "Measure a row for each number, or auto; default: 0, 1, 2, 4 and so on, up to the usable cores, and "
         "auto",
         "N,N,...");
  for (const BenchField& field : loader_fields()) arguments->typed.add_option(*command, field);
  command->add_flag("--cold", arguments->cold,
                    "Drop the file's pages before each pass; default: cold and warm rows if the file exceeds "
                    "the free memory");
  command->add_flag("--warm", arguments->warm,
                    "Keep the file's pages in memory; with --cold: rows of both kinds");
  arguments->typed.add_config_options(*command);
  repeated("--sweep", arguments->sweeps, "Measure rows for each of these values; may be repeated",
           "NAME=V,V");
  option("--target-rate", arguments->target_rate, "Name the cheapest row that feeds this many samples/s",
         "N");
  option("--compare", arguments->compare, "Compare with the --export-json file of an earlier run", "FILE");
  command
      ->add_option("--alternate", arguments->alternate,
                   "Measure two programs or settings in turn, and test whether they differ")
      ->type_name("A B")
      ->expected(2);
  option("--max-loss", arguments->max_loss,
         "With --alternate: exit code 1 if B is slower or needs more CPU time, significantly and by more "
         "than this",
         "SHARE%");
  command->add_flag("--rate-only", arguments->rate_only, "Measure neither the limits nor cached epochs");
  option("--world-size", arguments->world_size,
         "Measure this many processes that share the samples, each with --num-workers threads (default 1)",
         "N,N,...");
  option("--shard", arguments->shard, "How --world-size assigns samples: strided, contiguous or by_chunk",
         "HOW")
      ->capture_default_str();
  option("--device", arguments->device, "cpu or auto; GPUs are measured by tools/gpu_check.sh", "DEVICE")
      ->capture_default_str();
  option("--peer", arguments->peer, "Compare with peers: pytorch, spdl, dali, litdata, ffcv", "NAME,...");
  option("--python", arguments->python, "Python for the peers; default: python3, then /usr/bin/python3",
         "PROGRAM");
  option("--scratch", arguments->scratch,
         "Folder for the copies of --peer; default: the system's for temporary files", "DIR");
  add_output_options(*command, arguments->output);
  command->footer(kBenchFooter);
  command->callback([arguments, command, &action] {
    check_combination(*command, *arguments);
    arguments->typed.drop_empty();
    if (command->count("--world-size") > 0) {
      action = [arguments] { return bench_ranks(*arguments); };
    } else if (command->count("--alternate") > 0) {
      if (command->count("--time-budget") == 0)
        arguments->typed.texts["time_budget_s"] = {kAlternateTimeBudget};
      action = [arguments] { return bench_sides(*arguments); };
    } else if (command->count("--peer") > 0) {
      if (command->count("--batch-size") == 0) arguments->typed.texts["batch_size"] = {kPeerBatchSize};
      if (command->count("--time-budget") == 0) arguments->typed.texts["time_budget_s"] = {kPeerTimeBudget};
      action = [arguments] { return bench_beside_peer(*arguments); };
    } else {
      action = [arguments] { return bench(*arguments); };
    }
  });
}

}  // namespace h5feed::cli
