// SPDX-License-Identifier: Apache-2.0
#include "ladder/feed.hpp"

#include <torch/data/dataloader.h>
#include <torch/data/samplers/random.h>
#include <torch/data/transforms/stack.h>
#include <torch/data/transforms/tensor.h>
#include <h5feed/torch.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "benchmarks/peers/shared_file.hpp"
#include "examples/training_device.hpp"

namespace h5feed::ladder {
namespace {

using peers::SharedFile;
using torch::data::Example;

/// Feeds from loaders of one type, which is LibTorch's or h5feed's.
template <typename Loader>
class LoaderFeed final : public Feed {
 public:
  /// `keep`: one loader serves all epochs; else each epoch makes its own.
  LoaderFeed(std::function<std::unique_ptr<Loader>()> make, bool keep, std::vector<std::int64_t> shape)
      : make_(std::move(make)), keep_(keep), shape_(std::move(shape)) {}

  void start_epoch(std::uint64_t epoch) override {
    position_.reset();
    if (!loader_ || !keep_) {
      loader_.reset();
      loader_ = make_();
      if constexpr (std::is_same_v<Loader, TorchDataLoader>) loader_->set_epoch(epoch);
    }
    position_.emplace(loader_->begin());
    at_first_ = true;
  }

  std::optional<Example<>> next() override {
    if (!std::exchange(at_first_, false)) ++*position_;
    if (*position_ == loader_->end()) return std::nullopt;
    return Example<>{std::move((*position_)->data), std::move((*position_)->target)};
  }

  std::int64_t size() const override { return shape_.front(); }
  std::vector<std::int64_t> sample_shape() const override { return {shape_.begin() + 1, shape_.end()}; }

 private:
  const std::function<std::unique_ptr<Loader>()> make_;
  const bool keep_;
  const std::vector<std::int64_t> shape_;  // of the whole dataset
  std::unique_ptr<Loader> loader_;
  std::optional<decltype(std::declval<Loader&>().begin())> position_;
  bool at_first_ = true;
};

/// The dataset that one writes first: one row a read, and each sample made float32 when it is read.
class Rows : public torch::data::datasets::Dataset<Rows> {
 public:
  Rows(std::shared_ptr<SharedFile> file, torch::Tensor labels, bool as_float)
      : file_(std::move(file)), labels_(std::move(labels)), as_float_(as_float) {}

  Example<> get(std::size_t index) override {
    torch::Tensor image = file_->read(index);
    if (as_float_) image = image.to(torch::kFloat32).div_(255);
    return {std::move(image), labels_[static_cast<std::int64_t>(index)]};
  }
  peers::OptionalSize size() const override { return file_->rows(); }

 private:
  std::shared_ptr<SharedFile> file_;
  torch::Tensor labels_;
  bool as_float_;
};

template <typename Samples>
std::unique_ptr<Feed> libtorch_feed(const Samples& samples, const Settings& settings, bool workers,
                                    std::vector<std::int64_t> shape) {
  const auto options = torch::data::DataLoaderOptions(static_cast<std::size_t>(settings.batch_size))
                           .workers(workers ? static_cast<std::size_t>(settings.num_workers) : 0);
  const auto make = [samples, options] {
    return torch::data::make_data_loader<torch::data::samplers::RandomSampler>(samples, options);
  };
  using Loader = typename decltype(make())::element_type;
  return std::make_unique<LoaderFeed<Loader>>(make, /*keep=*/false, std::move(shape));
}

std::unique_ptr<Feed> libtorch_feed(Rung rung, const Settings& settings) {
  const auto file = std::make_shared<SharedFile>(settings.file, settings.data, kCacheOfLibhdf5);
  const std::vector<std::int64_t> shape(file->shape().begin(), file->shape().end());
  const Rows rows(file, file->read_labels(settings.target), rung < Rung::late);
  namespace transforms = torch::data::transforms;
  if (rung >= Rung::late) return libtorch_feed(Rows(rows).map(transforms::Stack<>()), settings, true, shape);
  return libtorch_feed(Rows(rows).map(transforms::Normalize<>(kMean, kStd)).map(transforms::Stack<>()),
                       settings, rung >= Rung::workers, shape);
}

std::unique_ptr<Feed> h5feed_feed(Rung rung, const Settings& settings, torch::Device device) {
  const auto data =
      Dataset::open({.files = {settings.file}, .data = settings.data, .target = settings.target});
  DataLoaderOptions options{
      .batch_size = settings.batch_size, .seed = settings.seed, .num_workers = settings.num_workers};
  options.shuffle = rung >= Rung::chunks ? Shuffle(settings.order) : Shuffle(true);
  options.cache_bytes = rung >= Rung::chunks ? settings.cache_bytes : kCacheOfLibhdf5;
  if (rung >= Rung::pinned) options.device = example::loader_device(device);
  if (rung >= Rung::echo) options.echo = {.factor = kEchoFactor};
  std::vector<std::int64_t> shape = data.sample_shape();
  shape.insert(shape.begin(), data.size());
  return std::make_unique<LoaderFeed<TorchDataLoader>>(
      [data, options] { return make_data_loader(data, options); }, rung >= Rung::gapless, std::move(shape));
}

}  // namespace

std::unique_ptr<Feed> make_feed(Rung rung, const Settings& settings, torch::Device device) {
  return rung >= Rung::h5feed ? h5feed_feed(rung, settings, device) : libtorch_feed(rung, settings);
}

}  // namespace h5feed::ladder
