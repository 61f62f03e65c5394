// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/byte_units.hpp"
#include "store/filters/filters.hpp"
#include "tools/program/table.hpp"
#include "tools/storage/h5py_line.hpp"
#include "tools/storage/hdf5plugin.hpp"
#include "tools/storage/window_plan.hpp"

namespace h5feed::cli {
namespace {

bool needs_plugin(const std::string& filter) { return needs_hdf5plugin(parse_filters(filter, 1)); }

std::string reason(const TuneResult& result, const Trial& best) {
  const Trial& first = fastest(result.trials);
  if (&best == &first) {
    return fmt::format("the fastest, {} samples/s, {} stored",
                       format_count(static_cast<std::uint64_t>(best.samples_per_s())),
                       format_bytes(static_cast<std::uint64_t>(best.size_bytes)));
  }
  return fmt::format("{:.0f} % of the fastest ({} samples/s) at {:.0f} % of its size ({})",
                     100 * best.samples_per_s() / first.samples_per_s(),
                     format_count(static_cast<std::uint64_t>(first.samples_per_s())),
                     100 * best.size_bytes / first.size_bytes,
                     format_bytes(static_cast<std::uint64_t>(best.size_bytes)));
}

std::string command(const TuneResult& result, const Trial& best) {
  return fmt::format("h5feed repack {} NEW.h5 --dataset {} --chunk {} --filter {}",
                     shell_word(result.info.file), shell_word(result.info.path), best.candidate.chunk_rows,
                     best.candidate.filter);
}

// Returns the chunks that h5py's cache has to hold so that it decodes them as often as the loader does: those
// that the order takes samples from at a time, as far as the loader's cache has room for them.
std::uint64_t cached_chunks(const TuneResult& result, std::uint64_t chunk_rows) {
  const RowShape data = {.rows = std::max<std::uint64_t>(1, result.info.rows()),
                         .row_bytes = std::max<std::uint64_t>(1, result.info.row_bytes())};
  const LoaderUse& use = result.use;
  const std::uint64_t all = (data.rows - 1) / chunk_rows + 1;
  const std::uint64_t chunk_bytes = chunk_rows * data.row_bytes;
  std::uint64_t wanted = 1;
  if (!use.window.empty()) {
    wanted = window_cost(data, chunk_rows, {use.window, use.shuffle, use.batch_size, use.cache_bytes})
                 .needed_bytes /
             chunk_bytes;
  } else if (use.shuffle.kind() != Shuffle::Kind::sequential) {
    wanted = use.shuffle.kind() == Shuffle::Kind::full ? all : use.shuffle.window_chunks();
  }
  return std::max<std::uint64_t>(1, std::min({wanted, all, use.cache_bytes / chunk_bytes}));
}

// Returns the equivalent code for a Python writer and reader.
std::string h5py_lines(const TuneResult& result, const Trial& best) {
  std::vector<std::uint64_t> chunk = result.info.shape;
  chunk.front() = best.candidate.chunk_rows;
  const std::uint64_t cached = cached_chunks(result, best.candidate.chunk_rows);
  const std::uint64_t chunk_bytes = best.candidate.chunk_rows * result.info.row_bytes();
  // libhdf5 keeps one chunk at most in a slot, which the number of the chunk determines.
  const std::uint64_t slots = std::max<std::uint64_t>(10'007, 10 * cached + 1);
  const bool plugin = needs_plugin(best.candidate.filter);
  return fmt::format(
      "{}{}\n"
      "h5py.File(\"NEW.h5\", \"r\", rdcc_nbytes={}, rdcc_nslots={})  # {} chunk{}",
      plugin ? "import hdf5plugin\n" : "",
      h5py_line(result.info.path, "values", chunk,
                parse_filters(best.candidate.filter, size_of(result.info.dtype))),
      cached * chunk_bytes, slots, cached, cached == 1 ? "" : "s");
}

}  // namespace

Table tune_table(const TuneResult& result) {
  Table table({{"chunk", true},
               {"filter"},
               {"samples/s", true},
               {"predicted", true},
               {"sample measured", true},
               {"sample predicted", true},
               {"decodes/chunk", true},
               {"size", true},
               {"write", true},
               {"notes"}});
  for (const Trial& trial : result.trials) {
    const auto rate = [](double value) {
      return value > 0 ? format_count(static_cast<std::uint64_t>(std::llround(value))) : std::string("-");
    };
    std::string notes = trial.pareto ? "Pareto" : "";
    if (needs_plugin(trial.candidate.filter)) notes += notes.empty() ? "hdf5plugin" : ", hdf5plugin";
    table.add_row(
        {format_count(trial.candidate.chunk_rows), trial.candidate.filter, rate(trial.samples_per_s()),
         rate(trial.predicted.samples_per_s), rate(trial.sample_measured), rate(trial.sample_predicted),
         trial.predicted.reads_rows ? "rows" : fmt::format("{:.1f}", trial.predicted.decodes_per_chunk),
         format_bytes(static_cast<std::uint64_t>(trial.size_bytes)),
         fmt::format("{:.0f} s", trial.write_seconds), notes});
  }
  return table;
}

Json tune_json(const TuneResult& result) {
  Json rows = Json::array();
  for (const Trial& trial : result.trials) {
    rows.push_back(
        {{"chunk_rows", trial.candidate.chunk_rows},
         {"filter", trial.candidate.filter},
         {"samples_per_s", trial.samples_per_s()},
         {"predicted_samples_per_s", trial.predicted.samples_per_s},
         {"sample_predicted_samples_per_s", trial.sample_predicted},
         {"sample_measured_samples_per_s", trial.sample_measured > 0 ? Json(trial.sample_measured) : Json()},
         {"decodes_per_chunk", trial.predicted.decodes_per_chunk},
         {"decoded_bytes", trial.predicted.decoded_bytes},
         {"reads_rows", trial.predicted.reads_rows},
         {"size_bytes", trial.size_bytes},
         {"write_s", trial.write_seconds},
         {"pareto", trial.pareto},
         {"needs_hdf5plugin", needs_plugin(trial.candidate.filter)}});
  }
  const Trial& best = recommended(result.trials);
  return {{"file", result.info.file},
          {"data", result.info.path},
          {"shape", result.info.shape},
          {"batch_size", result.use.batch_size},
          {"shuffle", result.use.shuffle.to_string()},
          {"cache_bytes", result.use.cache_bytes},
          {"num_workers", result.use.num_workers},
          {"window", result.use.window},
          {"cold", result.cold},
          {"sample_rows", result.sample_rows},
          {"rows", std::move(rows)},
          {"candidates_left_out", result.left_out},
          {"recommended",
           {{"chunk_rows", best.candidate.chunk_rows},
            {"filter", best.candidate.filter},
            {"reason", reason(result, best)},
            {"command", command(result, best)},
            {"h5py", h5py_lines(result, best)}}},
          {"seconds", result.seconds}};
}

std::string tune_verdict(const TuneResult& result) {
  const Trial& best = recommended(result.trials);
  std::string text =
      fmt::format("recommended: chunks of {} samples, {}: {}\n", format_count(best.candidate.chunk_rows),
                  best.candidate.filter, reason(result, best));
  if (needs_plugin(best.candidate.filter)) text += "Python readers need the hdf5plugin package\n";
  if (result.left_out > 0) {
    text += fmt::format("{} further {} left out because time ran out; a longer --time-budget tries all\n",
                        result.left_out, result.left_out == 1 ? "candidate was" : "candidates were");
  }
  return text + fmt::format("\n  {}\n\nin h5py:\n\n{}\n\ntook {:.0f} s\n", command(result, best),
                            h5py_lines(result, best), result.seconds);
}

}  // namespace h5feed::cli
