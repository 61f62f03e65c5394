// SPDX-License-Identifier: Apache-2.0
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
#include "h5feed/torch/dataset.hpp"
#include "h5feed/torch/loader.hpp"
#include "h5feed/torch/sampler.hpp"
#include "h5feed/torch/tensor.hpp"
#include "h5feed/torch/transforms.hpp"

namespace h5feed {

namespace detail {

/// Converts LibTorch's options. Rounds `max_jobs` up to a whole number of batches per worker. Throws
/// OptionError for `max_jobs(0)`, with which LibTorch's loader delivers nothing.
inline DataLoaderOptions from_torch_options(const torch::data::DataLoaderOptions& torch) {
  DataLoaderOptions options;
  options.batch_size = static_cast<std::int64_t>(torch.batch_size());
  options.num_workers = static_cast<std::int64_t>(torch.workers());
  options.drop_last = torch.drop_last();
  options.in_order = torch.enforce_ordering();
  const auto workers = static_cast<std::int64_t>(torch.workers());
  if (workers == 0) return options;  // without workers, LibTorch ignores timeout and max_jobs
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

/// Returns the number of samples of `dataset`.
inline std::size_t samples_in(const Dataset& dataset) { return static_cast<std::size_t>(dataset.size()); }

/// Returns the number of samples of the dataset that `chain` maps.
template <typename D>
requires IsTorchChain<D>::value std::size_t samples_in(const D& chain) { return *chain.size(); }

/// Returns a LibTorch sampler for `size` samples, whether its constructor takes a signed or an unsigned size.
template <TorchSampler S>
S sampler_for(std::size_t size) {
  if constexpr (requires { S{size}; }) {
    return S{size};
  } else {
    return S(static_cast<std::int64_t>(size));
  }
}

/// Wraps `sampler` as the order of a loader over `dataset` with these options.
template <TorchSampler S>
std::shared_ptr<TorchOrder> order_of(S sampler, const Dataset& dataset, const DataLoaderOptions& options) {
  constexpr std::size_t kTimesTheData = 16;
  return std::make_shared<TorchOrder>(
      std::move(sampler), static_cast<std::size_t>(std::max<std::int64_t>(1, options.batch_size.value_or(1))),
      std::max(TorchOrder::kMostSamples, kTimesTheData * samples_in(dataset)));
}

/// Returns the dataset and the options of a loader over `dataset`, unchanged.
inline std::pair<Dataset, DataLoaderOptions> resolve_chain(Dataset dataset, DataLoaderOptions options) {
  return {std::move(dataset), std::move(options)};
}

/// Returns the dataset at the start of `chain`, and `options` with its transforms added. Throws OptionError
/// if `normalize` or `target_dtype` is set, or `collate_fn` together with transforms.
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

/// Data that `make_data_loader` accepts: an h5feed::Dataset, a TorchDataset, or a chain of `.map()` on a
/// TorchDataset. A Normalize mapped first is fused into the loader, if that gives the same result, and Stack
/// costs nothing. Other transforms, of `std::vector<Example<>>` or `Example<>`, run per example as in
/// LibTorch, on a thread of the loader; Torch manages the threads of their operations. Each thread of the
/// loader has a copy of the transforms. Batches are stacked even without a Stack at the end.
template <typename D>
concept TorchFeed = std::same_as<D, Dataset> || detail::IsTorchChain<D>::value;

/// Returns a loader over `dataset`. Name it before a loop: `auto loader = make_data_loader(…); for (auto&
/// batch : *loader)`. In `for (auto& batch : *make_data_loader(…))` the loader is destroyed before the first
/// batch, without a compiler warning. An unset `options.seed` is drawn from Torch's default generator, so
/// that `torch::manual_seed` determines the order. Throws the exceptions of the constructor of
/// `TorchDataLoader`.
inline std::unique_ptr<TorchDataLoader> make_data_loader(Dataset dataset, DataLoaderOptions options = {}) {
  return std::make_unique<TorchDataLoader>(std::move(dataset), std::move(options));
}

/// Returns a loader over a TorchDataset or a chain of `.map()` on one. Throws OptionError if `options` set
/// `normalize` or `target_dtype`, which belong to the TorchDataset, or `collate_fn` together with mapped
/// transforms.
template <typename D>
requires detail::IsTorchChain<D>::value std::unique_ptr<TorchDataLoader> make_data_loader(
    D dataset, DataLoaderOptions options) {
  auto [data, resolved] = detail::resolve_chain(std::move(dataset), std::move(options));
  return std::make_unique<TorchDataLoader>(std::move(data), std::move(resolved));
}

/// Returns a loader whose order is given by a sampler of LibTorch, with h5feed's options. Throws the
/// exceptions of the constructor of `TorchDataLoader`, and what the sampler throws.
template <TorchFeed D, TorchSampler S>
std::unique_ptr<TorchDataLoader> make_data_loader(D dataset, S sampler, DataLoaderOptions options) {
  auto [data, resolved] = detail::resolve_chain(std::move(dataset), std::move(options));
  auto order = detail::order_of(std::move(sampler), data, resolved);
  return std::make_unique<TorchDataLoader>(std::move(data), std::move(order), std::move(resolved));
}
/// Returns a loader whose order is given by a sampler of LibTorch, with LibTorch's options. Throws the
/// exceptions of the constructor of `TorchDataLoader`, and what the sampler throws.
template <TorchFeed D, TorchSampler S>
std::unique_ptr<TorchDataLoader> make_data_loader(D dataset, S sampler,
                                                  const torch::data::DataLoaderOptions& options) {
  return h5feed::make_data_loader(std::move(dataset), std::move(sampler),
                                  detail::from_torch_options(options));
}

/// Returns a loader with h5feed's options and a LibTorch sampler S made for the size of the dataset. Throws
/// the exceptions of the constructor of `TorchDataLoader`, and what the sampler throws.
template <TorchSampler S, TorchFeed D>
requires std::constructible_from<S, std::size_t> std::unique_ptr<TorchDataLoader> make_data_loader(
    D dataset, DataLoaderOptions options) {
  S sampler = detail::sampler_for<S>(detail::samples_in(dataset));
  return h5feed::make_data_loader(std::move(dataset), std::move(sampler), std::move(options));
}
/// Returns a loader with LibTorch's options and a sampler S made for the size of the dataset. By default S is
/// LibTorch's RandomSampler, with exactly the order of LibTorch's loader. Throws the exceptions of the
/// constructor of `TorchDataLoader`, and what the sampler throws.
template <TorchSampler S = torch::data::samplers::RandomSampler, TorchFeed D>
requires std::constructible_from<S, std::size_t> std::unique_ptr<TorchDataLoader> make_data_loader(
    D dataset, const torch::data::DataLoaderOptions& options = {}) {
  return h5feed::make_data_loader<S>(std::move(dataset), detail::from_torch_options(options));
}

}  // namespace h5feed
