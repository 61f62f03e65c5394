// SPDX-License-Identifier: Apache-2.0
// A DataLoader with the interface of LibTorch's data loader. Part of h5feed/torch.hpp.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <torch/data/example.h>
#include <torch/serialize/archive.h>
#include <torch/types.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "h5feed/batch.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/data_loader_access.hpp"
#include "h5feed/dataset.hpp"
#include "h5feed/device.hpp"
#include "h5feed/error.hpp"
#include "h5feed/optional_batch.hpp"
#include "h5feed/options.hpp"
#include "h5feed/state.hpp"
#include "h5feed/stats.hpp"
#include "h5feed/torch/device.hpp"
#include "h5feed/torch/sampler.hpp"
#include "h5feed/torch/tensor.hpp"

namespace h5feed {

namespace detail {

/// Returns `options` with seed and device filled in. An unset seed is drawn from Torch's default generator if
/// `world_size` is 1. Throws DatasetError or OptionError for a dtype that LibTorch lacks, and OptionError if
/// `device` names a GPU that this build cannot use, before any thread starts.
inline DataLoaderOptions prepare_for_torch(const Dataset& dataset, DataLoaderOptions options) {
  prepare_torch_device(options);
  if (!options.normalize && !options.output_dtype && !dataset.unit_range())
    require_torch_dtype(dataset.dtype());
  if (options.target_dtype) require_torch_target(*options.target_dtype);
  // Several processes must share one seed, so the loader requires it to be set.
  if (!options.seed && options.world_size == 1) {
    auto generator = at::detail::getDefaultCPUGenerator();
    const std::lock_guard<std::mutex> lock(generator.mutex());
    options.seed = at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
  }
  return options;
}

}  // namespace detail

/// A named field of a batch. If the batch is on a GPU, so are the values of fields with `Collate::stack`; all
/// other tensors are on the CPU. See `BatchField`.
struct TorchField {
  torch::Tensor values;   ///< the field's values, stacked, padded or concatenated as its `Collate` asks
  torch::Tensor offsets;  ///< with `Collate::ragged`: B + 1 int64 offsets of the samples; else undefined
  torch::Tensor lengths;  ///< with `Collate::pad`: B int64 unpadded lengths; else undefined
};

/// A batch of a `TorchDataLoader`: LibTorch's example, extended by the other members of `Batch`.
/// `data` is (B,C,H,W) or as stored; `target` is (B), (B,K), …, or undefined if the dataset has no target.
/// Owns its tensors.
struct TorchBatch : torch::data::Example<> {
  std::vector<std::int64_t> indices;         ///< sample numbers in the dataset, in batch order
  std::map<std::string, TorchField> fields;  ///< values of `DatasetOptions::fields`, by name
  std::vector<SampleOrigin> origins;         ///< storage location of each sample; empty unless `provenance`
  std::vector<std::int64_t> sets;            ///< set of each sample of a mixture; else empty
  /// Crop and flip of each sample, in batch order, to transform masks or boxes accordingly; empty without
  /// `augment`. See `Batch::transforms`.
  std::vector<SampleTransform> transforms;
  std::uint64_t epoch = 0;   ///< epoch that the batch belongs to
  std::uint64_t number = 0;  ///< number of the batch within the epoch
  std::int64_t repeat = 0;   ///< number of earlier deliveries of this batch with `echo`; 0 for the first

  /// Supports `auto& [data, target] = batch`, as LibTorch's example does.
  template <std::size_t I, typename B>
  requires std::derived_from<std::remove_cvref_t<B>, TorchBatch>
  friend auto&& get(B&& batch) noexcept {
    if constexpr (I == 0) {
      return std::forward<B>(batch).data;
    } else {
      return std::forward<B>(batch).target;
    }
  }
};

/// `ResolvedOptions`, extended by the member names of LibTorch's `FullDataLoaderOptions`.
struct TorchLoaderOptions : ResolvedOptions {
  explicit TorchLoaderOptions(const ResolvedOptions& options)
      : ResolvedOptions(options),
        workers(static_cast<std::size_t>(options.num_workers)),
        max_jobs(options.prefetch_batches),
        enforce_ordering(options.in_order) {}

