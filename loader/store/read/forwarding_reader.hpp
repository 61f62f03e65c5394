// SPDX-License-Identifier: Apache-2.0
// Base class for readers that reuse another reader's chunks with different rows. Internal to store/ and
// dataset/.
#pragma once

#include <memory>
#include <utility>

#include "store/read/chunk_reader.hpp"
#include "store/read/stored_chunks.hpp"

namespace h5feed {

/// Forwards chunk access to `inner()`, with the same chunk numbers. Derived classes define the rows.
class ForwardingReader : public ChunkReader, public StoredChunks {
 public:
  std::uint64_t scratch_bytes() const noexcept final { return inner_->scratch_bytes(); }
  bool direct() const noexcept final { return inner_->direct(); }
  std::string fallback_reason() const final { return inner_->fallback_reason(); }
  std::vector<FilterSpec> decoded_filters() const final { return inner_->decoded_filters(); }
  ReadCost read_chunk(std::uint64_t chunk, std::span<std::byte> out, ReadScratch& scratch) const final {
    return inner_->read_chunk(chunk, out, scratch);
  }
  std::uint64_t stored_bytes(std::uint64_t chunk) const final { return inner_->stored_bytes(chunk); }
  bool stored_decoded(std::uint64_t chunk) const final { return inner_->stored_decoded(chunk); }
  bool written(std::uint64_t chunk) const noexcept final { return StoredChunks::of(*inner_).written(chunk); }
  std::uint32_t filter_mask(std::uint64_t chunk) const noexcept final {
    return StoredChunks::of(*inner_).filter_mask(chunk);
  }
  std::optional<ChunkPlace> place(std::uint64_t chunk) const final { return place_of(*inner_, chunk); }
  ReadCost fetch_chunk(std::uint64_t chunk, std::span<std::byte> raw) const final {
    return inner_->fetch_chunk(chunk, raw);
  }
  ReadCost decode_chunk(std::uint64_t chunk, std::span<const std::byte> raw, std::span<std::byte> out,
                        ReadScratch& scratch) const final {
    return inner_->decode_chunk(chunk, raw, out, scratch);
  }
  std::string describe_chunk(std::uint64_t chunk) const final { return inner_->describe_chunk(chunk); }

 protected:
  /// Initializes ChunkReader from `info`, `chunk_shape` and `rows`, as the derived class presents them.
  /// Shares ownership of `inner`, which must not be null.
  ForwardingReader(std::shared_ptr<const ChunkReader> inner, DatasetInfo info,
                   std::vector<std::uint64_t> chunk_shape, RowLayout rows)
      : ChunkReader(std::move(info), std::move(chunk_shape), std::move(rows)), inner_(std::move(inner)) {
    max_stored_bytes_ = inner_->max_stored_bytes();
  }

  /// Returns the reader whose chunks are reused.
  const ChunkReader& inner() const noexcept { return *inner_; }

 private:
  const std::shared_ptr<const ChunkReader> inner_;
};

}  // namespace h5feed
