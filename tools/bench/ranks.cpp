// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <future>

#include "base/byte_units.hpp"
#include "base/clock.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/config.hpp"
#include "h5feed/error.hpp"
#include "tools/program/child_process.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/commands.hpp"
#include "tools/program/machine.hpp"
#include "tools/program/progress.hpp"
#include "tools/program/run_bounds.hpp"
#include "tools/program/table.hpp"

namespace h5feed::cli {
namespace {

// Runs one rank. The first one tells how the time passes.
ChildResult run_rank(const RowRequest& request, Progress& progress) {
  std::vector<std::string> arguments = to_arguments(request);
  arguments.insert(arguments.begin(), kBenchRowCommand);
  auto last = Clock::now();
  return run_self(arguments, [&] {
    if (request.rank > 0) return;
    const auto now = Clock::now();
    progress.advance(std::chrono::duration<double>(now - last).count());
    last = now;
  });
}

// The answers of all ranks, which run simultaneously. `exit_code` is that of the first rank that failed; the
// rank has printed its error.
struct Answers {
  int exit_code = kDone;
  std::vector<Json> ranks;
};

Answers run_ranks(const RowRequest& request, Progress& progress) {
  std::vector<std::future<ChildResult>> running;
  for (std::int64_t rank = 0; rank < request.world_size; ++rank) {
    RowRequest of_rank = request;
    of_rank.rank = rank;
    of_rank.quiet = request.quiet || rank > 0;
    running.push_back(std::async(std::launch::async, run_rank, of_rank, std::ref(progress)));
  }
  Answers answers;
  for (std::future<ChildResult>& rank : running) {
    const ChildResult child = rank.get();
    if (child.signal != 0) {
      throw Error(fmt::format(
          "a process of world_size={} was ended by signal {}; a lower --memory-budget-bytes helps "
          "where memory ran out",
          request.world_size, child.signal));
    }
    if (child.exit_code != kDone && answers.exit_code == kDone) answers.exit_code = child.exit_code;
    if (child.exit_code == kDone) answers.ranks.push_back(json_from(child.output));
  }
  return answers;
}

Json combined_row(const RowRequest& request, const std::vector<Json>& ranks) {
  double samples_per_s = 0, bytes_per_s = 0, samples = 0, cpu_s = 0, read_per_epoch = 0;
  std::uint64_t peak_rss_bytes = 0;
  for (const Json& rank : ranks) {
    const Json& row = rank.at("row");
    const Json& resolved = rank.at("resolved");
    const double served = row.at("samples").get<double>();
    samples_per_s += row.at("samples_per_s").get<double>();
    bytes_per_s += row.at("bytes_per_s").get<double>();
    samples += served;
    cpu_s += row.at("user_cpu_s").get<double>() + row.at("system_cpu_s").get<double>();
    peak_rss_bytes += row.at("peak_rss_bytes").get<std::uint64_t>();
    const auto share = resolved.at("samples_per_epoch").get<double>();
    read_per_epoch += row.at("read_bytes").get<double>() / served * share /
                      std::max(1.0, resolved.at("stored_bytes").get<double>());
  }
  return {{"world_size", request.world_size},
          {"num_workers", workers_json(request.num_workers)},
          {"shard", request.shard},
          {"samples_per_s", samples_per_s},
          {"bytes_per_s", bytes_per_s},
          {"bytes_read_per_dataset_byte", read_per_epoch},
          {"cpu_s_per_1k_samples", cpu_s / samples * 1e3},
          {"peak_rss_bytes", peak_rss_bytes}};
}

// Compares `row` with `first`, the row with the same number of workers and the first world size.
void compare(const Json& first, Json& row) {
  const auto number = [](const Json& of, const char* key) { return of.at(key).get<double>(); };
  const double speed_up = number(row, "samples_per_s") / number(first, "samples_per_s");
  row["speed_up"] = speed_up;
  row["efficiency"] = speed_up * number(first, "world_size") / number(row, "world_size");
}

Table ranks_table() {
  return Table({{"world_size", true, 10},
                {"num_workers", true, 11},
                {"samples/s", true, 11},
                {"data/s", true, 10},
                {"speed-up", true, 8},
                {"efficiency", true, 10},
                {"read", true, 6},
                {"CPU s/1k", true, 8},
                {"peak memory", true, 11}});
}

std::vector<std::string> cells(const Json& row) {
  return {std::to_string(row.at("world_size").get<std::int64_t>()),
          workers_text(workers_from(row.at("num_workers"))),
          format_count(static_cast<std::uint64_t>(std::llround(row.at("samples_per_s").get<double>()))),
          format_bytes(static_cast<std::uint64_t>(row.at("bytes_per_s").get<double>())),
          fmt::format("{:.2f}", row.at("speed_up").get<double>()),
          fmt::format("{:.0f} %", 100 * row.at("efficiency").get<double>()),
          fmt::format("{:.2f}", row.at("bytes_read_per_dataset_byte").get<double>()),
          fmt::format("{:.3f}", row.at("cpu_s_per_1k_samples").get<double>()),
          format_bytes(row.at("peak_rss_bytes").get<std::uint64_t>())};
}

void check(const RanksRequest& request) {
  const Dataset dataset = open_samples(request.settings);
  const ScopedLogSink quiet(ignore_log);
  for (const std::int64_t world_size : request.world_sizes) {
    if (world_size < 1) throw OptionError("--world-size takes numbers from 1 on");
    for (const std::int64_t num_workers : request.num_workers) {
      DataLoaderOptions options = loader_options(RowRequest{.settings = request.settings,
                                                            .num_workers = num_workers,
                                                            .world_size = world_size,
                                                            .shard = request.shard});
      options.local_world_size = 1;  // too many processes are refused before their shares are
      const PlanReport report = plan(dataset, options);
      // Estimate per process: a cache of its own, and the program.
      constexpr std::uint64_t kProcessBytes = 64 * kMiB;
      const std::uint64_t data_bytes = DatasetAccess::state(dataset)->data.info().total_bytes();
      check_processes("--world-size", world_size, kProcessBytes + std::min(report.cache_bytes, data_bytes));
      check_threads("--num-workers", num_workers);
      check_threads("--world-size times --num-workers", world_size * std::max<std::int64_t>(0, num_workers));
    }
  }
}

}  // namespace

int bench_world_sizes(const RanksRequest& request, const OutputOptions& output) {
  check(request);
  check_export_places(output, request.settings.file());
  Json json = {{"file", request.settings.file()},
               {"machine", machine_json()},
               {"version", H5FEED_VERSION},
               {"commit", H5FEED_COMMIT},
               {"settings", to_json(request.settings)},
               {"rows", Json::array()}};
  const double row_s = std::chrono::duration<double>(request.settings.time_budget).count();
  const std::size_t rows = request.world_sizes.size() * request.num_workers.size();
  say(fmt::format("measuring {}: {} of about {:.3g} s and the start of their processes; warm pages",
                  printable(request.settings.file()),
                  format_counted(static_cast<std::int64_t>(rows), "row", "rows"), row_s));
  Progress progress("bench", ProgressUnit::seconds, row_s * static_cast<double>(rows));
  Table table = ranks_table();
  if (!output.json) print(table.header_text());
  for (const std::int64_t num_workers : request.num_workers) {
    Json first;
    for (const std::int64_t world_size : request.world_sizes) {
      const RowRequest row_request{.settings = request.settings,
                                   .num_workers = num_workers,
                                   .quiet = table.rows() > 0,
                                   .whole_epochs = true,
                                   .world_size = world_size,
                                   .shard = request.shard};
      const Answers answers = run_ranks(row_request, progress);
      progress.hide();
      if (answers.exit_code != kDone) return answers.exit_code;
      Json row = combined_row(row_request, answers.ranks);
      if (first.is_null()) first = row;
      compare(first, row);
      json["rows"].push_back(row);
      table.add_row(cells(row));
      if (!output.json) print(table.row_text(table.rows() - 1));
      export_results(output, table, json);
    }
  }
  if (output.json) print(json_text(json));
  return kDone;
}

}  // namespace h5feed::cli
