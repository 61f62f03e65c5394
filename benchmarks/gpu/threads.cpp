// SPDX-License-Identifier: Apache-2.0
// Decoding with all workers, compared with the decode limit of as many threads.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dataset/dataset_state.hpp"
#include "gpu/bench.hpp"
#include "tools/bench/limits.hpp"

namespace h5feed::bench {
namespace {

Row measure(Bench& bench, const char* name, const char* filter) {
  const Dataset data = Dataset::open({.files = {bench.images(filter)}, .data = "images", .target = "labels"});
  DataLoader loader(data, bench.decoding_options(bench.sizes.batch_size));
  const double least_s = std::chrono::duration<double>(bench.sizes.limit_time).count();
  const auto epochs = [&] {
    const std::uint64_t before = loader.stats().bytes_decoded;
    const Seconds clock;
    do {
      while (loader.next()) {
      }
    } while (clock.elapsed() < least_s);
    return static_cast<double>(loader.stats().bytes_decoded - before) / clock.elapsed();
  };
  const auto threads = static_cast<unsigned>(bench.workers);
  const Field& field = DatasetAccess::state(data)->data;
  const cli::LimitSetup setup{.threads = threads,
                              .slot_bytes = (loader.options().prefetch_batches + 1) *
                                            static_cast<std::uint64_t>(bench.sizes.batch_size) *
                                            field.map.row_bytes(),
                              .duration = bench.sizes.limit_time};
  Row row{.name = fmt::format("threads_{}_{}", threads, name), .unit = "B/s"};
  row.pairs = alternate(bench.sizes.epoch_repetitions, epochs,
                        [&] { return cli::measure_decode_limit(field, nullptr, setup); });
  row.note = fmt::format(
      "decoded bytes of epochs on end, for {} s or more, with {} workers, {}; against {} threads that only "
      "decode",
      least_s, threads, filter, threads);
  return row;
}

}  // namespace

std::vector<Row> measure_threads(Bench& bench) {
  std::vector<Row> rows;
  for (const auto& [name, filter] : {std::pair{"gzip", "gzip:4"}, {"lz4", "lz4"}, {"zstd", "zstd:1"}}) {
    rows.push_back(measure(bench, name, filter));
  }
  Row worst = *std::ranges::min_element(rows, {}, [](const Row& row) { return row.ratio(); });
  worst.note = worst.name + ": " + worst.note;
  worst.name = "threads_16";
  if (bench.workers != 16)
    worst.not_run = fmt::format("asks for 16 CPUs; threads_{}_* tell of these", bench.workers);
  rows.push_back(std::move(worst));
  return rows;
}

}  // namespace h5feed::bench
