// A DataLoader with LibTorch's face. Part of h5feed/torch.hpp.
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
#include "h5feed/dataset.hpp"
#include "h5feed/error.hpp"
#include "h5feed/optional_batch.hpp"
#include "h5feed/options.hpp"
#include "h5feed/state.hpp"
#include "h5feed/stats.hpp"
#include "h5feed/torch_device.hpp"
#include "h5feed/torch_sampler.hpp"
#include "h5feed/torch_tensor.hpp"

namespace h5feed {

namespace detail {

/// Fills in seed and GPU, and refuses types that LibTorch cannot hold before any thread is started.
inline DataLoaderOptions prepare_for_torch(const Dataset& dataset, DataLoaderOptions options) {
  prepare_torch_device(options);
  if (!options.normalize && !options.output_dtype && !dataset.unit_range())
    require_torch_dtype(dataset.dtype());
  if (options.target_dtype) require_torch_target(*options.target_dtype);
  // Several processes need one seed: the loader asks for it.
  if (!options.seed && options.world_size == 1) {
    auto generator = at::detail::getDefaultCPUGenerator();
    const std::lock_guard<std::mutex> lock(generator.mutex());
    options.seed = at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
  }
  return options;
}

}  // namespace detail

/// A named field of a batch, on the CPU whatever the device. See `BatchField`.
struct TorchField {
  torch::Tensor values;
  torch::Tensor offsets;  ///< with `Collate::ragged`: B + 1 int64, where each sample begins; else undefined
  torch::Tensor lengths;  ///< with `Collate::pad`: B int64; else undefined
};

/// What a `TorchDataLoader` delivers: LibTorch's example, whose `data` is (B,C,H,W) or as stored and whose
/// `target` is (B), (B,K), …, an undefined tensor where the dataset has no target; and where it came from.
struct TorchBatch : torch::data::Example<> {
  std::vector<std::int64_t> indices;         ///< sample numbers in the dataset, in batch order
  std::map<std::string, TorchField> fields;  ///< those of `DatasetOptions::fields`, by name
  std::vector<SampleOrigin> origins;         ///< with `provenance`: where each sample is stored
  std::vector<TorchBatch> parts = {};        ///< with `devices`: the tensors of each, and none above

  /// `auto& [data, target] = batch`, as LibTorch's example has it.
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

/// `ResolvedOptions`, and the same under the names of LibTorch's `FullDataLoaderOptions`.
struct TorchLoaderOptions : ResolvedOptions {
  explicit TorchLoaderOptions(const ResolvedOptions& options)
      : ResolvedOptions(options),
        workers(static_cast<std::size_t>(options.num_workers)),
        max_jobs(options.prefetch_batches),
        enforce_ordering(options.in_order) {}

  std::size_t workers;
  std::size_t max_jobs;
  bool enforce_ordering;
};

namespace detail {

/// Throws DatasetError for a type that LibTorch lacks.
inline TorchField to_torch(BatchField field) {
  if (!torch_dtype(field.values.dtype)) {
    throw DatasetError("field \"" + field.name + "\" is " + std::string(name_of(field.values.dtype)) +
                       ", a type LibTorch does not have; set its dtype, e.g. to f32 or a wider integer");
  }
  return {to_tensor(std::move(field.values)), to_tensor(std::move(field.offsets)),
          to_tensor(std::move(field.lengths))};
}

inline TorchBatch to_torch(Batch batch) {
  TorchBatch result;
  if (batch.gpu) {
    TorchTensors tensors = cuda_tensors(batch);
    result.data = std::move(tensors.data);
    result.target = std::move(tensors.target);
  } else if (batch.parts.empty()) {
    result.data = to_tensor(std::move(batch.data));
    result.target = to_tensor(std::move(batch.target));
  }
  result.indices = std::move(batch.indices);
  for (BatchField& field : batch.fields) {
    std::string name = field.name;
    result.fields.emplace(std::move(name), to_torch(std::move(field)));
  }
  result.origins = std::move(batch.origins);
  for (Batch& part : batch.parts) result.parts.push_back(to_torch(std::move(part)));
  return result;
}

}  // namespace detail

/// A `DataLoader` whose batches are `TorchBatch`, on the CPU or, where h5feed and LibTorch are built with
/// CUDA, on `device`. Tensors own their memory: they may be kept, moved from and modified, also after the
/// loader is gone. On a GPU they come from LibTorch's allocator and are made on the stream that is current
/// when a batch is first looked at: use them there, or as any tensor of that stream on others. With
/// `output_memory = ring` they are the loader's own buffers, for that stream alone.
///
/// Threads as for `DataLoader`: the iterators, `set_epoch()`, `warm_up()`, `state()`, `restore()`, `save()`
/// and `load()` are for one thread at a time, the rest may be called from any. Worker threads run no ATen
/// operation, but for transforms and a `collate_fn` that do.
///
/// With a sampler of LibTorch the order is the sampler's: it is reset, and asked for the whole epoch, by
/// every `begin()`, as LibTorch's loader does. So the next epoch is not prepared while one runs, `seed` has
/// no effect, and a list of 8 bytes a sample is kept.
class TorchDataLoader {
 public:
  using Example = torch::data::Example<>;

