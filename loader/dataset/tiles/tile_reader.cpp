// SPDX-License-Identifier: Apache-2.0
#include "dataset/tiles/tile_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/option_spelling.hpp"
#include "h5feed/error.hpp"
#include "store/read/chunk_errors.hpp"
#include "store/read/stored_chunks.hpp"

namespace h5feed {
namespace {

// Returns which tiles are in which chunks; all chunks that hold parts of the same images count as one.
RowLayout layout_of_tiles(const std::vector<JoinedPart>& images, const Tiling& tiling) {
  std::vector<RowLayout::Run> runs;
  std::uint64_t image = 0;
  for (const JoinedPart& part : images) {
    if (part.rows == 0) continue;
    const std::uint64_t per_image = tiling.run_of_image(image).per_image;
    image += part.rows;
    const std::uint64_t height = part.reader->chunk_shape().front();
    const std::uint64_t skipped = part.first_row % height;
    // A chunk may be higher than the dataset.
    const std::uint64_t in_a_chunk = std::min(height, skipped + part.rows);
    RowLayout::Run run;
    if (__builtin_mul_overflow(part.rows, per_image, &run.rows) ||
        __builtin_mul_overflow(in_a_chunk, per_image, &run.rows_per_chunk) ||
        __builtin_mul_overflow(skipped, per_image, &run.skipped)) {
      const DatasetInfo& info = part.reader->info();
      throw DatasetError(
          fmt::format("{}:{}: a chunk of {} images has more tiles than can be counted; use a larger {}",
                      info.file, short_path(info.path), in_a_chunk, spelled("tiles.stride")));
    }
    runs.push_back(run);
  }
  return RowLayout(runs);
}

// Returns the largest chunk shape, with the rows of one chunk first.
std::vector<std::uint64_t> largest_chunk(const std::vector<JoinedPart>& images) {
  const auto largest =
      std::ranges::max_element(images, {}, [](const JoinedPart& part) { return part.reader->chunk_bytes(); });
  return largest->reader->chunk_shape();
}

class TileReader final : public ChunkReader, public StoredChunks {
 public:
  TileReader(const std::vector<JoinedPart>& images, DatasetInfo tiles, const Tiling& tiling)
      : ChunkReader(std::move(tiles), largest_chunk(images), layout_of_tiles(images, tiling)),
        tiling_(tiling),
        pieces_(tiling.most_pieces()) {
    grid_ = {rows_.num_chunks()};
    grid_.insert(grid_.end(), tiling.runs().front().grid.begin(), tiling.runs().front().grid.end());
    num_chunks_ = rows_.num_chunks() * pieces_;
    chunk_bytes_ = 0;
    max_stored_bytes_ = 0;
    std::uint64_t image = 0;
    parts_.reserve(images.size());
    for (const JoinedPart& part : images) {
      if (part.rows == 0) continue;
      chunk_bytes_ = std::max(chunk_bytes_, part.reader->chunk_bytes());
      max_stored_bytes_ = std::max(max_stored_bytes_, part.reader->max_stored_bytes());
      scratch_bytes_ = std::max(scratch_bytes_, part.reader->scratch_bytes());
      if (!part.reader->direct() && fallback_reason_.empty())
        fallback_reason_ = part.reader->fallback_reason();
      direct_ = direct_ && part.reader->direct();
      const std::uint64_t pieces = tiling.run_of_image(image).pieces();
      parts_.push_back({part.reader, image, part.first_row,
                        rows_.chunk_of(tiling.first_tile_of(image)) * pieces_,
                        part.first_row / part.reader->chunk_shape().front(), pieces});
      image += part.rows;
    }
  }

  std::uint64_t scratch_bytes() const noexcept override { return scratch_bytes_; }
  bool direct() const noexcept override { return direct_; }
  std::string fallback_reason() const override { return fallback_reason_; }

