// SPDX-License-Identifier: Apache-2.0
// One walk of libhdf5 over a chunk index, for libraries without H5Dchunk_iter. Internal to chunk_index.cpp.
#pragma once

#include "store/index/recording_driver.hpp"

#if !H5FEED_HAVE_CHUNK_ITER

#include <H5Cpp.h>

#include <cstdint>
#include <vector>

#include "store/format/dataset_info.hpp"
#include "store/hdf5/hdf5_session.hpp"
#include "store/index/chunk_index.hpp"
#include "store/index/entry_check.hpp"

namespace h5feed {

/// The chunks of a dataset that its index may list, in ascending order, each once.
class Candidates {
 public:
  /// All of the first `count`.
  explicit Candidates(std::uint64_t count) : all_(true), count_(count) {}
  /// Only these; they may be in any order, and several times.
  explicit Candidates(std::vector<std::uint64_t> chunks);

  std::uint64_t size() const noexcept { return count_; }
  std::uint64_t operator[](std::uint64_t i) const noexcept { return all_ ? i : chunks_[i]; }

 private:
  bool all_ = false;
  std::vector<std::uint64_t> chunks_;
  std::uint64_t count_ = 0;
};

/// The result of a walk of libhdf5 over a chunk index: how many entries it has, and of which chunks.
struct IndexWalk {
  bool whole = false;        ///< libhdf5 came to its end
  std::uint64_t listed = 0;  ///< Entries, if it did
  Candidates candidates;  ///< Those of a version 1 B-tree are the ones that it lists; else all of the dataset
  Misplaced misplaced;    ///< Entries of a version 1 B-tree that are out of place
};

/// Walks the index of `dataset` once; `file`, which it is in, was opened by `open_recorded`. The nodes of a
/// version 1 B-tree are read as they pass: to ask libhdf5 for each entry would walk the index each time, and
/// to ask for each chunk of the dataset would take as long for a sparse dataset as for a full one. Throws
/// H5::Exception.
IndexWalk walk_index(const H5::H5File& file, const H5::DataSet& dataset, const DatasetInfo& info,
                     const ChunkIndex& index) H5FEED_REQUIRES(hdf5_mutex);

}  // namespace h5feed

#endif