  /// Throws OptionError, also for a GPU that h5feed or LibTorch was built without; DatasetError where
  /// `options` do not fit the data, or the batches would have a type LibTorch does not have (u16, u32, u64).
  TorchDataLoader(Dataset dataset, DataLoaderOptions options)
      : loader_(dataset, detail::prepare_for_torch(dataset, std::move(options))),
        options_(loader_.options()) {}

  /// The same with a sampler of LibTorch. `options.sampler`, `shuffle` and `batch_sampler` must be unset, and
  /// `world_size` 1: the distributed samplers of LibTorch know their ranks themselves.
  TorchDataLoader(Dataset dataset, std::shared_ptr<detail::TorchOrder> order, DataLoaderOptions options)
      : order_(std::move(order)),
        loader_(dataset, detail::prepare_for_torch(dataset, with_order(std::move(options), order_))),
        options_(loader_.options()) {}

  /// Single-pass input iterator with the semantics of LibTorch's. `begin()` starts an epoch, a batch
  /// is fetched when it is first looked at (blocking until it is ready), the end is reached only when
  /// the epoch is exhausted, moving past it throws. Leaving a loop early and beginning again is fine.
  /// Copies share one position. The batch belongs to them: of a temporary iterator, as in
  /// `loader->begin()->data`, `->` shows what LibTorch's example has, `*` gives a copy that shares the
  /// tensors. Errors as for `DataLoader::next`.
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = TorchBatch;
    using difference_type = std::ptrdiff_t;
    using pointer = TorchBatch*;
    using reference = TorchBatch&;

    Iterator() : Iterator(DataLoader::Iterator()) {}

    /// The current batch; it may be moved from.
    TorchBatch& operator*() const& { return current(); }
    TorchBatch operator*() const&& { return current(); }
    TorchBatch* operator->() const& { return &current(); }
    Example* operator->() const&& { return &current(); }

    Iterator& operator++() {
      ++position_->batches;
      position_->current.reset();
      return *this;
    }

    bool operator==(const Iterator& other) const {
      return position_ == other.position_ || position_->batches == other.position_->batches;
    }

   private:
    friend class TorchDataLoader;
    struct Position {
      DataLoader::Iterator batches;
      std::optional<TorchBatch> current;  // of the batch that `batches` stands at, once looked at
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

  Iterator begin() & {
    if (order_) order_->begin(next_epoch_);
    ++next_epoch_;
    return Iterator(loader_.begin());
  }
  Iterator end() & { return {}; }
  /// A loader that has no name ends before its iterators: name it first.
  Iterator begin() && = delete;
  Iterator end() && = delete;

