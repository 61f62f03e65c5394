// SPDX-License-Identifier: Apache-2.0
// A dataset read row by row through the HDF5 C++ API, under a mutex, since libhdf5's lock does not cover that
// API.
#pragma once

#include <H5Cpp.h>
#include <torch/data/datasets/mnist.h>
#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace h5feed::peers {

/// LibTorch's optional size type: its own before 2.0, the standard one since.
using OptionalSize = decltype(std::declval<const torch::data::datasets::MNIST&>().size());

/// uint8 samples that all workers share; reads are serialized. Thread-safe.
class SharedFile {
 public:
  /// `cache_bytes` is the size of libhdf5's chunk cache.
  SharedFile(const std::string& file, const std::string& data, std::size_t cache_bytes)
      : file_(file, H5F_ACC_RDONLY, H5::FileCreatPropList::DEFAULT, cached(cache_bytes)),
        data_(file_.openDataSet(data)),
        space_(data_.getSpace()) {
    if (data_.getDataType() != H5::PredType::STD_U8LE) throw std::invalid_argument("the data is not uint8");
    shape_.resize(static_cast<std::size_t>(space_.getSimpleExtentNdims()));
    space_.getSimpleExtentDims(shape_.data());
    const H5::DSetCreatPropList plist = data_.getCreatePlist();
    if (plist.getLayout() == H5D_CHUNKED) {
      std::vector<hsize_t> chunk(shape_.size());
      plist.getChunk(static_cast<int>(chunk.size()), chunk.data());
      chunk_rows_ = chunk[0];
    }
  }

  std::size_t rows() const { return shape_[0]; }
  const std::vector<hsize_t>& shape() const { return shape_; }
  std::size_t chunk_rows() const { return chunk_rows_; }

  /// Reads a dataset of integer labels whole, as int64. Blocks for other readers.
  torch::Tensor read_labels(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const H5::DataSet labels = file_.openDataSet(name);
    torch::Tensor values = torch::empty({labels.getSpace().getSimpleExtentNpoints()}, torch::kInt64);
    labels.read(values.data_ptr(), H5::PredType::NATIVE_INT64);
    return values;
  }

  /// Returns one sample as a tensor. Blocks for other readers.
  torch::Tensor read(std::size_t row) {
    const std::vector<std::int64_t> sample_shape(shape_.begin() + 1, shape_.end());
    torch::Tensor sample = torch::empty(sample_shape, torch::kUInt8);
    std::vector<hsize_t> start(shape_.size(), 0);
    std::vector<hsize_t> count = shape_;
    start[0] = row;
    count[0] = 1;
    const std::lock_guard lock(mutex_);
    const H5::DataSpace memory(static_cast<int>(count.size()), count.data());
    space_.selectHyperslab(H5S_SELECT_SET, count.data(), start.data());
    data_.read(sample.data_ptr(), H5::PredType::NATIVE_UINT8, memory, space_);
    return sample;
  }

 private:
  static H5::FileAccPropList cached(std::size_t bytes) {
    H5::FileAccPropList plist;
    plist.setCache(0, 11213, bytes, 1.0);
    return plist;
  }

  std::mutex mutex_;
  H5::H5File file_;
  H5::DataSet data_;
  H5::DataSpace space_;
  std::vector<hsize_t> shape_;
  std::size_t chunk_rows_ = 20;
};

}  // namespace h5feed::peers
