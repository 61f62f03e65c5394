// SPDX-License-Identifier: Apache-2.0
// Named fields as parts of a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "batch/row_kernel.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/batch.hpp"

namespace h5feed {

/// Shape of `count` samples of shape `sample`; of one without `batched`.
std::vector<std::int64_t> batch_shape(std::size_t count, bool batched,
                                      const std::vector<std::int64_t>& sample);

/// A field of samples of one shape, whose values come to `bytes` one sample behind the other.
BatchField make_field(const NamedField& field, std::size_t count, bool batched,
                      std::shared_ptr<std::byte> bytes);

/// A field of samples that differ in length, with memory of its own: zeros where `samples`, the batch's, will
/// not come. Throws std::bad_alloc.
BatchField make_ragged_field(const NamedField& field, const std::vector<std::int64_t>& samples, bool batched);

/// Reads samples of a ragged field. Immutable and thread-safe.
class RaggedRows {
 public:
  /// `field` outlives it and is ragged. Throws OptionError as `row_kernel_spec`.
  explicit RaggedRows(const NamedField& field);

  /// Reads sample number `sample`, which is at `position` of a batch, into `outs`: the batch's part and those
  /// of its echoes, all made by `make_ragged_field` of the same samples. Blocks. Throws FileError,
  /// ChunkError, OptionError for a value that the field's integer type cannot hold, std::bad_alloc.
  ReadCost read(std::int64_t sample, std::size_t position, std::span<BatchField* const> outs) const;

 private:
  void check_range(std::int64_t sample, std::uint64_t row, std::span<const std::byte> stored) const;

  const NamedField& field_;
  const std::unique_ptr<const RowKernel> kernel_;
  const std::size_t to_bytes_;  // of a delivered element
  const bool narrows_;          // to an integer type that may not hold what is stored
};

}  // namespace h5feed
