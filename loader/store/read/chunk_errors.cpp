// SPDX-License-Identifier: Apache-2.0
#include "store/read/chunk_errors.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace h5feed {

std::string_view without_place(std::string_view text, const DatasetInfo& info) {
  for (const std::string& place :
       {fmt::format("{}:{}: ", info.file, short_path(info.path)), fmt::format("{}: ", info.file)}) {
    if (text.starts_with(place)) text.remove_prefix(place.size());
  }
  return text;
}

std::span<std::byte> chunk_target(const ChunkReader& reader, std::uint64_t chunk, std::span<std::byte> out) {
  if (chunk >= reader.num_chunks() || out.size() < reader.chunk_bytes()) {
    throw std::invalid_argument("ChunkReader::read_chunk: no such chunk, or out is too small");
  }
  return out.first(reader.chunk_bytes());
}

void check_rows(const ChunkReader& reader, std::uint64_t first, std::uint64_t count,
                std::span<const std::span<std::byte>> outs) {
  std::uint64_t out_bytes = 0;
  for (const std::span<std::byte> out : outs) out_bytes += out.size();
  const std::uint64_t rows_per_chunk = reader.chunk_shape().empty() ? 1 : reader.chunk_shape().front();
  const std::uint64_t rows = reader.info().rows();
  if (first > rows || count > rows - first || first % rows_per_chunk + count > rows_per_chunk ||
      out_bytes != count * reader.info().row_bytes()) {
    throw std::invalid_argument("ChunkReader::read_rows: rows beyond a chunk, or out is of another size");
  }
}

ChunkError corrupt_chunk(const ChunkReader& reader, std::uint64_t chunk, std::string_view reason) {
  return ChunkError(fmt::format("{} is corrupt: {}; restore the file from a good copy",
                                reader.describe_chunk(chunk), reason));
}

void rethrow_for_chunk(const ChunkReader& reader, std::uint64_t chunk) {
  try {
    throw;
  } catch (const FilterError& error) {
    throw corrupt_chunk(reader, chunk, error.what());
  } catch (const NoDescriptorError&) {
    throw;
  } catch (const FileError& error) {
    throw FileError(fmt::format("{} cannot be read: {}", reader.describe_chunk(chunk),
                                without_place(error.what(), reader.info())));
  }
}

}  // namespace h5feed
