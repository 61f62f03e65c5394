// SPDX-License-Identifier: Apache-2.0
// Builds the parts of a batch that hold named fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/byte_buffer.hpp"
#include "batch/row_kernel.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/batch.hpp"

namespace h5feed {

/// Returns the shape of `count` samples of shape `sample`; without `batched`, the shape of one sample.
std::vector<std::int64_t> batch_shape(std::size_t count, bool batched,
                                      const std::vector<std::int64_t>& sample);

/// Returns memory of at least one byte, so that an empty tensor has an address. Its contents are unspecified.
/// Throws std::bad_alloc.
std::shared_ptr<std::byte> make_bytes(std::size_t bytes);

/// Returns a batch field of `count` samples of equal shape. Its values are stored contiguously, sample by
/// sample, in `bytes`, which it shares.
BatchField make_field(const NamedField& field, std::size_t count, bool batched,
                      std::shared_ptr<std::byte> bytes);

/// Returns a batch field for samples of different lengths. `samples` are the numbers of the batch's samples.
/// Its values are stored in `memory`, which it shares; if that is null, in memory of its own, filled with
/// zeros. Padding needs the latter. Throws std::bad_alloc.
BatchField make_ragged_field(const NamedField& field, const std::vector<std::int64_t>& samples,
                             const EpochKey& key, bool batched, std::shared_ptr<std::byte> memory);

/// Reads samples of a ragged field. Immutable and thread-safe.
class RaggedRows {
 public:
  /// Borrows `field`, which must be ragged and outlive the RaggedRows. Throws OptionError if the field's
  /// `normalize` does not fit it.
  explicit RaggedRows(const NamedField& field);

  /// Reads sample number `sample`, which has index `position` in the batch, into `outs`: the field of the
  /// batch and of its echoes, all made by `make_ragged_field` for the same samples. Blocks. Throws FileError,
  /// ChunkError, std::bad_alloc, OptionError for a value that the field's integer type cannot hold.
  ReadCost read(std::int64_t sample, const EpochKey& key, std::size_t position,
                std::span<BatchField* const> outs) const;

  /// Returns the row of the field that belongs to a sample.
  std::uint64_t row_of(std::int64_t sample, const EpochKey& key) const noexcept {
    return field_.belonging.row_of(static_cast<std::uint64_t>(sample), key);
  }

  /// Reads the stored values of row `row` into `stored`, which is resized to at least their bytes. Blocks.
  /// Throws FileError, ChunkError, std::bad_alloc.
  ReadCost read_stored(std::uint64_t row, ByteBuffer& stored) const;

 private:
  void check_range(std::int64_t sample, std::uint64_t row, std::span<const std::byte> stored) const;

  const NamedField& field_;
  const std::unique_ptr<const RowKernel> kernel_;
  const std::size_t to_bytes_;  // bytes of a delivered element
  const bool narrows_;          // delivers an integer type other than the stored type
};

}  // namespace h5feed
