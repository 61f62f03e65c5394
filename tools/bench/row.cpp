// SPDX-License-Identifier: Apache-2.0
// One row of `bench`, in its own process: measures the loader and its limits in turn.
#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "dataset/dataset_state.hpp"
#include "flow/resolve/tuning_bounds.hpp"
#include "h5feed/data_loader.hpp"
#include "tools/bench/cold.hpp"
#include "tools/bench/limits.hpp"
#include "tools/bench/pages.hpp"
#include "tools/bench/repetition.hpp"
#include "tools/bench/settings.hpp"
#include "tools/measure/busy_elsewhere.hpp"
#include "tools/measure/page_cache.hpp"
#include "tools/measure/sample_facts.hpp"
#include "tools/measure/statistics.hpp"
#include "tools/program/child_process.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/commands.hpp"
#include "tools/program/memory_error.hpp"
#include "tools/program/output.hpp"
#include "tools/program/resources.hpp"

namespace h5feed::cli {
namespace {

// Minimal work of a training step: reads the batch.
void touch(const Batch& batch) {
  if (batch.size() == 0) return;
  const HostTensor& data = batch.sparse.defined() ? batch.sparse.offsets : batch.data;
  [[maybe_unused]] const std::byte first = *static_cast<const volatile std::byte*>(data.bytes.get());
}

// Batches after which self-tuning has settled.
constexpr std::uint64_t kSettledBatches = 50;

class Row {
 public:
  explicit Row(const RowRequest& request)
      : settings_(request.settings),
        num_workers_(request.num_workers),
        cold_(request.cold),
        rate_only_(request.rate_only),
        whole_epochs_(request.whole_epochs),
        dataset_(open_samples(settings_)),
        facts_(dataset_),
        options_(loader_options(request)) {
    const DataLoader loader(dataset_, options_);
    resolved_ = loader.options();
    // A second epoch is measured if it can be served from memory; it reads no page, cold or warm.
    // A later epoch of a mixture may draw what the first one did not.
    fits_cache_ =
        !cold_ && !rate_only_ && !facts_.state().mixture && facts_.all_bytes() <= resolved_.cache_bytes;
    if (facts_.state().mixture) chunk_of_ = mixed_chunks(facts_.state(), loader.plan().sets);
    const std::uint64_t warm_parts = 2U + (rows_readable() ? 1U : 0U) + (fits_cache_ ? 1U : 0U);
    const std::uint64_t parts = rate_only_ ? 1U : cold_ ? 3U : warm_parts;
    slice_ = settings_.time_budget / static_cast<std::int64_t>((settings_.runs + settings_.warmup) * parts);
  }

  // A pass takes at least a window or a chunk, however short its time. If passes take longer than their
  // share, the row ends at its time limit with the passes it has.
  void measure() {
    if (cold_ && facts_.sparse() == nullptr) require_values_in(settings_.file(), *data().reader);
    if (!cold_) load_if_it_fits(settings_);
    const StoredData stored =
        cold_ && !rate_only_ && facts_.sparse() == nullptr ? StoredData(data()) : StoredData();
    end_ = Clock::now() + row_limit();
    const std::uint64_t passes = settings_.warmup + settings_.runs;
    const BusyElsewhere elsewhere;
    for (std::uint64_t i = 0; i < passes; ++i) {
      if (Clock::now() >= end_ && !repetitions_.empty()) break;
      if (!cold_ && i == settings_.warmup && settings_.reads_one_file())
        resident_share_ = resident_share(settings_.file());
      Repetition repetition = run_loader(i);
      Limits limits = cold_ ? cold_limits(stored, i) : warm_limits();
      // If not even the warm-up ended in time, its result counts.
      if (i < settings_.warmup && Clock::now() < end_) continue;
      repetitions_.push_back(std::move(repetition));
      limits_.push_back(limits);
    }
    busy_elsewhere_ = elsewhere.share();
  }

  Json to_json() const {
    return {{"row", row_json()},
            {"limits",
             {{"decode_bytes_per_s", limit(&Limits::decode)},
              {"gather_bytes_per_s", limit(&Limits::gather)},
              {"cold_sequential_bytes_per_s", limit(&Limits::cold_sequential)},
              {"cold_random_bytes_per_s", limit(&Limits::cold_random)}}},
            {"resolved",
             {{"data", data().info().path},
              {"samples", dataset_.size()},
              {"samples_per_epoch", resolved_.samples_per_epoch},
              {"stored_bytes", data().info().stored_bytes},
              {"shuffle", resolved_.shuffle.to_string()},
              {"cache_bytes", resolved_.cache_bytes},
              {"cache_policy", name_of(resolved_.cache_policy)},
              {"memory_budget_bytes", resolved_.memory_budget_bytes}}}};
  }

