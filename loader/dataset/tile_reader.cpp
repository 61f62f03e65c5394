// SPDX-License-Identifier: Apache-2.0
#include "dataset/tile_reader.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "base/option_spelling.hpp"
#include "h5feed/error.hpp"
#include "store/read/forwarding_reader.hpp"

namespace h5feed {
namespace {

class TileReader final : public ForwardingReader {
 public:
  TileReader(const std::shared_ptr<const ChunkReader>& images, const Tiling& tiling)
      : ForwardingReader(images, tiles_of(images->info(), tiling), images->chunk_shape(),
                         images->rows().multiplied(tiling.per_image())),
        tiling_(tiling) {
    grid_ = images->grid();
    num_chunks_ = images->num_chunks();
  }

  bool rows_readable() const noexcept override { return false; }
  ReadCost read_rows(std::uint64_t, std::uint64_t, std::span<const std::span<std::byte>>) const override {
    throw std::logic_error("ChunkReader::read_rows: rows_readable() is false");
  }
  void hint_rows(std::uint64_t, std::uint64_t) const noexcept override {}
  bool row_resident(std::uint64_t) const noexcept override { return false; }

  RowOrigin origin(std::uint64_t tile) const override {
    const std::uint64_t image = tile / tiling_.per_image();
    const std::uint64_t within = tiling_.within_image(tile);
    RowOrigin origin = inner().origin(image);
    origin.image = image;
    origin.y = tiling_.y.begin(within / tiling_.x.count);
    origin.x = tiling_.x.begin(within % tiling_.x.count);
    return origin;
  }

 private:
  const Tiling tiling_;
};

}  // namespace

std::shared_ptr<const ChunkReader> as_tiles(std::shared_ptr<const ChunkReader> images, const Tiling& tiling) {
  std::uint64_t in_a_chunk = 0;
  if (!images->rows().regular() &&
      __builtin_mul_overflow(images->rows().rows_per_chunk(), tiling.per_image(), &in_a_chunk)) {
    const DatasetInfo& info = images->info();
    throw DatasetError(fmt::format(
        "{}:{}: a chunk of {} images has more tiles than can be counted; use a "
        "larger {}",
        info.file, short_path(info.path), images->rows().rows_per_chunk(), spelled("tiles.stride")));
  }
  return std::make_shared<const TileReader>(images, tiling);
}

}  // namespace h5feed
