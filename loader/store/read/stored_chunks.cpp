// SPDX-License-Identifier: Apache-2.0
#include "store/read/stored_chunks.hpp"

#include <algorithm>
#include <utility>

#include "store/format/chunk_geometry.hpp"

namespace h5feed {
namespace {

// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): nobody owns one by its base
class AllWritten final : public StoredChunks {
 public:
  bool written(std::uint64_t) const noexcept override { return true; }
  std::uint32_t filter_mask(std::uint64_t) const noexcept override { return 0; }
};

constexpr AllWritten kAllWritten;

}  // namespace

const StoredChunks& StoredChunks::of(const ChunkReader& reader) noexcept {
  const auto* const stored = dynamic_cast<const StoredChunks*>(&reader);
  return stored == nullptr ? kAllWritten : *stored;
}

ChunkPlace place_of(const ChunkReader& reader, std::uint64_t chunk) {
  std::optional<ChunkPlace> place = StoredChunks::of(reader).place(chunk);
  return place ? *std::move(place) : place_in_grid(reader, chunk);
}

ChunkPlace place_in_grid(const ChunkReader& reader, std::uint64_t chunk,
                         std::optional<std::uint64_t> address) {
  const DatasetInfo& info = reader.info();
  ChunkPlace place{.file = info.file,
                   .path = info.path,
                   .coordinates = chunk_coordinates(chunk, reader.grid()),
                   .address = address,
                   .end_row = info.rows()};
  for (const FilterSpec& filter : info.filters) {
    if (!place.filters.empty()) place.filters += '+';
    place.filters += filter.name;
  }
  if (!place.coordinates.empty()) {
    const std::uint64_t height = reader.chunk_shape().front();
    place.first_row = place.coordinates.front() * height;
    place.end_row = std::min(place.first_row + height, info.rows());
  }
  return place;
}

}  // namespace h5feed
