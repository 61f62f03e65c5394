// SPDX-License-Identifier: Apache-2.0
// An HDF5 dataset as a LibTorch dataset. Part of h5feed/torch.hpp.
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

/// Splits a batch into examples that are views of its tensors. If the batch has no target, every example gets
/// an empty int64 target, because LibTorch's Stack requires defined tensors.
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

// A separate namespace keeps argument-dependent lookup inside LibTorch's make_data_loader from finding
// h5feed's.
namespace datasets {

/// An HDF5 dataset for LibTorch's own loader, samplers and transforms:
///
///   auto data = h5feed::TorchDataset(
///                   h5feed::Dataset::open({.files = {"train.h5"}, .target = "labels", .unit_range = true}))
///                   .map(torch::data::transforms::Normalize<>(0.5, 0.5))
///                   .map(torch::data::transforms::Stack<>());
///   auto loader = torch::data::make_data_loader(
///       std::move(data), torch::data::DataLoaderOptions(64).workers(4));
///
/// `h5feed::make_data_loader` takes the same `data` and is faster: it knows the order of the epoch, reads
/// ahead, and if possible decodes each chunk once per epoch.
///
/// Copies share one `SampleReader` and its cache, so the copies that LibTorch makes for its workers decode a
/// chunk once as long as it stays cached. Concurrent calls of `get()` and `get_batch()` are safe; they block
/// for reads and decoding. Examples are views of one tensor per batch, with samples of shape (C,H,W) or as
/// stored, in the stored dtype, or float32 with `options.normalize`. Without a target in the dataset, their
/// target is an empty tensor. `unit_range`, in `options` or in the dataset's options, scales images to
/// float32 in 0 … 1, as LibTorch's own datasets do and as the mean and std of most examples expect.
class TorchDataset : public torch::data::datasets::Dataset<TorchDataset> {
 public:
  /// Creates a dataset with a reader that all copies share. Throws OptionError if an option is invalid, if
  /// samples are delivered as CSR, or if LibTorch lacks `options.target_dtype`; DatasetError if `options` do
  /// not fit the data, or if its dtype is u16, u32 or u64, which LibTorch lacks, and neither `normalize` nor
  /// `unit_range` makes it float32.
  explicit TorchDataset(h5feed::Dataset dataset, SampleReaderOptions options = {})
      : reader_(std::make_shared<const SampleReader>(std::move(dataset), std::move(options))) {
    if (reader_->dataset().delivers_csr()) {
      throw OptionError(
          "the samples are sparse rows, which LibTorch cannot take out of a batch one by one; set "
          "sparse.format = dense, or give the dataset to h5feed::make_data_loader");
    }
    if (!reader_->options().normalize) detail::require_torch_dtype(reader_->dataset().dtype());
    if (reader_->options().target_dtype) detail::require_torch_target(*reader_->options().target_dtype);
  }

  /// Returns one sample. Thread-safe; blocks for reads and decoding. Throws OptionError if `index` is out of
  /// range, FileError, ChunkError or std::bad_alloc.
  torch::data::Example<> get(std::size_t index) override {
    const std::size_t one[] = {index};
    return std::move(get_batch(one).front());
  }

  /// Returns the samples `indices`, in that order; repeats are allowed. Thread-safe; blocks for reads and
  /// decoding. Throws OptionError if an index is out of range, FileError, ChunkError or std::bad_alloc.
  std::vector<torch::data::Example<>> get_batch(torch::ArrayRef<std::size_t> indices) override {
    std::vector<std::int64_t> samples;
    samples.reserve(indices.size());
    for (const std::size_t index : indices) samples.push_back(static_cast<std::int64_t>(index));
    Batch batch = reader_->read(samples);
    return detail::unstack(
        {detail::to_tensor(std::move(batch.data)), detail::to_tensor(std::move(batch.target))});
  }

  /// Returns the number of samples; never nullopt.
  torch::optional<std::size_t> size() const override {
    return static_cast<std::size_t>(reader_->dataset().size());
  }

  /// Returns the reader that all copies of this dataset share. The reference is valid while a copy exists.
  const SampleReader& reader() const& noexcept { return *reader_; }
  /// Deleted: the result would refer into a temporary. Name the dataset first.
  const SampleReader& reader() const&& = delete;

 private:
  std::shared_ptr<const SampleReader> reader_;
};

}  // namespace datasets

using datasets::TorchDataset;

}  // namespace h5feed