  ReadCost read_chunk(std::uint64_t chunk, std::span<std::byte> out, ReadScratch& scratch) const override {
    out = chunk_target(*this, chunk, out);
    const auto [reader, own] = own_chunk(chunk);
    return reader.read_chunk(own, out, scratch);
  }
  std::uint64_t stored_bytes(std::uint64_t chunk) const override {
    const auto [reader, own] = own_chunk(chunk);
    return reader.stored_bytes(own);
  }
  bool stored_decoded(std::uint64_t chunk) const override {
    const auto [reader, own] = own_chunk(chunk);
    return reader.stored_decoded(own);
  }
  bool written(std::uint64_t chunk) const noexcept override {
    const auto [reader, own] = own_chunk(chunk);
    return StoredChunks::of(reader).written(own);
  }
  std::uint32_t filter_mask(std::uint64_t chunk) const noexcept override {
    const auto [reader, own] = own_chunk(chunk);
    return StoredChunks::of(reader).filter_mask(own);
  }
  std::optional<ChunkPlace> place(std::uint64_t chunk) const override {
    const auto [reader, own] = own_chunk(chunk);
    return place_of(reader, own);
  }
  ReadCost fetch_chunk(std::uint64_t chunk, std::span<std::byte> raw) const override {
    const auto [reader, own] = own_chunk(chunk);
    return reader.fetch_chunk(own, raw);
  }
  ReadCost decode_chunk(std::uint64_t chunk, std::span<const std::byte> raw, std::span<std::byte> out,
                        ReadScratch& scratch) const override {
    const auto [reader, own] = own_chunk(chunk);
    return reader.decode_chunk(own, raw, out, scratch);
  }
  std::string describe_chunk(std::uint64_t chunk) const override {
    const auto [reader, own] = own_chunk(chunk);
    return reader.describe_chunk(own);
  }

  bool rows_readable() const noexcept override { return false; }
  ReadCost read_rows(std::uint64_t, std::uint64_t, std::span<const std::span<std::byte>>) const override {
    throw std::logic_error("ChunkReader::read_rows: rows_readable() is false");
  }
  void hint_rows(std::uint64_t, std::uint64_t) const noexcept override {}
  bool row_resident(std::uint64_t) const noexcept override { return false; }

  RowOrigin origin(std::uint64_t tile) const override {
    const std::uint64_t image = tiling_.image_of(tile);
    const Part& part = *(std::ranges::upper_bound(parts_, image, {}, &Part::first_image) - 1);
    RowOrigin origin = part.reader->origin(image - part.first_image + part.skipped_images);
    origin.image = image;
    return origin;
  }

 private:
  struct Part {
    std::shared_ptr<const ChunkReader> reader;
    std::uint64_t first_image;     // of all
    std::uint64_t skipped_images;  // of the reader
    std::uint64_t first_chunk;     // of all
    std::uint64_t skipped_groups;  // chunks of the reader along its first dimension
    std::uint64_t pieces;          // chunks that hold parts of the same images
  };
  struct OwnChunk {
    const ChunkReader& reader;
    std::uint64_t number;
  };

  OwnChunk own_chunk(std::uint64_t chunk) const noexcept {
    const Part& part = *(std::ranges::upper_bound(parts_, chunk, {}, &Part::first_chunk) - 1);
    const std::uint64_t group = (chunk - part.first_chunk) / pieces_ + part.skipped_groups;
    return {*part.reader, group * part.pieces + chunk % pieces_};
  }

  const Tiling tiling_;
  const std::uint64_t pieces_;
  std::vector<Part> parts_;
  std::uint64_t scratch_bytes_ = 0;
  std::string fallback_reason_;
  bool direct_ = true;
};

}  // namespace

std::shared_ptr<const ChunkReader> as_tiles(const std::vector<JoinedPart>& images, const DatasetInfo& whole,
                                            const Tiling& tiling) {
  return std::make_shared<const TileReader>(images, tiles_of(whole, tiling), tiling);
}

}  // namespace h5feed
