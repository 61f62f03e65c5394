#include "dataset/tile_reader.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "h5feed/error.hpp"

namespace h5feed {
namespace {

class TileReader final : public ChunkReader {
 public:
  TileReader(std::shared_ptr<const ChunkReader> images, const Tiling& tiling)
      : ChunkReader(tiles_of(images->info(), tiling), images->chunk_shape(),
                    images->rows().multiplied(tiling.per_image())),
        images_(std::move(images)),
        tiling_(tiling) {
    grid_ = images_->grid();
    num_chunks_ = images_->num_chunks();
    max_stored_bytes_ = images_->max_stored_bytes();
  }

  std::uint64_t scratch_bytes() const noexcept override { return images_->scratch_bytes(); }
  bool direct() const noexcept override { return images_->direct(); }
  std::string fallback_reason() const override { return images_->fallback_reason(); }
  ReadCost read_chunk(std::uint64_t chunk, std::span<std::byte> out, ReadScratch& scratch) const override {
    return images_->read_chunk(chunk, out, scratch);
  }
  std::uint64_t stored_bytes(std::uint64_t chunk) const override { return images_->stored_bytes(chunk); }
  bool stored_decoded(std::uint64_t chunk) const override { return images_->stored_decoded(chunk); }
  bool written(std::uint64_t chunk) const noexcept override { return images_->written(chunk); }
  std::uint32_t filter_mask(std::uint64_t chunk) const noexcept override {
    return images_->filter_mask(chunk);
  }
  ReadCost fetch_chunk(std::uint64_t chunk, std::span<std::byte> raw) const override {
    return images_->fetch_chunk(chunk, raw);
  }
  ReadCost decode_chunk(std::uint64_t chunk, std::span<const std::byte> raw, std::span<std::byte> out,
                        ReadScratch& scratch) const override {
    return images_->decode_chunk(chunk, raw, out, scratch);
  }
  bool rows_readable() const noexcept override { return false; }
  ReadCost read_rows(std::uint64_t, std::uint64_t, std::span<const std::span<std::byte>>) const override {
    throw std::logic_error("ChunkReader::read_rows: rows_readable() is false");
  }
  void hint_rows(std::uint64_t, std::uint64_t) const noexcept override {}
  bool row_resident(std::uint64_t) const noexcept override { return false; }
  std::string describe_chunk(std::uint64_t chunk) const override { return images_->describe_chunk(chunk); }

  RowOrigin origin(std::uint64_t tile) const override {
    const std::uint64_t image = tile / tiling_.per_image();
    const std::uint64_t within = tiling_.within_image(tile);
    RowOrigin origin = images_->origin(image);
    origin.image = image;
    origin.y = tiling_.y.begin(within / tiling_.x.count);
    origin.x = tiling_.x.begin(within % tiling_.x.count);
    return origin;
  }

 private:
  const std::shared_ptr<const ChunkReader> images_;
  const Tiling tiling_;
};

}  // namespace

std::shared_ptr<const ChunkReader> as_tiles(std::shared_ptr<const ChunkReader> images, const Tiling& tiling) {
  std::uint64_t in_a_chunk = 0;
  if (!images->rows().regular() &&
      __builtin_mul_overflow(images->rows().rows_per_chunk(), tiling.per_image(), &in_a_chunk)) {
    const DatasetInfo& info = images->info();
    throw DatasetError(
        fmt::format("{}:{}: a chunk of {} images has more tiles than can be counted; use a "
                    "larger tiles.stride",
                    info.file, info.path, images->rows().rows_per_chunk()));
  }
  return std::make_shared<const TileReader>(std::move(images), tiling);
}

}  // namespace h5feed
