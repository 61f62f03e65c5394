// SPDX-License-Identifier: Apache-2.0
// Runs chains of LibTorch transforms on the workers of a TorchDataLoader. Part of h5feed/torch.hpp.
#pragma once

#include <torch/data/dataloader.h>  // required by map.h of LibTorch 1.13
#include <torch/data/datasets/map.h>
#include <torch/data/example.h>
#include <torch/data/transforms/stack.h>
#include <torch/data/transforms/tensor.h>
#include <torch/types.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <type_traits>
#include <utility>
#include <vector>

#include "h5feed/batch.hpp"
#include "h5feed/dataset.hpp"
#include "h5feed/dtype.hpp"
#include "h5feed/error.hpp"
#include "h5feed/log.hpp"
#include "h5feed/options.hpp"
#include "h5feed/torch/dataset.hpp"
#include "h5feed/torch/tensor.hpp"

namespace h5feed::detail {

/// Warns once if LibTorch's `normalize` is for values in 0 … 1 but gets the unscaled integers of `dataset`:
/// training would go on with values that are up to 255 times too large. Data that an earlier transform has
/// made floating-point is taken for scaled.
inline void warn_of_unscaled(const std::vector<torch::data::Example<>>& examples,
                             const torch::data::transforms::Normalize<>& normalize, const Dataset& dataset) {
  if (examples.empty() || !at::isIntegralType(examples.front().data.scalar_type(), false)) return;
  const auto least = [](const torch::Tensor& values) { return values.min().item<double>(); };
  const auto most = [](const torch::Tensor& values) { return values.max().item<double>(); };
  const torch::Tensor& mean = normalize.mean;
  const torch::Tensor& stddev = normalize.stddev;
  if (mean.numel() == 0 || stddev.numel() == 0) return;
  if (least(mean) < 0 || most(mean) > 1 || least(stddev) < 0 || most(stddev) > 1) return;
  if (most(mean) == 0 && least(stddev) == 1) return;  // changes nothing
  std::ostringstream line;
  line << "torch::data::transforms::Normalize: mean " << mean.flatten()[0].item<double>() << " and std "
       << stddev.flatten()[0].item<double>() << " are for values in 0 … 1, but the data is "
       << name_of(dataset.dtype()) << " and is not scaled; "
       << (dataset.dtype() == DType::u8
               ? "open the dataset with .unit_range = true (a TorchDataset may set it too)"
               : "set normalize.scale in the options of the TorchDataset");
  log_once(LogLevel::warning, line.str());
}

/// Transforms of a `.map()` chain on a TorchDataset. The call operator converts a gathered batch to the
/// result that LibTorch's loader would deliver. Not thread-safe: every thread needs its own copy.
template <typename D>
struct TorchStages;

template <>
struct TorchStages<TorchDataset> {
  explicit TorchStages(TorchDataset dataset)
      : source(std::move(dataset)), normalize(source.reader().options().normalize) {}

  std::vector<torch::data::Example<>> operator()(const torch::data::Example<>& batch) {
    return unstack(batch);
  }
  /// Returns whether no transform has to run after gathering.
  bool done() const noexcept { return true; }

  TorchDataset source;
  std::optional<Normalize> normalize;  ///< normalization applied while gathering
};

template <typename Source, typename Transform>
struct TorchStages<torch::data::datasets::MapDataset<Source, Transform>> {
  explicit TorchStages(torch::data::datasets::MapDataset<Source, Transform> dataset)
      : before(dataset.dataset()), transform(dataset.transform()) {}

  auto operator()(const torch::data::Example<>& batch) {
    if constexpr (std::is_same_v<Transform, torch::data::transforms::Normalize<>>) {
      auto examples = before(batch);
      warn_of_unscaled(examples, transform, innermost(before).source.reader().dataset());
      return transform.apply_batch(std::move(examples));
    } else {
      return transform.apply_batch(before(batch));
    }
  }
  /// Returns whether no transform has to run after gathering.
  bool done() const noexcept {
    return std::is_same_v<Transform, torch::data::transforms::Stack<torch::data::Example<>>> && before.done();
  }

  TorchStages<Source> before;
  Transform transform;
};

/// Fuses a LibTorch Normalize mapped directly on the dataset into the loader's own normalization, which runs
/// while gathering. Not fused: samples that are not (C,H,W); float64 data without normalization, which
/// LibTorch would keep; data that already has a mean or std.
template <>
struct TorchStages<torch::data::datasets::MapDataset<TorchDataset, torch::data::transforms::Normalize<>>> {
  using Transform = torch::data::transforms::Normalize<>;

  explicit TorchStages(torch::data::datasets::MapDataset<TorchDataset, Transform> dataset)
      : before(dataset.dataset()), transform(dataset.transform()) {
    fused = fuse();
  }

  std::vector<torch::data::Example<>> operator()(const torch::data::Example<>& batch) {
    auto examples = before(batch);
    if (fused) return examples;
    warn_of_unscaled(examples, transform, before.source.reader().dataset());
    return transform.apply_batch(std::move(examples));
  }
  /// Returns whether no transform has to run after gathering.
  bool done() const noexcept { return fused; }

  TorchStages<TorchDataset> before;
  Transform transform;
  bool fused = false;

