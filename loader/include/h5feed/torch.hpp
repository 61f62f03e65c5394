// The loader for LibTorch: batches arrive as tensors, in the loop LibTorch users write.
//
//   auto loader = h5feed::make_data_loader(h5feed::Dataset::open({.files = {"train.h5"}}), options);
//   for (auto& batch : *loader) train(batch.data, batch.target);
//
// Link h5feed::torch. Header-only, so that h5feed itself does not depend on a LibTorch.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <torch/data/example.h>
#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "h5feed/batch.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/dataset.hpp"
#include "h5feed/dtype.hpp"
#include "h5feed/error.hpp"
#include "h5feed/options.hpp"
#include "h5feed/state.hpp"
#include "h5feed/stats.hpp"

namespace h5feed {

namespace detail {

/// Torch's name for a type; nullopt for u16, u32 and u64, which LibTorch lacks or can hardly compute
/// with.
inline std::optional<torch::Dtype> torch_dtype(DType dtype) noexcept {
  switch (dtype) {
    case DType::u8:
      return torch::kUInt8;
    case DType::i8:
      return torch::kInt8;
    case DType::i16:
      return torch::kInt16;
    case DType::i32:
      return torch::kInt32;
    case DType::i64:
      return torch::kInt64;
    case DType::f16:
      return torch::kFloat16;
    case DType::f32:
      return torch::kFloat32;
    case DType::f64:
      return torch::kFloat64;
    case DType::bf16:
      return torch::kBFloat16;
    case DType::u16:
    case DType::u32:
    case DType::u64:
      break;
  }
  return std::nullopt;
}

/// The same bytes as a tensor, without a copy; the tensor's storage shares their ownership. Undefined
/// where `host` is.
inline torch::Tensor to_tensor(HostTensor host) {
  if (!host.defined()) return {};
  void* const bytes = host.bytes.get();
  return torch::from_blob(
      bytes, host.shape, [owner = std::move(host.bytes)](void*) mutable { owner.reset(); },
      torch::TensorOptions().dtype(torch_dtype(host.dtype).value()));
}

/// Fills in the seed, and refuses types that LibTorch cannot hold, and GPUs, before any thread is started.
inline DataLoaderOptions prepare_for_torch(const Dataset& dataset, DataLoaderOptions options) {
  if (options.device.starts_with("cuda")) {
    throw OptionError("device \"" + options.device +
                      "\": batches of a TorchDataLoader are on the CPU; move them with to(), or use "
                      "h5feed::DataLoader for batches on the GPU");
  }
  options.device_backend.reset();
  if (!options.normalize && !torch_dtype(dataset.dtype())) {
    const std::string name(name_of(dataset.dtype()));
    throw DatasetError(
        "the data is " + name +
        ", a type LibTorch does not have; set options.normalize = {.scale = 1.0} to get its values "
        "as float32");
  }
  if (options.target_dtype && !torch_dtype(*options.target_dtype)) {
    throw OptionError("target_dtype " + std::string(name_of(*options.target_dtype)) +
                      ": LibTorch does not have this type; leave target_dtype unset for int64, or use f32");
  }
  // Several processes need one seed: the loader asks for it.
  if (!options.seed && options.world_size == 1) {
    auto generator = at::detail::getDefaultCPUGenerator();
    const std::lock_guard<std::mutex> lock(generator.mutex());
    options.seed = at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
  }
  return options;
}

}  // namespace detail

/// A `DataLoader` whose batches are `torch::data::Example<>`: `data` (B,C,H,W) or as stored, `target`
/// (B), (B,K), … on the CPU, an undefined tensor where the dataset has no target. Tensors own their
/// memory: they may be kept, moved from and modified, also after the loader is gone.
///
/// Threads as for `DataLoader`: the iterators, `set_epoch()`, `warm_up()`, `state()` and `restore()` are for
/// one thread at a time, the rest may be called from any. Worker threads run no ATen operation.
class TorchDataLoader {
 public:
  using Example = torch::data::Example<>;

  /// Throws OptionError, also for a `device` that is a GPU; DatasetError where `options` do not fit the
  /// data, or the batches would have a type LibTorch does not have (u16, u32, u64).
  TorchDataLoader(Dataset dataset, DataLoaderOptions options)
      : loader_(dataset, detail::prepare_for_torch(dataset, std::move(options))) {}

  /// Single-pass input iterator with the semantics of LibTorch's. `begin()` starts an epoch, a batch
  /// is fetched when it is first looked at (blocking until it is ready), the end is reached only when
  /// the epoch is exhausted, moving past it throws. Leaving a loop early and beginning again is fine.
  /// Copies share one position. Errors as for `DataLoader::next`.
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Example;
    using difference_type = std::ptrdiff_t;
    using pointer = Example*;
    using reference = Example&;

    Iterator() : Iterator(DataLoader::Iterator()) {}

    /// The current batch; it may be moved from.
    Example& operator*() const {
      if (!position_->example) {
        Batch& batch = *position_->batches;
        position_->example.emplace(detail::to_tensor(std::move(batch.data)),
                                   detail::to_tensor(std::move(batch.target)));
      }
      return *position_->example;
    }
    Example* operator->() const { return &**this; }

    Iterator& operator++() {
      ++position_->batches;
      position_->example.reset();
      return *this;
    }

    bool operator==(const Iterator& other) const {
      return position_ == other.position_ || position_->batches == other.position_->batches;
    }

   private:
    friend class TorchDataLoader;
    struct Position {
      DataLoader::Iterator batches;
      std::optional<Example> example;  // of the batch that `batches` stands at, once looked at
    };
    explicit Iterator(DataLoader::Iterator batches)
        : position_(std::make_shared<Position>(Position{std::move(batches), std::nullopt})) {}

    std::shared_ptr<Position> position_;  // never null
  };

  Iterator begin() { return Iterator(loader_.begin()); }
  Iterator end() { return {}; }

  /// Batches of one epoch.
  std::size_t size() const noexcept { return loader_.size(); }

  /// The number of the epoch that the next `begin()` starts. Without it epochs count 0, 1, 2, …
  void set_epoch(std::uint64_t epoch) { loader_.set_epoch(epoch); }

  /// As `DataLoader`'s. A run that is resumed takes over the seed that was saved, whatever Torch's generator
  /// gave this loader.
  void warm_up() { loader_.warm_up(); }
  LoaderState state() const { return loader_.state(); }
  void restore(const LoaderState& state) { loader_.restore(state); }

  PlanReport plan() const { return loader_.plan(); }

  /// Options with every default filled in, the seed drawn from Torch among them.
  const ResolvedOptions& options() const noexcept { return loader_.options(); }
  LoaderStats stats() const { return loader_.stats(); }
  /// A few lines for people: time, samples/s, wait share and its cause, hit rate, memory.
  std::string report() const { return loader_.report(); }

 private:
  DataLoader loader_;
};

/// A loader over `dataset`. Where `options.seed` is unset it is drawn from Torch's default generator,
/// so that `torch::manual_seed` governs the order. Throws as the constructor of `TorchDataLoader`.
inline std::unique_ptr<TorchDataLoader> make_data_loader(Dataset dataset, DataLoaderOptions options = {}) {
  return std::make_unique<TorchDataLoader>(std::move(dataset), std::move(options));
}

}  // namespace h5feed
