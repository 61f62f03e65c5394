// SPDX-License-Identifier: Apache-2.0
#include "store/sparse/stored_run.hpp"

#include <utility>

namespace h5feed {

std::uint64_t StoredRun::stored_bytes() const {
  return reader->rows_readable() ? count * size_of(reader->info().dtype) : reader->stored_bytes(chunk);
}

ReadCost StoredRun::fetch(std::span<std::byte> raw) const {
  return reader->rows_readable() ? reader->read_rows(begin, count, raw) : reader->fetch_chunk(chunk, raw);
}

std::span<const std::byte> StoredRun::read(std::span<const std::byte> raw, std::span<std::byte> place,
                                           ReadScratch& scratch, ReadCost& cost) const {
  const bool apart = reader->rows_readable();
  if (apart && !raw.empty()) return raw;
  const std::size_t value_bytes = size_of(reader->info().dtype);
  const auto run_bytes = static_cast<std::size_t>(count) * value_bytes;
  const std::size_t decoded_bytes = apart ? run_bytes : static_cast<std::size_t>(reader->chunk_bytes());
  // Taken, because a reader that puts chunks together uses the same buffer.
  ByteBuffer part = std::exchange(scratch.part, {});
  // Values without filters are read to warm memory and copied: new memory costs the kernel's copy more.
  if (apart || place.size() != decoded_bytes) {
    part.resize_discard(decoded_bytes);
    place = part.span().first(decoded_bytes);
  }
  if (apart) {
    cost += reader->read_rows(begin, count, place);
  } else {
    cost += raw.empty() ? reader->read_chunk(chunk, place, scratch)
                        : reader->decode_chunk(chunk, raw, place, scratch);
  }
  scratch.part = std::move(part);
  if (apart) return place;
  return place.subspan(static_cast<std::size_t>(reader->rows().place_in_chunk(begin)) * value_bytes,
                       run_bytes);
}

}  // namespace h5feed