 private:
  static std::vector<double> values_of(const torch::Tensor& tensor) {
    const torch::Tensor values = tensor.to(torch::kFloat64).contiguous();
    return {values.data_ptr<double>(), values.data_ptr<double>() + values.numel()};
  }

  bool fuse() {
    const SampleReader& reader = before.source.reader();
    Normalize normalize = before.normalize.value_or(Normalize{1.0, {}, {}});
    if (!normalize.mean.empty() || !normalize.std.empty()) return false;
    if (!before.normalize && reader.dataset().dtype() == DType::f64) return false;
    if (reader.dataset().sample_shape().size() != 3) return false;
    normalize.mean = values_of(transform.mean);
    normalize.std = values_of(transform.stddev);
    try {
      SampleReaderOptions options = reader.options();
      options.normalize = normalize;
      const SampleReader accepted(reader.dataset(), options);
    } catch (const OptionError&) {
      return false;  // value count differs from channel count, or a std is 0
    }
    before.normalize = std::move(normalize);
    return true;
  }
};

/// Returns the stage of the TorchDataset at the start of the chain.
template <typename Source, typename Transform>
TorchStages<TorchDataset>& innermost(
    TorchStages<torch::data::datasets::MapDataset<Source, Transform>>& stages) {
  if constexpr (std::is_same_v<Source, TorchDataset>) {
    return stages.before;
  } else {
    return innermost(stages.before);
  }
}
/// Returns `stages`, a chain without transforms.
inline TorchStages<TorchDataset>& innermost(TorchStages<TorchDataset>& stages) { return stages; }

/// True for TorchDataset and for chains of `.map()` on one.
template <typename D>
struct IsTorchChain : std::is_same<D, TorchDataset> {};
template <typename Source, typename Transform>
struct IsTorchChain<torch::data::datasets::MapDataset<Source, Transform>> : IsTorchChain<Source> {};

/// A `collate_fn` that runs the stages on the calling thread. Thread-safe: every concurrent call uses its own
/// copy of the transforms, and copies are reused. A call that throws discards its copy.
template <typename D>
class TorchCollate {
  using Stages = TorchStages<D>;
  using Output = std::invoke_result_t<Stages&, const torch::data::Example<>&>;
  static constexpr bool kStacked = std::same_as<Output, torch::data::Example<>>;
  static_assert(kStacked || std::same_as<Output, std::vector<torch::data::Example<>>>,
                "h5feed::make_data_loader delivers torch::data::Example<>: end the chain with "
                "torch::data::transforms::Stack<>, or give it to torch::data::make_data_loader");

 public:
  /// Creates a collate function from `stages`. `batched`: whether the loader's tensors have a batch
  /// dimension; if not, transforms run on a batch of one.
  TorchCollate(Stages stages, bool batched)
      : shared_(std::make_shared<Shared>(std::move(stages))), batched_(batched) {}

  /// Replaces `data` and `target` of `batch` by the transformed tensors; does nothing for an empty batch.
  /// Throws DatasetError if the result has a dtype that h5feed lacks; rethrows what a transform throws.
  void operator()(Batch& batch) const {
    if (batch.size() == 0) return;
    if (batch.sparse.defined()) {
      throw OptionError(
          "transforms of LibTorch are for dense samples, and these are sparse rows; set sparse.format = "
          "dense");
    }
    std::unique_ptr<Stages> stages = take();
    torch::data::Example<> gathered(to_tensor(std::move(batch.data)), to_tensor(std::move(batch.target)));
    if (!batched_) each(gathered, [](const torch::Tensor& sample) { return sample.unsqueeze(0); });
    torch::data::Example<> made = run(*stages, gathered);
    if (!batched_) each(made, [](const torch::Tensor& one) { return one.select(0, 0); });
    batch.data = to_host_tensor(std::move(made.data));
    batch.target = to_host_tensor(std::move(made.target));
    give_back(std::move(stages));
  }

 private:
  struct Shared {
    explicit Shared(Stages stages) : prototype(std::move(stages)) {}
    std::mutex mutex;
    const Stages prototype;
    std::vector<std::unique_ptr<Stages>> idle;
  };

  template <typename Change>
  static void each(torch::data::Example<>& example, const Change& change) {
    for (torch::Tensor* const tensor : {&example.data, &example.target}) {
      if (tensor->defined() && tensor->numel() > 0) *tensor = change(*tensor);
    }
  }

  static torch::data::Example<> run(Stages& stages, const torch::data::Example<>& batch) {
    if constexpr (kStacked) {
      return stages(batch);
    } else {
      return torch::data::transforms::Stack<>().apply_batch(stages(batch));
    }
  }

  std::unique_ptr<Stages> take() const {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->idle.empty()) return std::make_unique<Stages>(shared_->prototype);
    std::unique_ptr<Stages> stages = std::move(shared_->idle.back());
    shared_->idle.pop_back();
    return stages;
  }

  void give_back(std::unique_ptr<Stages> stages) const {
    const std::lock_guard lock(shared_->mutex);
    shared_->idle.push_back(std::move(stages));
  }

  std::shared_ptr<Shared> shared_;
  bool batched_;
};

}  // namespace h5feed::detail
