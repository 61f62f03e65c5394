// SPDX-License-Identifier: Apache-2.0
// Measures the effect of changing the dataset and loader lines of a LibTorch program: float32 tensors of
// LibTorch's Normalize and Stack, the same samples in the same order, in turn from
//
//   hdf5            LibTorch's DataLoader over rows read through the HDF5 C++ API, chunk cache of 1 MiB
//   hdf5_tuned      the same with a chunk cache of 1 GiB
//   memory          LibTorch's DataLoader over a tensor that holds all samples
//   h5feed          h5feed::make_data_loader with h5feed's options
//   h5feed_sampler  h5feed::make_data_loader with LibTorch's options and the sampler of the other contenders
//
//   drop_in FILE --order chunk:16 --num-workers 2
//
// Each contender is measured over its first epoch, opening included, or as much of it as fits in --seconds.
// Rounds alternate; the first one is not counted, and compares what the contenders deliver. Prints JSON:
// samples/s and CPU seconds per 1,000 samples (all threads of the process together) of every round, and
// ratios of medians.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <torch/data/dataloader.h>
#include <torch/data/transforms/stack.h>
#include <torch/data/transforms/tensor.h>
#include <torch/utils.h>
#include <h5feed/torch.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "peers/fixed_order.hpp"
#include "peers/shared_file.hpp"
#include "tools/measure/epoch_order.hpp"

namespace {

using h5feed::peers::FixedOrder;
using h5feed::peers::OptionalSize;
using h5feed::peers::SharedFile;
using Clock = std::chrono::steady_clock;
namespace transforms = torch::data::transforms;

constexpr double kMean = 127.5;
constexpr double kStd = 63.75;
constexpr std::size_t kDefaultCacheOfLibhdf5 = std::size_t{1} << 20;
constexpr std::size_t kTunedCacheOfLibhdf5 = std::size_t{1} << 30;

struct Settings {
  std::string file;
  std::string data = "images";
  std::string order = "full";
  std::size_t num_workers = 2;
  std::size_t batch_size = 256;
  std::optional<std::uint64_t> cache_bytes;
  bool clairvoyant = false;
  double seconds = 20;
  int rounds = 3;
};

class Rows : public torch::data::datasets::Dataset<Rows> {
 public:
  explicit Rows(std::shared_ptr<SharedFile> file) : file_(std::move(file)) {}
  torch::data::Example<> get(std::size_t index) override { return {file_->read(index), torch::empty({0})}; }
  OptionalSize size() const override { return file_->rows(); }

 private:
  std::shared_ptr<SharedFile> file_;
};

class InMemory : public torch::data::datasets::Dataset<InMemory> {
 public:
  explicit InMemory(torch::Tensor samples) : samples_(std::move(samples)) {}
  torch::data::Example<> get(std::size_t index) override {
    return {samples_[static_cast<std::int64_t>(index)], torch::empty({0})};
  }
  OptionalSize size() const override { return static_cast<std::size_t>(samples_.size(0)); }