 private:
  // No pass starts after this limit, and no epoch continues.
  std::chrono::nanoseconds row_limit() const {
    constexpr std::chrono::nanoseconds kLeastGrace = std::chrono::seconds(1);
    return settings_.time_budget + std::max(settings_.time_budget, kLeastGrace);
  }

  // Limits in bytes per second; 0 if a limit does not apply.
  struct Limits {
    double decode = 0;
    double gather = 0;
    double cold_sequential = 0;
    double cold_random = 0;
  };

  Limits warm_limits() const {
    if (rate_only_) return {};
    const LimitSetup setup{.threads = threads(),
                           .slot_bytes = usual_prefetch(resolved_) * batch_rows() *
                                         static_cast<std::uint64_t>(facts_.data_bytes()),
                           .duration = slice_,
                           .skip_bad = options_.on_error != OnError::fail,
                           .chunk_of = chunk_of_};
    return {.decode = measure_decode_limit(data(), facts_.sparse(), setup),
            .gather = rows_readable() ? measure_gather_limit(data(), setup) : 0};
  }

  Limits cold_limits(const StoredData& stored, std::uint64_t number) {
    if (stored.empty()) return {};
    ColdSetup setup{
        .file = settings_.file(), .seed = settings_.loader.seed.value_or(0) + number, .duration = slice_};
    const ColdRate sequential = measure_cold_limit(stored, setup);
    setup.order = resolved_.row_reads ? ColdOrder::random_rows : ColdOrder::random_chunks;
    // One read for each worker, and those that run ahead of decoding.
    setup.depth = threads() + static_cast<unsigned>(resolved_.io_depth);
    const ColdRate random = measure_cold_limit(stored, setup);
    note_resident(std::max(sequential.resident_share, random.resident_share));
    return {.cold_sequential = sequential.bytes_per_s, .cold_random = random.bytes_per_s};
  }

  // Self-tuning may have less than the usable cores.
  unsigned threads() const {
    const auto most = static_cast<unsigned>(decoding_threads(num_workers_));
    return resolved_.self_tuning ? std::clamp(static_cast<unsigned>(resolved_.cpu_limit), 1U, most) : most;
  }

  // Returns why the row has no limit to compare with; null if it has one, or if none was asked for.
  Json no_limit() const {
    if (rate_only_) return {};
    if (!facts_.limits_comparable())
      return "the target or a field is decoded in addition to the data, whose limit alone is measured";
    return cold_ && facts_.sparse() != nullptr ? Json("bare reads of sparse matrices are not measured")
                                               : Json();
  }

  // Returns null if the limit does not apply.
  Json limit(double Limits::*member) const {
    std::vector<double> rates;
    for (const Limits& limits : limits_) rates.push_back(limits.*member);
    const double rate = median(std::move(rates));
    return rate > 0 ? Json(rate) : Json();
  }

  void note_resident(double share) { resident_share_ = std::max(resident_share_.value_or(0), share); }

  const Field& data() const { return facts_.data(); }
  bool rows_readable() const { return data().reader->rows_readable(); }
  std::uint64_t batch_rows() const {
    return static_cast<std::uint64_t>(std::min(resolved_.batch_size, dataset_.size()));
  }

  // Runs as many first epochs, each of a fresh loader with an empty cache, as fit in the time; at least one.
  // Only an epoch longer than the time is cut, so that chunks decoded ahead of the cut do not distort the
  // results of small files.
  Repetition run_loader(std::uint64_t number) {
    Repetition repetition;
    reset_peak_rss();
    const double slice_s = std::chrono::duration<double>(slice_).count();
    const Clock::time_point start = Clock::now();
    constexpr double kNever = std::numeric_limits<double>::infinity();
    const double whole_s = std::chrono::duration<double>(row_limit()).count();
    double epoch_s = run_epoch(number, whole_epochs_ ? whole_s : slice_s, repetition);
    // Time to drop pages is not part of an epoch, but counts towards the time limit.
    while ((cold_ ? seconds_since(start) : repetition.seconds) + epoch_s < slice_s) {
      epoch_s = run_epoch(number, kNever, repetition);
    }
    repetition.peak_rss_bytes = peak_rss_bytes();
    return repetition;
  }

