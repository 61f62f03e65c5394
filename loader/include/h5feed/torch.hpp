// The loader for LibTorch: batches arrive as tensors, in the loop LibTorch users write.
//
//   auto loader = h5feed::make_data_loader(h5feed::Dataset::open({.files = {"train.h5"}}), options);
//   for (auto& batch : *loader) train(batch.data, batch.target);
//
// `make_data_loader` also takes what LibTorch's takes: its DataLoaderOptions, its samplers, and chains of its
// transforms on a TorchDataset. Link h5feed::torch. Header-only, so that h5feed itself does not depend on a
// LibTorch.
#pragma once

#include <torch/data/dataloader_options.h>
#include <torch/data/samplers/random.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "h5feed/data_loader.hpp"
#include "h5feed/dataset.hpp"
#include "h5feed/error.hpp"
#include "h5feed/options.hpp"
#include "h5feed/torch_dataset.hpp"
#include "h5feed/torch_loader.hpp"
#include "h5feed/torch_sampler.hpp"
#include "h5feed/torch_tensor.hpp"
#include "h5feed/torch_transforms.hpp"

namespace h5feed {

namespace detail {

/// What LibTorch's options mean here. `max_jobs` is rounded up to a whole number of batches a worker. Throws
/// OptionError for `max_jobs(0)`, with which LibTorch's loader delivers nothing.
inline DataLoaderOptions from_torch_options(const torch::data::DataLoaderOptions& torch) {
  DataLoaderOptions options;
  options.batch_size = static_cast<std::int64_t>(torch.batch_size());
  options.num_workers = static_cast<std::int64_t>(torch.workers());
  options.drop_last = torch.drop_last();
  options.in_order = torch.enforce_ordering();
  const auto workers = static_cast<std::int64_t>(torch.workers());
  if (workers == 0) return options;  // LibTorch waits for no worker, and needs no jobs, either
  if (torch.timeout()) options.timeout = *torch.timeout();
  if (torch.max_jobs()) {
    const auto jobs = static_cast<std::int64_t>(*torch.max_jobs());
    if (jobs == 0) {
      throw OptionError(
          "max_jobs(0) leaves the workers nothing to prepare; leave it unset, or use at least 1");
    }
    options.prefetch_factor = (jobs + workers - 1) / workers;
  }
  return options;
}

inline std::size_t samples_in(const Dataset& dataset) { return static_cast<std::size_t>(dataset.size()); }

template <typename D>
requires IsTorchChain<D>::value std::size_t samples_in(const D& chain) { return *chain.size(); }

/// LibTorch's samplers take their size signed or unsigned.
template <TorchSampler S>
S sampler_for(std::size_t size) {
  if constexpr (requires { S{size}; }) {
    return S{size};
  } else {
    return S(static_cast<std::int64_t>(size));
  }
}

/// What a loader with these options asks of `sampler`.
template <TorchSampler S>
std::shared_ptr<TorchOrder> order_of(S sampler, const Dataset& dataset, const DataLoaderOptions& options) {
  constexpr std::size_t kTimesTheData = 16;
  return std::make_shared<TorchOrder>(
      std::move(sampler), static_cast<std::size_t>(std::max<std::int64_t>(1, options.batch_size.value_or(1))),
      std::max(TorchOrder::kMostSamples, kTimesTheData * samples_in(dataset)));
}

/// Opened data and the options that what was mapped on it adds.
inline std::pair<Dataset, DataLoaderOptions> resolve_chain(Dataset dataset, DataLoaderOptions options) {
  return {std::move(dataset), std::move(options)};
}

template <typename D>
requires IsTorchChain<D>::value std::pair<Dataset, DataLoaderOptions> resolve_chain(
    D chain, DataLoaderOptions options) {
  if (options.normalize || options.target_dtype) {
    throw OptionError(
        "normalize and target_dtype belong to the TorchDataset that is mapped; give them to its constructor");
  }
  if (options.collate_fn && !std::same_as<D, TorchDataset>) {
    throw OptionError("collate_fn and transforms that are mapped on the dataset exclude each other; use one");
  }
  TorchStages<D> stages(std::move(chain));
  const TorchStages<TorchDataset>& source = innermost(stages);
  const SampleReaderOptions& reads = source.source.reader().options();
  Dataset dataset = source.source.reader().dataset();
  options.normalize = source.normalize;
  options.target_dtype = reads.target_dtype;
  if (!options.cache_bytes) options.cache_bytes = reads.cache_bytes;
  if (!options.memory_budget_bytes) options.memory_budget_bytes = reads.memory_budget_bytes;
  if (!stages.done()) {
    options.collate_fn = TorchCollate<D>(std::move(stages), options.batch_size.has_value());
  }
  return {std::move(dataset), std::move(options)};
}

}  // namespace detail

/// What `make_data_loader` takes: an h5feed::Dataset, a TorchDataset, or a chain of `.map()` on the latter. A
/// Normalize mapped first, and Stack, cost nothing beyond the loader's own work; any other transform of
/// `std::vector<Example<>>` or `Example<>` runs on the worker that gathered the batch, per example as
/// LibTorch runs it, with Torch operations whose threads are Torch's affair. Each thread has a copy of the
/// transforms. Without a Stack at the end batches are stacked all the same.
template <typename D>
concept TorchFeed = std::same_as<D, Dataset> || detail::IsTorchChain<D>::value;

/// A loader over `dataset`. Give it a name before a loop: `auto loader = make_data_loader(…);
/// for (auto& batch : *loader)`. In `for (auto& batch : *make_data_loader(…))` the loader would end before
/// the first batch, which no compiler reports. Where `options.seed` is unset it is drawn from Torch's default
/// generator, so that `torch::manual_seed` governs the order. Throws as the constructor of `TorchDataLoader`.
inline std::unique_ptr<TorchDataLoader> make_data_loader(Dataset dataset, DataLoaderOptions options = {}) {
  return std::make_unique<TorchDataLoader>(std::move(dataset), std::move(options));
}

/// The same over a TorchDataset or a chain on one.
template <typename D>
requires detail::IsTorchChain<D>::value std::unique_ptr<TorchDataLoader> make_data_loader(
    D dataset, DataLoaderOptions options) {
  auto [data, resolved] = detail::resolve_chain(std::move(dataset), std::move(options));
  return std::make_unique<TorchDataLoader>(std::move(data), std::move(resolved));
}

/// With a sampler of LibTorch, and options of either library.
template <TorchFeed D, TorchSampler S>
std::unique_ptr<TorchDataLoader> make_data_loader(D dataset, S sampler, DataLoaderOptions options) {
  auto [data, resolved] = detail::resolve_chain(std::move(dataset), std::move(options));
  auto order = detail::order_of(std::move(sampler), data, resolved);
  return std::make_unique<TorchDataLoader>(std::move(data), std::move(order), std::move(resolved));
}
template <TorchFeed D, TorchSampler S>
std::unique_ptr<TorchDataLoader> make_data_loader(D dataset, S sampler,
                                                  const torch::data::DataLoaderOptions& options) {
  return h5feed::make_data_loader(std::move(dataset), std::move(sampler),
                                  detail::from_torch_options(options));
}

/// With a sampler made for the dataset's size, and options of either library. LibTorch's options alone mean
/// LibTorch's default: RandomSampler, in the very order that LibTorch's loader would have.
template <TorchSampler S, TorchFeed D>
requires std::constructible_from<S, std::size_t> std::unique_ptr<TorchDataLoader> make_data_loader(
    D dataset, DataLoaderOptions options) {
  S sampler = detail::sampler_for<S>(detail::samples_in(dataset));
  return h5feed::make_data_loader(std::move(dataset), std::move(sampler), std::move(options));
}
template <TorchSampler S = torch::data::samplers::RandomSampler, TorchFeed D>
requires std::constructible_from<S, std::size_t> std::unique_ptr<TorchDataLoader> make_data_loader(
    D dataset, const torch::data::DataLoaderOptions& options = {}) {
  return h5feed::make_data_loader<S>(std::move(dataset), detail::from_torch_options(options));
}

}  // namespace h5feed
