// SPDX-License-Identifier: Apache-2.0
// Base class for readers without a separate fetch step. Internal to store/.
#pragma once

#include <stdexcept>

#include "store/read/chunk_reader.hpp"

namespace h5feed {

/// A reader that reads and decodes chunks in one step: no separate fetch, and no `read_rows` unless the
/// derived class overrides it.
class UnfetchedChunkReader : public ChunkReader {
 public:
  std::uint64_t stored_bytes(std::uint64_t) const final { return 0; }
  bool stored_decoded(std::uint64_t) const final { return false; }
  ReadCost fetch_chunk(std::uint64_t, std::span<std::byte>) const final {
    throw std::logic_error("ChunkReader::fetch_chunk: stored_bytes() is 0");
  }
  ReadCost decode_chunk(std::uint64_t, std::span<const std::byte>, std::span<std::byte>,
                        ReadScratch&) const final {
    throw std::logic_error("ChunkReader::decode_chunk: stored_bytes() is 0");
  }

  bool rows_readable() const noexcept override { return false; }
  ReadCost read_rows(std::uint64_t, std::uint64_t, std::span<const std::span<std::byte>>) const override {
    throw std::logic_error("ChunkReader::read_rows: rows_readable() is false");
  }
  bool row_resident(std::uint64_t) const noexcept override { return false; }
  void hint_rows(std::uint64_t, std::uint64_t) const noexcept override {}

 protected:
  using ChunkReader::ChunkReader;
};

}  // namespace h5feed