  std::size_t workers;    ///< equals `num_workers`
  std::size_t max_jobs;   ///< equals `prefetch_batches`
  bool enforce_ordering;  ///< equals `in_order`
};

namespace detail {

/// Converts a named field without copying its values. Throws DatasetError if LibTorch lacks its dtype.
inline TorchField to_torch(BatchField field) {
  require_torch_field(field.name, field.values.dtype);
  return {to_tensor(std::move(field.values)), to_tensor(std::move(field.offsets)),
          to_tensor(std::move(field.lengths))};
}

/// Converts a batch without copying its tensors. Throws DatasetError if LibTorch lacks the dtype of a field.
inline TorchBatch to_torch(Batch batch) {
  TorchBatch result;
  if (batch.gpu) {
    TorchTensors tensors = cuda_tensors(batch);
    result.data = std::move(tensors.data);
    result.target = std::move(tensors.target);
    for (auto& [name, values] : tensors.fields) result.fields[name].values = std::move(values);
  } else {
    result.data = batch.sparse.defined() ? to_sparse_tensor(std::move(batch.sparse))
                                         : cpu_tensor(std::move(batch.data));
    result.target = cpu_tensor(std::move(batch.target));
  }
  result.indices = std::move(batch.indices);
  for (BatchField& field : batch.fields) {
    std::string name = field.name;
    result.fields.emplace(std::move(name), to_torch(std::move(field)));  // unless it is there, from the GPU
  }
  result.origins = std::move(batch.origins);
  result.sets = std::move(batch.sets);
  result.transforms = std::move(batch.transforms);
  result.epoch = batch.epoch;
  result.number = batch.number;
  result.repeat = batch.repeat;
  return result;
}

}  // namespace detail

/// A `DataLoader` that delivers `TorchBatch`, on the CPU or, if h5feed and LibTorch are built with CUDA, on
/// `device`. Tensors own their memory: they may be kept, moved from and modified, and may outlive the loader.
/// GPU tensors come from LibTorch's allocator and are written on the stream that is current when the batch is
/// fetched, i.e. at the iterator's first access or comparison: use them on that stream, or call
/// `record_stream` as for any tensor of another stream. With `output_memory = ring` they are views of the
/// loader's own buffers, valid on that stream only.
///
/// The iterators, `next_into()`, `set_epoch()`, `warm_up()`, `state()`, `restore()`, `save()` and `load()`
/// are for one thread at a time; `size()`, `options()`, `plan()`, `stats()` and `report()` are thread-safe,
/// except while `restore()` or `load()` runs. LibTorch operations run only in transforms and `collate_fn`, on
/// threads of the loader.
///
/// A LibTorch sampler determines the order itself: every `begin()` resets it and drains the whole epoch. The
/// next epoch therefore is not prepared while one runs, `seed` does not affect the order, and the loader
/// keeps a list of 8 bytes per sample.
class TorchDataLoader {
 public:
  using Example = torch::data::Example<>;

  /// Creates the loader and starts its workers. Throws OptionError if an option is invalid, or if `device`
  /// names a GPU but h5feed or LibTorch was built without CUDA; DatasetError if `options` do not fit the
  /// data, or if the batches would be u16, u32 or u64, which LibTorch lacks.
  TorchDataLoader(Dataset dataset, DataLoaderOptions options)
      : provide_(detail::torch_provider(options)),
        loader_(dataset, detail::prepare_for_torch(dataset, std::move(options))),
        options_(loader_.options()) {}

  /// Creates a loader whose order comes from a LibTorch sampler, and starts its workers. Throws OptionError
  /// if an option is invalid, if `options.sampler`, `shuffle` or `batch_sampler` is set, or if `world_size`
  /// is not 1, because LibTorch's distributed samplers shard by themselves; DatasetError if `options` do not
  /// fit the data or LibTorch's dtypes.
  TorchDataLoader(Dataset dataset, std::shared_ptr<detail::TorchOrder> order, DataLoaderOptions options)
      : order_(std::move(order)),
        provide_(detail::torch_provider(options)),
        loader_(dataset, detail::prepare_for_torch(dataset, with_order(std::move(options), order_))),
        options_(loader_.options()) {}

  /// Single-pass input iterator with the semantics of LibTorch's. The first access or comparison blocks until
  /// the batch is ready. Equals `end()` only once the epoch is exhausted; dereferencing or incrementing it
  /// then throws std::out_of_range. A loop may be left early and `begin()` called again. Copies share one
  /// position and own the batch together. On a temporary iterator, as in `loader->begin()->data`, `->` gives
  /// access to LibTorch's example and `*` returns a copy that shares the tensors. A failed batch throws the
  /// errors of `DataLoader::next()`. Borrows the loader, which must outlive it. Not thread-safe.
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = TorchBatch;
    using difference_type = std::ptrdiff_t;
    using pointer = TorchBatch*;
    using reference = TorchBatch&;

    /// Constructs the end iterator.
    Iterator() : Iterator(DataLoader::Iterator()) {}