  /// The next batch in tensors of yours that stay, as CUDA graphs need: on the loader's GPU, of its dtype,
  /// shape and strides, with room for the batch in the first dimension; `target` undefined where there is
  /// none. Written on the stream that is current for that GPU; the tensors of the result are views of the
  /// beginning of yours. nullopt once at the end of an epoch, after which the next call starts another; where
  /// iterators run, it takes their next batch. Throws as `DataLoader::next_into`: OptionError on the CPU,
  /// with `devices`, and for tensors that do not fit; also with a sampler of LibTorch, whose epochs `begin()`
  /// starts.
  OptionalBatch<TorchBatch> next_into(const torch::Tensor& data, const torch::Tensor& target = {}) {
    if (order_) {
      throw OptionError(
          "next_into() starts epochs by itself, where a sampler of LibTorch needs begin(); use "
          "options.shuffle or options.sampler instead of it");
    }
    OptionalBatch<Batch> batch = detail::next_into(loader_, data, target);
    if (!batch) return std::nullopt;
    return detail::to_torch(std::move(*batch));
  }

  /// Batches of one epoch.
  std::size_t size() const noexcept { return loader_.size(); }

  /// The number of the epoch that the next `begin()` starts. Without it epochs count 0, 1, 2, … A sampler of
  /// LibTorch that has a `set_epoch` is told.
  void set_epoch(std::uint64_t epoch) {
    if (order_) order_->set_epoch(epoch);
    next_epoch_ = epoch;
    loader_.set_epoch(epoch);
  }

  /// As `DataLoader`'s. A run that is resumed takes over the seed that was saved, whatever Torch's generator
  /// gave this loader.
  /// With a sampler of LibTorch `warm_up()` does nothing, and `restore()` throws StateError for a state in
  /// mid-epoch, which does not hold the sampler's order: use `save()` and `load()`.
  void warm_up() {
    if (!order_) loader_.warm_up();
  }
  LoaderState state() const { return loader_.state(); }
  void restore(const LoaderState& state) {
    if (order_ && state.position > 0) {
      throw StateError(
          "a state in mid-epoch does not hold the order of LibTorch's sampler; use save() and load(), or "
          "options.shuffle instead of the sampler");
    }
    resume(state);
  }

  /// Where the run stands, for `load()` of a loader with the same data and options; with a sampler of
  /// LibTorch the running epoch's order too, 8 bytes a sample, but not what the sampler draws later epochs
  /// from (save Torch's generator for that). Throws as `state()`.
  void save(torch::serialize::OutputArchive& archive) const {
    const LoaderState saved = state();
    const std::string bytes = saved.to_bytes();
    torch::Tensor written = torch::empty({static_cast<std::int64_t>(bytes.size())}, torch::kUInt8);
    std::memcpy(written.data_ptr(), bytes.data(), bytes.size());
    archive.write("h5feed_state", written);
    if (order_ && saved.position > 0) archive.write("h5feed_order", order_->list());
  }

  /// The next `begin()` goes on where `save()` was called, whatever device the archive was loaded to. Throws
  /// StateError as `restore()`, c10::Error where the archive holds no state; the loader then is as before.
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

  PlanReport plan() const { return loader_.plan(); }

  /// Options with every default filled in, the seed drawn from Torch among them.
  const TorchLoaderOptions& options() const noexcept { return options_; }
  LoaderStats stats() const { return loader_.stats(); }
  /// A few lines for people: time, samples/s, device, wait share and its cause, hit rate, memory.
  std::string report() const { return loader_.report(); }

 private:
  void resume(const LoaderState& state) {
    loader_.restore(state);
    options_ = TorchLoaderOptions(loader_.options());  // with the seed of the state
    next_epoch_ = state.epoch;
  }

  static DataLoaderOptions with_order(DataLoaderOptions options, std::shared_ptr<const Sampler> order) {
    if (options.sampler)
      throw OptionError("options.sampler is set beside a sampler of LibTorch; use one of them");
    if (options.world_size > 1) {
      throw OptionError("world_size " + std::to_string(options.world_size) +
                        " beside a sampler of LibTorch, which shuffles differently in each process; use "
                        "torch::data::samplers::DistributedRandomSampler and leave world_size 1, or "
                        "options.shuffle instead of the sampler");
    }
    options.sampler = std::move(order);
    // Not drawn from Torch's generator, which the sampler is to find as LibTorch's loader would leave it.
    if (!options.seed) options.seed = 0;
    return options;
  }

  const std::shared_ptr<detail::TorchOrder> order_;  // null: the loader's own order
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