  // Runs one epoch, or as much as fits in `limit_s`, up to the end of a window: within a window, chunks have
  // been decoded whose samples were not yet delivered. A window that goes on beyond the time limit of the row
  // is cut there. Returns the seconds it took.
  double run_epoch(std::uint64_t number, double limit_s, Repetition& repetition) {
    if (cold_) note_resident(drop_pages(settings_.file()));
    const ResourceUsage before = resource_usage();
    const Clock::time_point start = Clock::now();
    DataLoader loader(dataset_, options_);
    loader.set_epoch(number);
    bool complete = false;
    std::uint64_t epoch_samples = 0;
    const std::uint64_t prepared =
        resolved_.self_tuning ? kSettledBatches : std::max<std::uint64_t>(1, resolved_.prefetch_batches);
    std::uint64_t batches = 0, prepared_samples = 0;
    double prepared_s = 0;
    do {
      const Clock::time_point asked = Clock::now();
      const auto batch = loader.next();
      repetition.wait_s += seconds_since(asked);
      complete = !batch.has_value();
      if (complete) break;
      if (batch->number == 0) repetition.first_batch_ms.push_back(seconds_since(start) * 1e3);
      touch(*batch);
      epoch_samples += static_cast<std::uint64_t>(batch->size());
      if (++batches == prepared) {
        prepared_s = seconds_since(start);
        prepared_samples = epoch_samples;
      }
    } while (
        seconds_since(start) < limit_s ||
        (epoch_samples % facts_.window_samples(resolved_.shuffle) >= batch_rows() && Clock::now() < end_));
    const double seconds = seconds_since(start);
    repetition.seconds += seconds;
    repetition.samples += epoch_samples;
    if (batches > prepared) {
      repetition.later_samples += epoch_samples - prepared_samples;
      repetition.later_s += seconds - prepared_s;
    }
    // A complete epoch may have fewer samples: bad ones are left out.
    const double share =
        static_cast<double>(epoch_samples) / static_cast<double>(resolved_.samples_per_epoch);
    if (!complete) repetition.epoch_share = std::min(repetition.epoch_share, share);
    repetition.usage += resource_usage() - before;
    last_ = loader.stats();
    add_counters(last_, repetition);
    if (complete && fits_cache_) run_cached_epochs(loader, seconds, repetition);
    return seconds;
  }

  void add_counters(const LoaderStats& stats, Repetition& repetition) const {
    repetition.decoded_bytes += stats.bytes_decoded + stats.rows_direct * data().map.row_bytes();
    repetition.read_calls += stats.read_calls;
    repetition.read_bytes += stats.bytes_read;
    repetition.cache_hits += stats.cache_hits;
    repetition.cache_misses += stats.cache_misses;
    repetition.rows_direct += stats.rows_direct;
    repetition.samples_skipped += stats.samples_skipped;
    repetition.samples_replaced += stats.samples_replaced;
  }

  // Runs the next epochs of the same loader, for as long as the first one took.
  void run_cached_epochs(DataLoader& loader, double limit_s, Repetition& repetition) const {
    const Clock::time_point start = Clock::now();
    do {
      const auto batch = loader.next();
      if (!batch) continue;
      touch(*batch);
      repetition.cached_samples += static_cast<std::uint64_t>(batch->size());
    } while (seconds_since(start) < limit_s);
    repetition.cached_s += seconds_since(start);
  }