 private:
  torch::Tensor samples_;
};

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Result of one contender in one round.
struct Pass {
  double samples = 0;
  double seconds = 0;
  double cpu_seconds = 0;
  torch::Tensor first;  // first batch, if it was requested
};

// Ends after whole rounds of the workers: LibTorch's workers deliver in turn, so batches that one of them has
// ready say nothing about the rate.
template <typename MakeLoader>
Pass pass(const Settings& settings, double limit_s, bool keep_first, const MakeLoader& make_loader) {
  const std::size_t turn = std::max<std::size_t>(1, settings.num_workers);
  Pass result;
  const double cpu_before = cpu_seconds();
  const auto start = Clock::now();
  auto loader = make_loader();
  std::size_t batches = 0;
  for (auto& batch : *loader) {
    if (keep_first && batches == 0) result.first = batch.data.clone();
    result.samples += static_cast<double>(batch.data.size(0));
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (++batches % turn == 0 && seconds >= limit_s) break;
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  result.cpu_seconds = cpu_seconds() - cpu_before;
  return result;
}

template <typename Source>
auto mapped(Source source) {
  return std::move(source).map(transforms::Normalize<>(kMean, kStd)).map(transforms::Stack<>());
}

h5feed::DataLoaderOptions loader_options(const Settings& settings) {
  return {.batch_size = static_cast<std::int64_t>(settings.batch_size),
          .shuffle = settings.order,
          .seed = 1,
          .num_workers = static_cast<std::int64_t>(settings.num_workers),
          .cache_bytes = settings.cache_bytes,
          .cache_policy = settings.clairvoyant ? h5feed::CachePolicy::clairvoyant : h5feed::CachePolicy::lru};
}

// Returns the rows of h5feed's first epoch, in order.
std::vector<std::size_t> rows_of(const h5feed::Dataset& dataset, const h5feed::DataLoaderOptions& options) {
  const std::vector<std::int64_t> order = h5feed::epoch_order(dataset, options);
  return {order.begin(), order.end()};
}

// Reads all samples into one tensor, which also brings the file into the page cache.
torch::Tensor read_whole(const h5feed::Dataset& dataset) {
  std::vector<std::int64_t> shape = dataset.sample_shape();
  shape.insert(shape.begin(), dataset.size());
  const torch::Tensor all = torch::empty(shape, torch::kUInt8);
  std::int64_t at = 0;
  const auto loader = h5feed::make_data_loader(dataset, h5feed::DataLoaderOptions{.batch_size = 256});
  for (auto& batch : *loader) {
    all.narrow(0, at, batch.data.size(0)).copy_(batch.data);
    at += batch.data.size(0);
  }
  return all;
}

struct Contender {
  const char* name;
  std::function<Pass(double limit_s, bool keep_first)> pass;
  std::vector<double> samples_per_s = {};
  std::vector<double> cpu_s_per_1k = {};
};

std::vector<Contender> contenders(const Settings& settings) {
  const auto open = [settings] {
    return h5feed::Dataset::open({.files = {settings.file}, .data = settings.data});
  };
  const torch::Tensor all = read_whole(open());
  const std::vector<std::size_t> rows = rows_of(open(), loader_options(settings));
  const auto torch_options =
      torch::data::DataLoaderOptions(settings.batch_size).workers(settings.num_workers);
  const auto over_hdf5 = [=](std::size_t cache_bytes) {
    return [=](double limit_s, bool keep_first) {
      return pass(settings, limit_s, keep_first, [&] {
        const auto file = std::make_shared<SharedFile>(settings.file, settings.data, cache_bytes);
        return torch::data::make_data_loader(mapped(Rows(file)), FixedOrder(rows), torch_options);
      });
    };
  };
  return {
      {"hdf5", over_hdf5(kDefaultCacheOfLibhdf5)},
      {"hdf5_tuned", over_hdf5(kTunedCacheOfLibhdf5)},
      {"memory",
       [=](double limit_s, bool keep_first) {
         return pass(settings, limit_s, keep_first, [&] {
           return torch::data::make_data_loader(mapped(InMemory(all)), FixedOrder(rows), torch_options);
         });
       }},
      {"h5feed",
       [=](double limit_s, bool keep_first) {
         return pass(settings, limit_s, keep_first, [&] {
           return h5feed::make_data_loader(mapped(h5feed::TorchDataset(open())), loader_options(settings));
         });
       }},
      {"h5feed_sampler",
       [=](double limit_s, bool keep_first) {
         return pass(settings, limit_s, keep_first, [&] {
           return h5feed::make_data_loader(
               mapped(h5feed::TorchDataset(open(), {.cache_bytes = settings.cache_bytes})), FixedOrder(rows),
               torch_options);
         });
       }},
  };
}

void run(const Settings& settings) {
  std::vector<Contender> all = contenders(settings);
  torch::Tensor expected;
  for (Contender& contender : all) {
    const torch::Tensor first = contender.pass(0, true).first;
    if (!expected.defined()) expected = first;
    if (!torch::allclose(first, expected, 0, 1e-5)) {
      throw std::runtime_error(std::string(contender.name) + " does not deliver what " + all.front().name +
                               " delivers");
    }
  }
  for (int round = 0; round < settings.rounds; ++round) {
    for (Contender& contender : all) {
      const Pass pass = contender.pass(settings.seconds, false);
      contender.samples_per_s.push_back(pass.samples / pass.seconds);
      contender.cpu_s_per_1k.push_back(1e3 * pass.cpu_seconds / pass.samples);
    }
  }
  std::string rows;
  for (const Contender& contender : all) {
    rows += fmt::format(
        "{}\n  \"{}\": {{\"samples_per_s\": [{:.1f}], \"median\": {:.1f}, \"cpu_s_per_1k_samples\": "
        "[{:.4f}], \"cpu_median\": {:.4f}}}",
        rows.empty() ? "" : ",", contender.name, fmt::join(contender.samples_per_s, ", "),
        median(contender.samples_per_s), fmt::join(contender.cpu_s_per_1k, ", "),
        median(contender.cpu_s_per_1k));
  }
  const auto ratio = [&](std::vector<double> Contender::*figures, std::size_t of, std::size_t to) {
    return median(all[of].*figures) / median(all[to].*figures);
  };
  constexpr std::size_t kHdf5 = 0, kTuned = 1, kMemory = 2, kH5feed = 3, kSampler = 4;
  const auto speed = &Contender::samples_per_s;
  const auto cpu = &Contender::cpu_s_per_1k;
  fmt::print(
      "{{\"order\": \"{}\", \"num_workers\": {}, \"batch_size\": {}, \"cache_bytes\": {}, \"cache_policy\": "
      "\"{}\", \"threads_of_torch\": {}, \"seconds\": {}, \"rounds\": {}, \"contenders\": {{{}}},\n "
      "\"ratios\": {{\"h5feed_to_hdf5\": {:.2f}, \"h5feed_sampler_to_hdf5\": {:.2f}, "
      "\"h5feed_to_hdf5_tuned\": {:.2f}, \"h5feed_to_memory\": {:.2f}, \"cpu_h5feed_to_memory\": {:.2f}, "
      "\"cpu_h5feed_sampler_to_memory\": {:.2f}}}}}\n",
      settings.order, settings.num_workers, settings.batch_size,
      settings.cache_bytes ? std::to_string(*settings.cache_bytes) : "null",
      settings.clairvoyant ? "clairvoyant" : "lru", torch::get_num_threads(), settings.seconds,
      settings.rounds, rows, ratio(speed, kH5feed, kHdf5), ratio(speed, kSampler, kHdf5),
      ratio(speed, kH5feed, kTuned), ratio(speed, kH5feed, kMemory), ratio(cpu, kH5feed, kMemory),
      ratio(cpu, kSampler, kMemory));
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Measures h5feed next to LibTorch's DataLoader");
  const auto option = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->capture_default_str();
  };
  app.add_option("FILE", settings.file, "HDF5 file")->required();
  option("--data", settings.data, "Dataset of the samples, uint8 images");
  option("--order", settings.order, "sequential, full or chunk:K");
  option("--num-workers", settings.num_workers, "Worker threads of each loader");
  option("--batch-size", settings.batch_size, "Samples of a batch")->check(CLI::PositiveNumber);
  app.add_option("--cache-bytes", settings.cache_bytes, "Cache of h5feed; default: its own choice")
      ->transform(CLI::AsSizeValue(false));
  app.add_flag("--clairvoyant", settings.clairvoyant, "cache_policy of h5feed (not of h5feed_sampler)");
  option("--seconds", settings.seconds, "Longest pass");
  option("--rounds", settings.rounds, "Passes of each contender")->check(CLI::PositiveNumber);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    H5::Exception::dontPrint();
    run(settings);
    return 0;
  } catch (const H5::Exception& error) {
    std::fprintf(stderr, "drop_in: %s: %s\n", error.getCFuncName(), error.getCDetailMsg());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "drop_in: %s\n", error.what());
  }
  return 1;
}
