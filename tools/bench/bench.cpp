// SPDX-License-Identifier: Apache-2.0
// h5feed bench: measures how fast a file feeds by number of workers, and how close that is to the machine's
// limits.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_units.hpp"
#include "base/clock.hpp"
#include "base/system_limits.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/config.hpp"
#include "h5feed/error.hpp"
#include "tools/bench/pages.hpp"
#include "tools/bench/peer.hpp"
#include "tools/bench/ranks.hpp"
#include "tools/bench/report.hpp"
#include "tools/bench/settings.hpp"
#include "tools/measure/page_cache.hpp"
#include "tools/program/child_process.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/commands.hpp"
#include "tools/program/interrupt.hpp"
#include "tools/program/machine.hpp"
#include "tools/program/memory_error.hpp"
#include "tools/program/option_text.hpp"
#include "tools/program/output.hpp"
#include "tools/program/progress.hpp"
#include "tools/program/run_bounds.hpp"
#include "tools/storage/image_choice.hpp"

namespace h5feed::cli {
namespace {

struct BenchArguments {
  std::map<std::string, std::string> texts;  // settings as typed, by key
  std::string num_workers;
  bool cold = false;
  bool warm = false;
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
                  printable(device)));
}

BenchSettings make_settings(const BenchArguments& arguments) {
  require_cpu(arguments.device);
  return settings_from(arguments.texts);
}

// Returns 0, 1, 2, 4, … and the number of usable cores, and auto.
std::vector<std::int64_t> default_workers(unsigned cpus) {
  std::vector<std::int64_t> workers = {0};
  for (unsigned n = 1; n < cpus; n *= 2) workers.push_back(n);
  workers.push_back(cpus);
  workers.push_back(kAuto);
  return workers;
}

// Finds errors before the first row, and says what will be read.
std::string plan_text(const BenchSettings& settings, const std::vector<std::int64_t>& workers,
                      const std::vector<bool>& pages) {
  const ScopedLogSink quiet(ignore_log);  // the rows say it
  const auto start = Clock::now();
  const Dataset dataset = name_where_memory_ends(
      settings.file, settings.data, [&] { return open_dataset(dataset_options(settings), "bench"); });
  const std::chrono::duration<double> opening = Clock::now() - start;
  check_interrupted();
  const DatasetInfo& data = DatasetAccess::state(dataset)->data.info();
  name_where_memory_ends(settings.file, data.path, [&] {
    for (const std::int64_t num_workers : workers) {
      DataLoader(dataset, loader_options(settings, num_workers));
    }
  });
  const std::chrono::duration<double> budget = settings.time_budget;
  const std::size_t rows = workers.size() * pages.size();
  return fmt::format(
      "measuring {}:{} ({}, {} stored){}: {} {} of about {:.3g} s, {:.3g} s in all; each pass starts with an "
      "empty cache and reads {}{}",
      printable(settings.file), printable(data.path), data.shape_text(), format_bytes(data.stored_bytes),
      dataset.has_target() ? " with " + printable(DatasetAccess::state(dataset)->target->info().path) : "",
      rows, rows == 1 ? "row" : "rows", budget.count(), budget.count() * static_cast<double>(rows),
      pages_text(pages),
      opening.count() > 1
          ? fmt::format("; opening the file took {:.1f} s, which each row adds", opening.count())
          : "");
}

// Answer of one row's process. If the exit code is not 0, the process has already printed the error.
struct RowOutcome {
  int exit_code = kDone;
  Json answer;
};

RowOutcome run_row(const RowRequest& request, Progress& progress) {
  std::vector<std::string> arguments = to_arguments(request);
  arguments.insert(arguments.begin(), kBenchRowCommand);
  auto last = Clock::now();
  const ChildResult child = run_self(arguments, [&] {
    const auto now = Clock::now();
    progress.advance(std::chrono::duration<double>(now - last).count());
    last = now;
  });
  if (child.signal != 0) {
    throw Error(
        fmt::format("the row num_workers={} was ended by signal {} ({}); a lower --memory-budget-bytes helps "
                    "where memory ran out",
                    workers_text(request.num_workers), child.signal, ::strsignal(child.signal)));
  }
  if (child.exit_code != kDone) return {child.exit_code, {}};
  return {kDone, Json::parse(child.output)};
}

std::vector<std::int64_t> workers_of(const BenchArguments& arguments) {
  return arguments.num_workers.empty() ? default_workers(system_limits().cpus)
                                       : parse_workers("--num-workers", arguments.num_workers);
}