    /// Returns the current batch, which may be moved from. Blocks until it is ready.
    TorchBatch& operator*() const& { return current(); }
    /// Returns a copy of the current batch that shares its tensors. Blocks until it is ready.
    TorchBatch operator*() const&& { return current(); }
    /// Returns the current batch. Blocks until it is ready.
    TorchBatch* operator->() const& { return &current(); }
    /// Returns the current batch as LibTorch's example. Blocks until it is ready.
    Example* operator->() const&& { return &current(); }

    /// Moves to the next batch; fetches the current one first if it was never accessed. Throws
    /// std::out_of_range at the end, and as `DataLoader::next()`.
    Iterator& operator++() {
      ++position_->batches;
      position_->current.reset();
      return *this;
    }

    /// Returns true if both share one position or both are at the end. Blocks until the batch is ready.
    bool operator==(const Iterator& other) const {
      return position_ == other.position_ || position_->batches == other.position_->batches;
    }

   private:
    friend class TorchDataLoader;
    struct Position {
      DataLoader::Iterator batches;
      std::optional<TorchBatch> current;  // tensors of the current batch, once accessed
    };
    TorchBatch& current() const {
      if (!position_->current) {
        position_->current = detail::to_torch(std::move(*position_->batches));
      }
      return *position_->current;
    }
    explicit Iterator(DataLoader::Iterator batches)
        : position_(std::make_shared<Position>(Position{std::move(batches), std::nullopt})) {}

    std::shared_ptr<Position> position_;  // never null
  };

  /// Starts the next epoch and abandons a running one. Does not wait for a batch. Throws OptionError if a
  /// LibTorch sampler yields unsupported batches; rethrows what a sampler throws.
  Iterator begin() & {
    if (order_) order_->begin(next_epoch_);
    ++next_epoch_;
    return Iterator(DataLoaderAccess::begin_into(loader_, provide_));
  }
  /// Returns the end iterator.
  Iterator end() & { return {}; }
  /// Deleted: a temporary loader would be destroyed before its iterators. Keep it in a variable.
  Iterator begin() && = delete;
  /// Deleted: a temporary loader would be destroyed before its iterators. Keep it in a variable.
  Iterator end() && = delete;

  /// Writes the next batch to the caller's tensors, whose addresses stay fixed as CUDA graphs require. `data`
  /// and `target` must be on the loader's GPU and have its dtype, sample shape and strides, and a first
  /// dimension of at least the batch size; leave `target` undefined if the dataset has none. `fields` has a
  /// tensor for each named field with `Collate::stack`, and for each that says which rows of windows exist.
  /// Writes on the stream that is current for that GPU; the tensors of the result are views of the first rows
  /// of those given. Blocks until the batch is ready. Returns nullopt once at the end of an epoch; the
  /// following call starts the next epoch. If an iterator is active, takes its next batch. Throws OptionError
  /// on the CPU, for tensors that do not fit (the batch is then lost) and with a LibTorch sampler, whose
  /// epochs only `begin()` starts; otherwise the errors of `DataLoader::next()`.
  OptionalBatch<TorchBatch> next_into(const torch::Tensor& data, const torch::Tensor& target = {},
                                      const std::map<std::string, torch::Tensor>& fields = {}) {
    if (order_) {
      throw OptionError(
          "next_into() starts epochs by itself, where a sampler of LibTorch needs begin(); use "
          "options.shuffle or options.sampler instead of it");
    }
    OptionalBatch<Batch> batch = detail::next_into(loader_, data, target, fields);
    if (!batch) return std::nullopt;
    return detail::to_torch(std::move(*batch));
  }

  /// Returns the number of batches in one whole epoch, including repeats. Thread-safe.
  std::uint64_t size() const noexcept { return loader_.size(); }

  /// Sets the number of the epoch that the next `begin()` starts. Default: epochs count 0, 1, 2, … Also calls
  /// the `set_epoch()` of a LibTorch sampler that has one.
  void set_epoch(std::uint64_t epoch) {
    if (order_) order_->set_epoch(epoch);
    next_epoch_ = epoch;
    loader_.set_epoch(epoch);
  }