  Json row_json() const {
    std::vector<double> samples_per_s, decoded_bytes_per_s, read_bytes_per_s, first_batch_ms, cached,
        after_start, repetition_s;
    Repetition all;
    for (const Repetition& repetition : repetitions_) {
      samples_per_s.push_back(repetition.samples_per_s());
      repetition_s.push_back(repetition.seconds);
      decoded_bytes_per_s.push_back(repetition.decoded_bytes_per_s());
      read_bytes_per_s.push_back(repetition.read_bytes_per_s());
      first_batch_ms.insert(first_batch_ms.end(), repetition.first_batch_ms.begin(),
                            repetition.first_batch_ms.end());
      if (repetition.cached_s > 0) {
        cached.push_back(static_cast<double>(repetition.cached_samples) / repetition.cached_s);
      }
      if (repetition.later_s > 0) {
        after_start.push_back(static_cast<double>(repetition.later_samples) / repetition.later_s);
      }
      all.seconds += repetition.seconds;
      all.wait_s += repetition.wait_s;
      all.samples += repetition.samples;
      all.decoded_bytes += repetition.decoded_bytes;
      all.cache_hits += repetition.cache_hits;
      all.cache_misses += repetition.cache_misses;
      all.rows_direct += repetition.rows_direct;
      all.samples_skipped += repetition.samples_skipped;
      all.samples_replaced += repetition.samples_replaced;
      all.read_calls += repetition.read_calls;
      all.read_bytes += repetition.read_bytes;
      all.usage += repetition.usage;
      all.peak_rss_bytes = std::max(all.peak_rss_bytes, repetition.peak_rss_bytes);
      all.epoch_share = std::min(all.epoch_share, repetition.epoch_share);
    }
    const auto samples = static_cast<double>(all.samples);
    const auto visits = static_cast<double>(all.cache_hits + all.cache_misses);

    Json row = {{"num_workers", workers_json(num_workers_)},
                {"active_workers", last_.active_workers},
                {"prefetched_batches", last_.prefetched_batches},
                {"reads_in_flight", last_.reads_in_flight},
                {"batch_size", resolved_.batched ? Json(resolved_.batch_size) : Json()},
                {"samples_per_s", median(samples_per_s)},
                {"bytes_per_s", median(samples_per_s) * facts_.data_bytes()}};
    row["page_cache"] = cold_ ? "cold" : "warm";
    row["resident_share"] = resident_share_ ? Json(*resident_share_) : Json();
    const bool comparable = all.decoded_bytes > 0 && facts_.limits_comparable();
    row["no_limit"] = no_limit();
    const auto compare = [&](const std::string& key, const char* name, double Limits::*member, double rate) {
      const Json bytes_per_s = comparable ? limit(member) : Json();
      row[key] = bytes_per_s.is_null() ? Json() : Json(name);
      row[key + "_bytes_per_s"] = bytes_per_s;
      row["share_of_" + key] = bytes_per_s.is_null() ? Json() : Json(rate / bytes_per_s.get<double>());
    };
    compare("limit", resolved_.row_reads ? "gather" : "decode",
            resolved_.row_reads ? &Limits::gather : &Limits::decode, median(decoded_bytes_per_s));
    const bool random = resolved_.shuffle.kind() == Shuffle::Kind::full;
    compare("cold_limit", random ? "random" : "sequential",
            random ? &Limits::cold_random : &Limits::cold_sequential, median(read_bytes_per_s));
    row["epoch_share"] = all.epoch_share;
    row["repetition_s"] = median(repetition_s);
    row["busy_elsewhere"] = busy_elsewhere_ ? Json(*busy_elsewhere_) : Json();
    row["first_batch_ms"] = median(first_batch_ms);
    row["samples_per_s_after_start"] = after_start.empty() ? Json() : Json(median(after_start));
    row["wait_fraction"] = all.wait_s / all.seconds;
    row["cache_hit_rate"] = visits > 0 ? static_cast<double>(all.cache_hits) / visits : 0.0;
    row["samples"] = all.samples;  // of all repetitions, as are the counters
    row["samples_skipped"] = all.samples_skipped;
    row["samples_replaced"] = all.samples_replaced;
    row["rows_direct"] = all.rows_direct;
    row["read_bytes"] = all.read_bytes;
    row["read_calls_per_sample"] = static_cast<double>(all.read_calls) / samples;
    row["read_amplification"] = static_cast<double>(all.decoded_bytes) / (samples * facts_.cached_bytes());
    row["cpu_s_per_1k_samples"] = (all.usage.user_s + all.usage.system_s) / samples * 1e3;
    row["peak_rss_bytes"] = all.peak_rss_bytes;
    row["samples_per_s_cached"] = cached.empty() ? Json() : Json(median(cached));
    row["user_cpu_s"] = all.usage.user_s;
    row["system_cpu_s"] = all.usage.system_s;
    row["voluntary_context_switches"] = all.usage.voluntary_switches;
    row["involuntary_context_switches"] = all.usage.involuntary_switches;
    row["repetitions"] = samples_per_s;
    return row;
  }

  const BenchSettings settings_;
  const std::int64_t num_workers_;
  const bool cold_;
  const bool rate_only_;
  const bool whole_epochs_;
  const Dataset dataset_;
  const SampleFacts facts_;
  const DataLoaderOptions options_;
  ResolvedOptions resolved_;
  std::function<std::uint64_t(std::uint64_t turn)> chunk_of_;  // of a mixture, for its limit
  LoaderStats last_;                                           // of the last epoch
  bool fits_cache_ = false;
  std::chrono::nanoseconds slice_{};
  Clock::time_point end_;  // no pass starts after it, and no epoch continues
  std::vector<Repetition> repetitions_;
  std::vector<Limits> limits_;
  // Cold: the largest share left after a drop; warm: the share before the counted runs.
  std::optional<double> resident_share_;
  std::optional<double> busy_elsewhere_;
};

}  // namespace

int run_bench_row(const std::vector<std::string>& arguments) {
  follow_parent();
  const RowRequest request = row_request_from(arguments);
  // Each loader repeats its warnings; once per command is enough.
  bool said = request.quiet;
  const ScopedLogSink sink([&](LogLevel level, std::string_view line) {
    if (level == LogLevel::warning && !said) say(line);
  });
  return name_where_memory_ends(request.settings.file(), request.settings.dataset.data, [&] {
    Row row(request);
    said = true;
    row.measure();
    print(json_text(row.to_json()));
    return kDone;
  });
}

}  // namespace h5feed::cli