int bench_beside_peer(const BenchArguments& arguments) {
  const std::vector<std::string> peers = parse_peers(arguments.peer);
  PeerRequest request{.settings = make_settings(arguments), .peers = peers};
  request.loader_workers = workers_of(arguments);
  // The peers have no auto.
  if (!arguments.num_workers.empty()) request.peer_workers = request.loader_workers;
  std::erase(request.peer_workers, kAuto);
  if (request.peer_workers.empty()) request.peer_workers = parse_list("--num-workers", kPeerWorkers);
  request.python = arguments.python;
  request.cold = arguments.cold;
  request.scratch = arguments.scratch;
  if (arguments.scratch.empty()) request.scratch = std::filesystem::temp_directory_path();
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
  const BenchSettings settings = make_settings(arguments);
  const std::vector<std::int64_t> workers = workers_of(arguments);
  for (const std::int64_t num_workers : workers) check_threads("--num-workers", num_workers);
  check_export_places(arguments.output, settings.file);
  const std::vector<bool> pages = choose_pages(settings.file, arguments.cold, arguments.warm);
  say(plan_text(settings, workers, pages));

  Json json = {{"file", settings.file},   {"machine", machine_json()},     {"version", H5FEED_VERSION},
               {"commit", H5FEED_COMMIT}, {"settings", to_json(settings)}, {"limits", Json::object()},
               {"rows", Json::array()}};
  json["settings"].erase("file");
  json["settings"]["page_cache"] = pages.size() > 1 ? "both" : pages.front() ? "cold" : "warm";
  Table table = bench_table();
  const bool show_table = !arguments.output.json;
  if (show_table) print(table.header_text());

  const double budget_s = std::chrono::duration<double>(settings.time_budget).count();
  Progress progress("bench", ProgressUnit::seconds,
                    budget_s * static_cast<double>(workers.size() * pages.size()));
  std::string warnings;
  for (const bool cold : pages) {
    std::int64_t most_threads = 0;
    for (const std::int64_t num_workers : workers) {
      RowOutcome outcome = run_row({settings, num_workers, table.rows() > 0, cold}, progress);
      progress.hide();
      if (outcome.exit_code != kDone) return outcome.exit_code;
      const Json& row = outcome.answer.at("row");
      json["rows"].push_back(row);
      for (const auto& [key, value] : outcome.answer.at("resolved").items()) json["settings"][key] = value;
      for (const auto& [key, value] : outcome.answer.at("limits").items()) {
        // Warm rows have no cold limits, and cold rows have only those.
        if (decoding_threads(num_workers) > most_threads &&
            (!value.is_null() || !json["limits"].contains(key))) {
          json["limits"][key] = value;
        }
      }
      most_threads = std::max(most_threads, decoding_threads(num_workers));
      table.add_row(bench_cells(row));
      warnings += row_warnings(row);
      if (show_table) print(table.row_text(table.rows() - 1));
      export_results(arguments.output, table, json);
    }
  }
  if (show_table) {
    const Json& used = json["settings"];
    print('\n' + warnings +
          bench_verdict(json["rows"], used["shuffle"].get<std::string>(),
                        used["cache_policy"].get<std::string>(), used["on_error"].get<std::string>()));
  } else {
    print(json_text(json));
  }
  return kDone;
}

constexpr const char* kBenchFooter =
    R"(Each row runs in its own process, so that its peak memory is its own. A repetition is as many first epochs
as fit in its share of --time-budget, or part of one (whole windows of chunk:K); every epoch uses a new loader
with an empty cache, so that its chunks are decoded. Rates are medians over --runs repetitions, counters are
sums over them.
If the data fits in the cache, "cached samples/s" is the rate of the following epochs, which decode nothing.

A repetition takes at least one window of chunks. No repetition starts after twice the row's time, or one
second more than the row's time if that is longer, whatever --runs says.

The limits are measured in the same process, in turn with the loader, with the same number of threads:
decode = threads that read each chunk, run its filters and copy its rows, without cache, order or queue;
gather = threads that read single random rows of uncompressed data.
"auto" is num_workers = auto; the workers that it used at the end stand beside it. It adapts within the first 50
batches, which are part of its time. Its limits are measured with as many threads as there are usable cores.
"of limit" is the loader's rate of decoding (or of reading rows) divided by the limit; the wait for the first
batch, which cannot be hidden, and the start of the workers are part of the loader's time.

Warm rows start with the file in the page cache if it fits in free memory. Cold rows (--cold) drop its pages
before each pass, limits included, and check that they are gone. Their limits are bare reads of the same
bytes: for sequential and chunk:K, one thread that reads in file order; for full, reads of single chunks, or
of rows if the loader reads rows, with as many reads in flight as the loader has.

--peer measures other loaders of Python in turn with h5feed, on the same samples and batches:
  pytorch   PyTorch's DataLoader over h5py: the file opened for each item; opened once in each worker, one row
            per sample; the whole file in memory; tuned (1 GiB of chunk cache, whole chunks, whole batches)
  spdl      SPDL: threads that read through h5py and decode gzip outside libhdf5
  dali      DALI on the CPU: an external source over h5py; its WebDataset reader
  litdata, ffcv   their own formats