  /// Lets the workers prepare the first batches of the next epoch; see `DataLoader::warm_up()`. Does not
  /// wait. Does nothing while an epoch runs, without workers, or with a LibTorch sampler.
  void warm_up() {
    if (!order_) loader_.warm_up();
  }
  /// Returns the position after the batches delivered so far; see `DataLoader::state()`. Throws OptionError
  /// with `in_order = false`.
  LoaderState state() const { return loader_.state(); }
  /// Resumes at a saved state with the saved seed, which replaces this loader's; see `DataLoader::restore()`.
  /// Throws OptionError with `in_order = false`; StateError if the state does not match this loader, or was
  /// saved within an epoch and the loader has a LibTorch sampler, whose order it lacks: use `save()` and
  /// `load()` then.
  void restore(const LoaderState& state) {
    if (order_ && state.position > 0) {
      throw StateError(
          "a state saved within an epoch does not hold the order of LibTorch's sampler; use save() and "
          "load(), or options.shuffle instead of the sampler");
    }
    resume(state);
  }

  /// Writes the current state to `archive`, for `load()` of a loader with the same data and options. With a
  /// LibTorch sampler within an epoch, also writes the order of the running epoch (8 bytes per sample), but
  /// no random state for later epochs: save Torch's generator for that. Throws OptionError with
  /// `in_order = false`.
  void save(torch::serialize::OutputArchive& archive) const {
    const LoaderState saved = state();
    const std::string bytes = saved.to_bytes();
    torch::Tensor written = torch::empty({static_cast<std::int64_t>(bytes.size())}, torch::kUInt8);
    std::memcpy(written.data_ptr(), bytes.data(), bytes.size());
    archive.write("h5feed_state", written);
    if (order_ && saved.position > 0) archive.write("h5feed_order", order_->list());
  }

  /// Resumes where `save()` was called: the next `begin()` continues from there. The archive may be loaded to
  /// any device. Throws StateError if the state does not match this loader, OptionError with
  /// `in_order = false`, c10::Error if the archive holds no state; the loader is then unchanged.
  void load(torch::serialize::InputArchive& archive) {
    torch::Tensor written;
    archive.read("h5feed_state", written);
    written = written.to(torch::kCPU, torch::kUInt8).contiguous();
    const LoaderState saved = LoaderState::from_bytes(
        {static_cast<const char*>(written.data_ptr()), static_cast<std::size_t>(written.numel())});
    if (!order_ || saved.position == 0) return resume(saved);
    torch::Tensor list;
    archive.read("h5feed_order", list);
    detail::TorchOrder::Order before = order_->resume(saved.epoch, list);
    try {
      resume(saved);
    } catch (...) {
      order_->put(std::move(before));
      throw;
    }
  }

  /// Returns the predicted cost of an epoch, excluding repeats. Thread-safe. Blocks for up to about 0.2 s.
  PlanReport plan() const { return loader_.plan(); }

  /// Returns the options with every default filled in, including a seed drawn from Torch's generator or
  /// restored.
  const TorchLoaderOptions& options() const noexcept { return options_; }
  /// Returns the counters since construction and the current memory use. Thread-safe.
  LoaderStats stats() const { return loader_.stats(); }
  /// Returns a readable summary of a few lines: time, samples/s, device, wait share and its cause, hit rate,
  /// memory. Thread-safe; the first call simulates an epoch, usually 20 ms, at most about 0.2 s.
  std::string report() const { return loader_.report(); }

 private:
  void resume(const LoaderState& state) {
    loader_.restore(state);
    options_ = TorchLoaderOptions(loader_.options());  // contains the restored seed
    next_epoch_ = state.epoch;
  }

  static DataLoaderOptions with_order(DataLoaderOptions options, std::shared_ptr<const Sampler> order) {
    if (options.sampler)
      throw OptionError("options.sampler and a sampler of LibTorch exclude each other; use one of them");
    if (options.world_size > 1) {
      throw OptionError("world_size " + std::to_string(options.world_size) +
                        " with a sampler of LibTorch, which shuffles differently in each process; use "
                        "torch::data::samplers::DistributedRandomSampler and leave world_size 1, or "
                        "options.shuffle instead of the sampler");
    }
    options.sampler = std::move(order);
    // Drawing a seed would advance Torch's generator, and the sampler's order would differ from LibTorch's.
    if (!options.seed) options.seed = 0;
    return options;
  }

  const std::shared_ptr<detail::TorchOrder> order_;  // null: h5feed's own order
  const ProvideOutput provide_;                      // empty: GPU batches are stored in the loader's ring
  DataLoader loader_;
  TorchLoaderOptions options_;
  std::uint64_t next_epoch_ = 0;
};

}  // namespace h5feed

template <>
struct std::tuple_size<h5feed::TorchBatch> : std::integral_constant<std::size_t, 2> {};
template <std::size_t I>
struct std::tuple_element<I, h5feed::TorchBatch> {
  using type = torch::Tensor;
};
