// SPDX-License-Identifier: Apache-2.0
// An HDF5 dataset as a dataset of LibTorch. Part of h5feed/torch.hpp.
#pragma once

#include <torch/data/datasets/base.h>
#include <torch/data/example.h>
#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "h5feed/batch.hpp"
#include "h5feed/dataset.hpp"
#include "h5feed/error.hpp"
#include "h5feed/sample_reader.hpp"
#include "h5feed/torch/tensor.hpp"

namespace h5feed {

namespace detail {

/// The examples of a batch, as views of its tensors. Where there is no target each gets an empty one, since
/// LibTorch's Stack stacks them.
inline std::vector<torch::data::Example<>> unstack(const torch::data::Example<>& batch) {
  std::vector<torch::data::Example<>> examples;
  const std::int64_t count = batch.data.size(0);
  examples.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    examples.emplace_back(batch.data.select(0, i), batch.target.defined() ? batch.target.select(0, i)
                                                                          : torch::empty({0}, torch::kInt64));
  }
  return examples;
}

}  // namespace detail

// Apart, so that argument-dependent lookup from within LibTorch's make_data_loader does not find h5feed's.
namespace datasets {

/// For LibTorch's own loader, samplers and transforms:
///
///   auto data = h5feed::TorchDataset(
///                   h5feed::Dataset::open({.files = {"train.h5"}, .target = "labels", .unit_range = true}))
///                   .map(torch::data::transforms::Normalize<>(0.5, 0.5))
///                   .map(torch::data::transforms::Stack<>());
///   auto loader = torch::data::make_data_loader(std::move(data),
///   torch::data::DataLoaderOptions(64).workers(4));
///
/// The same `data` goes into `h5feed::make_data_loader`, which is faster: it knows the order of the epoch,
/// reads ahead, and decodes each chunk once an epoch where it can.
///
/// Copies share one `SampleReader`, so the copies that LibTorch makes for its workers decode each chunk once
/// together as long as it stays in the cache. `get()` and `get_batch()` may be called from any number of
/// threads, and block for reads and decoding. Examples are views of one tensor a batch, (C,H,W) or as stored,
/// in the stored type, float32 with `options.normalize`; without a target they have an empty one.
/// `unit_range`, here or where the dataset is opened, makes images float32 in 0 … 1, as LibTorch's own
/// datasets give them and the mean and std of most examples expect.
class TorchDataset : public torch::data::datasets::Dataset<TorchDataset> {
 public:
  /// Throws as `SampleReader`; DatasetError for types that LibTorch does not have (u16, u32, u64).
  explicit TorchDataset(h5feed::Dataset dataset, SampleReaderOptions options = {})
      : reader_(std::make_shared<const SampleReader>(std::move(dataset), std::move(options))) {
    if (!reader_->options().normalize) detail::require_torch_dtype(reader_->dataset().dtype());
    if (reader_->options().target_dtype) detail::require_torch_target(*reader_->options().target_dtype);
  }

  torch::data::Example<> get(std::size_t index) override {
    const std::size_t one[] = {index};
    return std::move(get_batch(one).front());
  }

  std::vector<torch::data::Example<>> get_batch(torch::ArrayRef<std::size_t> indices) override {
    std::vector<std::int64_t> samples;
    samples.reserve(indices.size());
    for (const std::size_t index : indices) samples.push_back(static_cast<std::int64_t>(index));
    Batch batch = reader_->read(samples);
    return detail::unstack(
        {detail::to_tensor(std::move(batch.data)), detail::to_tensor(std::move(batch.target))});
  }

  torch::optional<std::size_t> size() const override {
    return static_cast<std::size_t>(reader_->dataset().size());
  }

  /// Shared by all copies.
  const SampleReader& reader() const& noexcept { return *reader_; }
  const SampleReader& reader() const&& = delete;

 private:
  std::shared_ptr<const SampleReader> reader_;
};

}  // namespace datasets

using datasets::TorchDataset;

}  // namespace h5feed
