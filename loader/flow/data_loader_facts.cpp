// SPDX-License-Identifier: Apache-2.0
// Facts about a run of a loader, for reports and verdicts.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "flow/data_loader_state.hpp"
#include "flow/resolve/advice.hpp"
#include "flow/resolve/host_share.hpp"
#include "flow/resolve/mixture_forecast.hpp"
#include "flow/storage_line.hpp"
#include "h5feed/log.hpp"

namespace h5feed {

std::uint64_t DataLoader::State::next_number() noexcept {
  static std::atomic<std::uint64_t> loaders = 0;
  return loaders.fetch_add(1, std::memory_order_relaxed);
}

SelfTuning::Choice DataLoader::State::in_use() const {
  if (tuning) return tuning->choice();
  return {resolved.options.num_workers, resolved.options.prefetch_batches, resolved.options.io_depth};
}

VerdictFacts DataLoader::State::verdict_facts() const {
  const ResolvedOptions& options = resolved.options;
  const double share = cpu_share(limits, options.local_world_size);
  return {.rank = options.rank,
          .loader = loader_number,
          .data = dataset->data.info().place(),
          .dataset_samples = chosen ? chosen->size() : dataset->num_samples(),
          .num_workers = in_use().workers,
          .usable_cpus = std::max<std::int64_t>(1, std::llround(share)),
          .headroom = headroom,
          .self_tuning = options.self_tuning,
          .cpu_limit = options.self_tuning && options.cpu_limit < share ? std::optional(options.cpu_limit)
                                                                        : std::nullopt,
          .samples = static_cast<std::uint64_t>(options.samples_per_epoch),
          .chunks = static_cast<std::uint64_t>(std::llround(static_cast<double>(options.chunks_per_epoch) *
                                                            dataset->data.map.pieces_in_use())),
          .fit_bytes = cached_data_bytes(*dataset, options),
          .cache_bytes = own_cache ? options.cache_bytes : cache.capacity_bytes(),
          .storage = dataset->remote ? dataset->remote->storage : std::string()};
}

LoaderStats DataLoader::State::counted() const {
  LoaderStats stats = snapshot(counters);
  stats.epoch_ns = epoch_clock.total_ns();
  return stats;
}

DataFacts DataLoader::State::data_facts() const {
  DataFacts facts;
  facts.device = device->name();
  facts.verdict = verdict_facts();
  const std::uint64_t own_budget =
      given_budget.value_or(default_budget_bytes(memory_share(limits, resolved.options.local_world_size)));
  facts.budget_bound_by = resolved.options.memory_budget_bytes > own_budget ? "another loader of the dataset"
                          : given_budget                                    ? "memory_budget_bytes"
                                                                            : limits.memory_bound_by;
  for (std::size_t number = 0; number < dataset->num_fields(); ++number) {
    const Field* const field = dataset->field(number);
    if (field != nullptr && !field->is_resident()) facts.stored_bytes += field->info().stored_bytes;
  }
  std::call_once(forecast_made, [this] {
    if (!rows_are_foreseeable(*dataset, resolved.options)) return;
    const RowForecast rows = forecast_rows(*dataset, resolved.options);
    if (!rows.rough) forecast = rows;
  });
  facts.optimum = forecast;
  if (dataset->mixture) facts.mixture = mixture_line(*dataset->mixture);
  if (resolved.options.echo_factor > 1) facts.mixing = mixing_of(*dataset, resolved.options);
  if (tuning && !headroom) facts.tuning = tuning->summary();
  return facts;
}

void DataLoader::State::publish() {
  if (const std::optional<Verdict> verdict = epoch_log.verdict(counted(), verdict_facts()))
    stats_file.append(*verdict, now_ns());
}

void DataLoader::State::advise_storage() {
  if (storage_advised || !dataset->remote) return;
  const LoaderStats stats = counted();
  if (make_verdict(stats, verdict_facts()).bottleneck != Verdict::Cause::read) return;
  storage_advised = true;
  log(LogLevel::warning, storage_line(*dataset->remote, stats));
}

}  // namespace h5feed
