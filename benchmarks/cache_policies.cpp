// SPDX-License-Identifier: Apache-2.0
// Compares cache policies under a full shuffle with a cache that holds a quarter of the data: epochs under
// lru, clairvoyant and keep_first in turn, and simulations of the same sequence of requests.
//   cache_policies FILE [NUM_WORKERS [RUNS [EPOCHS]]]     defaults 2 3 3
// Meant for 1000 compressed chunks of 20 images:
//   h5feed generate FILE --samples 20000 --shape 3,64,64 --chunk 20 --filter gzip:4
// Prints JSON: samples/s of every repetition, decodes per chunk and epoch, and ratios of medians to lru.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"
#include "plan/epoch_plan.hpp"
#include "support/loaders/row_simulator.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using h5feed::CachePolicy;

constexpr std::int64_t kBatch = 256;
constexpr std::uint64_t kSeed = 1;
constexpr std::uint64_t kHeldShare = 4;  // the cache holds 1 / kHeldShare of the data

struct Policy {
  CachePolicy policy;
  std::vector<double> samples_per_s;
  std::vector<double> decodes;  // decodes per chunk and epoch
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

void run(const h5feed::Dataset& dataset, Policy& policy, int num_workers, int epochs) {
  const h5feed::Field& data = h5feed::DatasetAccess::state(dataset)->data;
  h5feed::DataLoader loader(dataset, {.batch_size = kBatch,
                                      .shuffle = "full",
                                      .seed = kSeed,
                                      .num_workers = num_workers,
                                      .cache_bytes = data.info().total_bytes() / kHeldShare,
                                      .cache_policy = policy.policy,
                                      .row_reads = h5feed::RowReads::never});
  const Clock::time_point start = Clock::now();
  std::int64_t samples = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    while (const auto batch = loader.next()) samples += batch->size();
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  policy.samples_per_s.push_back(static_cast<double>(samples) / seconds);
  policy.decodes.push_back(static_cast<double>(loader.stats().chunk_loads) /
                           static_cast<double>(data.reader->num_chunks()) / epochs);
}

// Returns the requests that the loader gets in these epochs, and in one more.
h5feed::test::Requests requests(const h5feed::Field& data, int epochs) {
  h5feed::test::Requests requests;
  for (int epoch = 0; epoch <= epochs; ++epoch) {
    const h5feed::EpochPlan plan({.num_samples = data.info().rows(),
                                  .rows_per_chunk = data.map.rows().rows_per_chunk(),
                                  .shuffle = "full",
                                  .seed = kSeed,
                                  .batch_size = static_cast<std::uint64_t>(kBatch)},
                                 static_cast<std::uint64_t>(epoch));
    for (std::uint64_t number = 0; number < plan.num_batches(); ++number)
      requests.push_back(plan.batch(number));
  }
  return requests;
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int position, int otherwise) {
    return argc > position ? std::stoi(argv[position]) : otherwise;
  };
  try {
    if (argc < 2) throw std::runtime_error("cache_policies: name an HDF5 file with images");
    const int num_workers = number(2, 2);
    const int epochs = number(4, 3);
    const h5feed::Dataset dataset = h5feed::Dataset::open({.files = {argv[1]}});
    const h5feed::Field& data = h5feed::DatasetAccess::state(dataset)->data;

    std::array<Policy, 3> policies{Policy{CachePolicy::lru, {}, {}},
                                   {CachePolicy::clairvoyant, {}, {}},
                                   {CachePolicy::keep_first, {}, {}}};
    for (int repetition = 0; repetition < number(3, 3); ++repetition) {
      for (Policy& policy : policies) run(dataset, policy, num_workers, epochs);
    }

    const h5feed::test::Requests known = requests(data, epochs);
    const h5feed::test::Simulation simulation{data.map.rows().rows_per_chunk(), data.info().rows(),
                                              known.size() / static_cast<std::size_t>(epochs + 1),
                                              static_cast<std::uint64_t>(epochs)};
    const auto per_chunk = [&](const std::vector<std::uint64_t>& decodes) {
      return static_cast<double>(std::accumulate(decodes.begin(), decodes.end(), std::uint64_t{0})) /
             static_cast<double>(data.reader->num_chunks()) / epochs;
    };
    std::string rates;
    std::string decodes;
    std::string ratios;
    for (const Policy& policy : policies) {
      const std::string_view name = name_of(policy.policy);
      rates += fmt::format("\"{}\": [{:.0f}], ", name, fmt::join(policy.samples_per_s, ", "));
      decodes += fmt::format("\"{}\": {:.3f}, ", name, median(policy.decodes));
      ratios += fmt::format("{}\"{}\": {:.2f}", ratios.empty() ? "" : ", ", name,
                            median(policy.samples_per_s) / median(policies.front().samples_per_s));
    }
    rates.resize(rates.size() - 2);
    fmt::print(
        "{{\"num_workers\": {}, \"epochs\": {}, \"held_share\": {}, \"samples_per_s\": {{{}}}, "
        "\"decodes_per_chunk_and_epoch\": {{{}\"simulated_lru_on_chunks\": {:.3f}, "
        "\"simulated_belady_on_chunks\": {:.3f}, \"simulated_belady_by_rows\": {:.3f}}}, "
        "\"ratio_of_medians_to_lru\": {{{}}}}}\n",
        num_workers, epochs, 1.0 / kHeldShare, rates, decodes,
        per_chunk(simulation.whole_chunks(known, data.reader->num_chunks() / kHeldShare, true)),
        per_chunk(simulation.whole_chunks(known, data.reader->num_chunks() / kHeldShare, false)),
        per_chunk(simulation.belady_rows(known, data.info().rows() / kHeldShare)), ratios);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
