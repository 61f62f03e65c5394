// SPDX-License-Identifier: Apache-2.0
#include "stress/random_runs/training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "h5feed/sampler.hpp"

namespace h5feed::test {
namespace {

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) { return SampleKey{.seed = a, .epoch = b}.random(99); }

// Adds to every element what the key says, in the type of the elements.
void transform(const SampleView& sample, const SampleKey& key) {
  const auto shift = static_cast<int>(key.random(1) % 5);
  const auto add = [&](auto values) {
    using T = std::decay_t<decltype(values.front())>;
    for (T& value : values) value = static_cast<T>(value + static_cast<T>(shift));
  };
  switch (sample.dtype) {
    case DType::u8:
      return add(sample.as<std::uint8_t>());
    case DType::i16:
      return add(sample.as<std::int16_t>());
    case DType::u16:
      return add(sample.as<std::uint16_t>());
    case DType::i32:
      return add(sample.as<std::int32_t>());
    case DType::i64:
      return add(sample.as<std::int64_t>());
    case DType::f32:
      return add(sample.as<float>());
    default:
      return add(sample.as<double>());
  }
}

Augment any_augment(Draw& draw) {
  Augment augment;
  augment.horizontal_flip = draw.any({0.0, 0.5});
  augment.vertical_flip = draw.any({0.0, 0.5});
  if (draw.one_in(2))
    augment.random_crop = Augment::RandomCrop{.height = 3, .width = 4, .padding = draw.number(0, 2)};
  else if (draw.one_in(2))
    augment.random_resized_crop = Augment::RandomResizedCrop{.height = 5, .width = 3};
  return augment;
}

void draw_order(Draw& draw, const RandomData& data, Training& training) {
  DataLoaderOptions& options = training.options;
  options.seed = static_cast<std::uint64_t>(draw.number(0, 1000));
  options.uneven = draw.any({Uneven::exact, Uneven::exact, Uneven::pad, Uneven::drop});
  training.list_seed = draw.seed();
  training.listed = draw.number(1, 2 * data.size());
  if (draw.one_in(8)) {
    training.has_batch_sampler = true;
    options.batch_sampler =
        make_batch_sampler([training](std::uint64_t epoch) { return training.batches(epoch); }, 9);
    return;
  }
  options.batch_size = 1;
  if (draw.one_in(20)) options.batch_size = std::nullopt;
  if (draw.one_in(6)) {
    training.has_sampler = true;
    options.sampler = make_sampler([training](std::uint64_t epoch) { return training.list(epoch); });
  } else {
    options.shuffle = draw.any(
        {Shuffle(false), Shuffle(true), Shuffle(fmt::format("chunk:{}", draw.number(1, data.chunks())))});
    options.shard = draw.any({Shard::strided, Shard::strided, Shard::contiguous, Shard::by_chunk});
  }
  options.drop_last = options.batch_size && draw.one_in(4);
  if (!options.batch_size && options.uneven == Uneven::exact) options.uneven = Uneven::pad;
}

void draw_values(Draw& draw, const RandomData& data, Training& training) {
  DataLoaderOptions& options = training.options;
  if (draw.one_in(4)) options.normalize = Normalize{.mean = {0.25}, .std = {0.5}};
  if (draw.one_in(4)) options.output_dtype = draw.any({DType::f32, DType::f16, DType::bf16, DType::f64});
  if (data.are_images()) {
    if (draw.one_in(4)) options.augment = any_augment(draw);
    if (draw.one_in(4)) options.output_layout = OutputLayout::channels_last;
  }
  if (draw.one_in(3)) options.echo.factor = draw.number(2, 3);
  training.transforms = draw.one_in(4);
  training.collates = draw.one_in(5);
  if (training.transforms && draw.one_in(3)) training.failing_samples = draw.number(5, 80);
  if (training.collates && draw.one_in(2)) training.failing_batches = draw.number(2, 20);
  if (training.has_sampler && draw.one_in(4)) training.failing_epoch = draw.number(1, 3);
}

void set_functions(const Training& training, DataLoaderOptions& options) {
  if (training.transforms) {
    options.transform = [training](const SampleView& sample, const SampleKey& key) {
      if (training.transform_throws(key.epoch, key.sample)) throw Planted();
      transform(sample, key);
    };
  }
  if (training.collates) {
    options.collate_fn = [training](Batch& batch) {
      if (training.collate_throws(batch.indices)) throw Planted();
    };
  }
  if (training.failing_epoch) {
    options.sampler = make_sampler([training](std::uint64_t epoch) {
      if (epoch == training.failing_epoch) throw Planted();
      return training.list(epoch);
    });
  }
}

void draw_workers(Draw& draw, const Training& training, Size& size) {
  DataLoaderOptions& options = size.options;
  options.num_workers = draw.any({std::int64_t{0}, draw.number(1, 5), draw.number(1, 3), kAuto});
  if (options.num_workers == kAuto && draw.one_in(2)) options.cpu_limit = draw.any({0.5, 1.0, 3.0});
  // Which batch exceeds the quota depends on the order of delivery.
  const bool may_be_unordered = training.options.max_bad_share == 1;
  options.in_order = !(draw.one_in(5) && may_be_unordered);
  options.local_world_size = draw.number(0, 3);
  if (options.num_workers == 0) return;
  if (draw.one_in(3)) options.prefetch_factor = draw.number(1, 6);
  if (draw.one_in(8)) options.prefetch_bytes = static_cast<std::uint64_t>(draw.number(2'000, 400'000));
  if (draw.one_in(3)) options.io_depth = draw.number(0, 8);
  if (draw.one_in(8)) options.timeout = std::chrono::milliseconds(draw.any({1, 2, 60'000}));
  size.init_throws = draw.one_in(40);
}

void draw_memory(Draw& draw, const RandomData& data, Size& size) {
  DataLoaderOptions& options = size.options;
  const auto bytes = static_cast<std::int64_t>(data.sample_bytes()) * data.size();
  if (!draw.one_in(3)) options.cache_bytes = static_cast<std::uint64_t>(draw.number(0, bytes));
  options.cache_policy =
      draw.any({CachePolicy::lru, CachePolicy::lru, CachePolicy::clairvoyant, CachePolicy::keep_first});
  if (draw.one_in(6))
    options.memory_budget_bytes = static_cast<std::uint64_t>(draw.number(100'000, 5'000'000));
  options.row_reads = draw.any({RowReads::automatic, RowReads::automatic, RowReads::never});
  if (data.unfiltered() && options.cache_policy != CachePolicy::clairvoyant && draw.one_in(2))
    options.row_reads = RowReads::always;
  options.preload = draw.one_in(8);
}

}  // namespace

std::vector<std::vector<std::int64_t>> Training::batches(std::uint64_t epoch) const {
  const std::vector<std::int64_t> samples = list(epoch);
  std::vector<std::vector<std::int64_t>> all;
  for (std::size_t at = 0; at < samples.size();) {
    const std::size_t most = 1 + mixed(list_seed, at) % 9;
    const std::size_t end = std::min(samples.size(), at + most);
    all.emplace_back(samples.begin() + static_cast<std::ptrdiff_t>(at),
                     samples.begin() + static_cast<std::ptrdiff_t>(end));
    at = end;
  }
  return all;
}

bool Training::transform_throws(std::uint64_t epoch, std::int64_t sample) const {
  return failing_samples && mixed(epoch, static_cast<std::uint64_t>(sample)) % *failing_samples == 0;
}

bool Training::collate_throws(const std::vector<std::int64_t>& samples) const {
  return failing_batches && !samples.empty() &&
         mixed(1, static_cast<std::uint64_t>(samples.front())) % *failing_batches == 0;
}

std::vector<std::int64_t> Training::list(std::uint64_t epoch) const {
  std::vector<std::int64_t> samples;
  const auto size = static_cast<std::uint64_t>(population);
  for (std::int64_t i = 0; i < listed; ++i)
    samples.push_back(
        static_cast<std::int64_t>(mixed(mixed(list_seed, epoch), static_cast<std::uint64_t>(i)) % size));
  return samples;
}

Training any_training(Draw& draw, const RandomData& data) {
  Training training;
  training.population = data.size();
  draw_order(draw, data, training);
  draw_values(draw, data, training);
  DataLoaderOptions& options = training.options;
  options.on_error = draw.any({OnError::fail, OnError::skip, OnError::replace});
  if (options.on_error == OnError::skip && !options.batch_size) options.on_error = OnError::replace;
  // A batch in which a function of the user throws does not count for the quota.
  const bool throws = training.failing_samples || training.failing_batches;
  options.max_bad_share = draw.one_in(3) && !throws ? draw.any({0.0, 0.05, 0.2}) : 1;
  training.text = fmt::format(
      "{} {} seed {} shard {} uneven {}{} echo {} on_error {} share {}{}{}{}{}{}",
      training.has_batch_sampler ? "batch_sampler"
      : training.has_sampler     ? "sampler"
                                 : "shuffle",
      options.shuffle.to_string(), *options.seed, static_cast<int>(options.shard),
      static_cast<int>(options.uneven), options.drop_last ? " drop_last" : "", options.echo.factor,
      name_of(options.on_error), options.max_bad_share, options.normalize ? " normalize" : "",
      options.augment ? " augment" : "", training.transforms ? " transform" : "",
      training.collates ? " collate" : "",
      training.failing_samples || training.failing_batches || training.failing_epoch ? " throws" : "");
  return training;
}

Size any_size(Draw& draw, const RandomData& data, const Training& training,
              const std::filesystem::path& folder, std::optional<std::int64_t> world_size) {
  Size size;
  DataLoaderOptions& options = size.options;
  draw_workers(draw, training, size);
  draw_memory(draw, data, size);
  options.batch_size = training.options.batch_size;
  if (options.batch_size && !training.has_batch_sampler)
    options.batch_size = draw.any({draw.number(1, 8), draw.number(1, 40), draw.number(1, 300)});
  options.world_size =
      world_size ? *world_size : draw.any({std::int64_t{1}, std::int64_t{1}, draw.number(2, 4)});
  options.provenance = draw.one_in(4);
  if (draw.one_in(6)) options.epoch_log = folder / "epochs.jsonl";
  if (training.options.on_error != OnError::fail && draw.one_in(3)) options.bad_list = folder / "bad.tsv";
  if (draw.one_in(15)) options.trace_path = folder / "trace.json";
  size.rank_threads = draw.one_in(2);
  size.watched = draw.one_in(3);
  size.text = fmt::format(
      "workers {} batch {} ranks {}{} prefetch {}/{} io_depth {} cache {} {} budget {} rows {}{}{}{}{}{}{}{}",
      options.num_workers, options.batch_size.value_or(0), options.world_size,
      size.rank_threads ? " on threads" : "", options.prefetch_factor.value_or(-1),
      options.prefetch_bytes.value_or(0), options.io_depth.value_or(-1),
      options.cache_bytes ? std::to_string(*options.cache_bytes) : "default", name_of(options.cache_policy),
      options.memory_budget_bytes.value_or(0), static_cast<int>(options.row_reads),
      options.preload ? " preload" : "", options.in_order ? "" : " unordered",
      options.timeout ? fmt::format(" timeout {} ms", options.timeout->count()) : "",
      options.provenance ? " provenance" : "", options.bad_list.empty() ? "" : " bad_list",
      size.init_throws ? " init throws" : "", size.watched ? " watched" : "");
  return size;
}

DataLoaderOptions options_of(const Training& training, const Size& size, std::int64_t rank) {
  DataLoaderOptions options = order_of(training, size, rank);
  const DataLoaderOptions& what = training.options;
  const DataLoaderOptions& how = size.options;
  options.on_error = what.on_error;
  options.max_bad_share = what.max_bad_share;
  options.bad_list = how.bad_list;
  options.normalize = what.normalize;
  options.output_dtype = what.output_dtype;
  options.output_layout = what.output_layout;
  options.augment = what.augment;
  set_functions(training, options);
  options.num_workers = how.num_workers;
  options.cpu_limit = how.cpu_limit;
  options.in_order = how.in_order;
  options.timeout = how.timeout;
  options.local_world_size = how.local_world_size;
  options.prefetch_factor = how.prefetch_factor;
  options.prefetch_bytes = how.prefetch_bytes;
  options.io_depth = how.io_depth;
  options.cache_bytes = how.cache_bytes;
  options.cache_policy = how.cache_policy;
  options.memory_budget_bytes = how.memory_budget_bytes;
  options.row_reads = how.row_reads;
  options.preload = how.preload;
  options.provenance = how.provenance;
  options.epoch_log = how.epoch_log;
  options.trace_path = how.trace_path;
  if (size.init_throws) options.worker_init_fn = [](std::int64_t) { throw Planted(); };
  return options;
}

DataLoaderOptions order_of(const Training& training, const Size& size, std::int64_t rank) {
  const DataLoaderOptions& what = training.options;
  DataLoaderOptions options{.batch_size = size.options.batch_size, .drop_last = what.drop_last};
  options.batch_sampler = what.batch_sampler;
  options.echo = what.echo;
  options.shuffle = what.shuffle;
  options.sampler = what.sampler;
  options.seed = what.seed;
  options.rank = rank;
  options.world_size = size.options.world_size;
  options.shard = what.shard;
  options.uneven = what.uneven;
  return options;
}

DataLoaderOptions values_of(const Training& training) {
  const DataLoaderOptions& what = training.options;
  DataLoaderOptions options{.batch_size = 32, .echo = what.echo, .seed = what.seed};
  options.normalize = what.normalize;
  options.output_dtype = what.output_dtype;
  options.output_layout = what.output_layout;
  options.augment = what.augment;
  if (training.transforms) options.transform = transform;
  return options;
}

}  // namespace h5feed::test