Several names are separated by commas. Where a peer can deliver a given order, a row has the order of h5feed's
first epoch ("the same"), beside those in the peer's own order. Peers that read their own format get a copy of
the samples in --scratch first; the time for it is printed, but not part of the rows.
"samples/s" is that of an epoch, from before the loader is made to the last batch: the time to the first batch
("first batch"), and all others at the rate measured after the start ("after start").
Defaults are batches of 512, 4 workers for the peers and 12 s per row. Starting Python takes additional time:
repetitions are left out if starting would take more than twice a row's time and more than 5 s. A process that
exceeds its time by more than five times the start-up time (at least 2 s) is killed, and its row fails; rows
that read the whole file at their start, or compile, have two minutes more.

--world-size adds up the rates of processes that run at the same time, each for the row's time and at least
one epoch; an epoch that takes more than twice that time is cut short. "read" is the number of bytes that
all processes together read in one epoch, divided by the bytes that the file stores: 1 if each chunk is read
by one process.

Examples:
  h5feed bench train.h5 --target labels
  h5feed bench fashion.h5 --data train/images --target train/labels --num-workers 0,1,2,4 --shuffle chunk:16
  h5feed bench train.h5 --cache-bytes 256MiB --shuffle full --time-budget 10s --export-json bench.json
  h5feed bench train.h5 --num-workers auto
  h5feed bench train.h5 --cold --num-workers 2 --shuffle chunk:16
  h5feed bench train.h5 --shuffle chunk:16 --peer pytorch
  h5feed bench train.h5 --target labels --peer pytorch,spdl,dali --python venv/bin/python
  h5feed bench train.h5 --world-size 1,2,4 --shard by_chunk --shuffle chunk:16
  h5feed bench slides.h5 --tile-size 512 --tile-overlap 64 --tile-edges shift --batch-size 16
  h5feed bench index.h5 --data '*/data' --target '*/target' --sample dataset --input-layout none
  h5feed bench photos.h5 --data encoded_images --image-size 224 --num-workers 2
  h5feed bench text.h5 --data tokens --json)";

void add_field(CLI::App& command, const BenchField& field, std::string& text) {
  text = field.default_text;
  const bool is_file = field.option == "FILE";
  if (field.type.empty() && !is_file) {
    command.add_flag(field.option, text, field.help);
    return;
  }
  CLI::Option* const option = command.add_option(field.option, text, field.help);
  if (!field.type.empty()) option->type_name(field.type);
  if (!text.empty()) option->capture_default_str();
  if (is_file) option->required();
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App* const command =
      app.add_subcommand("bench", "Measure loading speed, and its limits on this machine");
  const auto option = [&](const char* name, std::string& value, const char* help, const char* type) {
    return command->add_option(name, value, help)->type_name(type);
  };
  for (const BenchField& field : dataset_fields()) add_field(*command, field, arguments->texts[field.key]);
  option("--num-workers,--workers", arguments->num_workers,
         "Measure a row for each number, or auto; default: 0, 1, 2, 4 and so on, up to the usable cores, and "
         "auto",
         "N,N,...");
  for (const BenchField& field : loader_fields()) add_field(*command, field, arguments->texts[field.key]);
  command->add_flag("--cold", arguments->cold,
                    "Drop the file's pages before each pass; default: cold and warm rows if the file exceeds "
                    "the free memory");
  command->add_flag("--warm", arguments->warm,
                    "Keep the file's pages in memory; with --cold: rows of both kinds");
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
    const auto given = [&](const char* key) { return !arguments->texts.at(key).empty(); };
    if (given("tile_size") && (!arguments->peer.empty() || arguments->cold)) {
      throw OptionError(
          "--tile-size is measured by itself, with pages in memory; leave out --peer and --cold");
    }
    const bool image_text =
        given("sample") || given("image_size") || given("image_color") || given("image_shapes");
    if (image_text && !arguments->peer.empty()) {
      throw OptionError("--peer reads rows of one dataset; leave out --sample and the --image options");
    }
    if (!arguments->world_size.empty() && !arguments->peer.empty()) {
      throw OptionError("--world-size and --peer exclude each other; use one of them");
    }
    if (arguments->world_size.empty() && command->count("--shard") > 0)
      throw OptionError("--shard needs --world-size");
    if (command->count("--max-bad-share") > 0 && command->count("--on-error") == 0)
      throw OptionError("--max-bad-share needs --on-error skip or replace");
    if (arguments->peer.empty() && command->count("--python") > 0) throw OptionError("--python needs --peer");
    if (arguments->peer.empty() && command->count("--scratch") > 0)
      throw OptionError("--scratch needs --peer");
    if (!arguments->world_size.empty()) {
      action = [arguments] { return bench_ranks(*arguments); };
      return;
    }
    if (arguments->peer.empty()) {
      action = [arguments] { return bench(*arguments); };
      return;
    }
    if (command->count("--batch-size") == 0) arguments->texts["batch_size"] = kPeerBatchSize;
    if (command->count("--time-budget") == 0) arguments->texts["time_budget_s"] = kPeerTimeBudget;
    action = [arguments] { return bench_beside_peer(*arguments); };
  });
}

}  // namespace h5feed::cli
