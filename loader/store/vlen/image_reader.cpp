// SPDX-License-Identifier: Apache-2.0
#include "store/vlen/image_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/byte_units.hpp"
#include "base/clock.hpp"
#include "base/option_spelling.hpp"
#include "h5feed/error.hpp"
#include "store/hdf5/global_heap.hpp"
#include "store/read/chunk_errors.hpp"
#include "store/read/read_all.hpp"
#include "store/read/reader_factories.hpp"
#include "store/read/stored_chunks.hpp"
#include "store/vlen/heap_references.hpp"

namespace h5feed {
namespace {

using Shape = std::array<std::uint32_t, 3>;

// Chunks of one sample: requesting a sample decodes no other.
DatasetInfo as_images(DatasetInfo info, std::uint64_t rows, bool encoded, const ImageExtent& extent) {
  info.encoded_images = encoded;
  info.dtype = extent.dtype;
  info.byte_swapped = false;
  info.values_per_element = 1;
  info.plain_type = false;
  info.shape = {rows, extent.height, extent.width, extent.channels};
  info.max_shape = info.shape;
  info.layout = StorageLayout::virtual_dataset;
  info.chunk_shape.clear();
  info.filters.clear();
  info.fill_value.assign(size_of(extent.dtype), std::byte{0});
  return info;
}

std::vector<std::uint64_t> one_image(const ImageExtent& extent) {
  return {1, extent.height, extent.width, extent.channels};
}

// Locations of the images, and how to decode them.
struct Images {
  std::shared_ptr<const ImageDecoder> decoder;
  std::shared_ptr<const ByteSource> source;
  HeapFormat format;
  std::vector<HeapReference> references;
  std::vector<Shape> shapes;  // Empty: the images are encoded
  bool planar = false;

  ImageExtent stored_extent(std::uint64_t row) const {
    const Shape& shape = shapes[row];
    if (planar) return {shape[1], shape[2], shape[0], DType::u8};
    return {shape[0], shape[1], shape[2], DType::u8};
  }

  ImageNeeds needs_of(std::uint64_t row, std::span<const std::byte> bytes, const ImageExtent& extent) const {
    if (shapes.empty()) return decoder->needs_of(bytes, extent);
    const ImageExtent stored = stored_extent(row);
    return {stored.height, stored.width, planar && stored.channels > 1 ? bytes.size() : 0};
  }

  // A value cannot be larger than its file.
  bool believable(std::uint64_t row) const noexcept { return references[row].bytes <= source->size(); }

  void decode(std::uint64_t row, std::span<const std::byte> bytes, const ImageExtent& extent,
              std::span<std::byte> out) const {
    if (shapes.empty()) {
      decoder->decode(bytes, extent, out);
    } else {
      decoder->scale(bytes, stored_extent(row), planar, extent, out);
    }
  }
};

class ImageReader final : public ChunkReader, public StoredChunks {
 public:
  ImageReader(DatasetInfo info, Images images, const ImageExtent& extent)
      : ChunkReader(as_images(std::move(info), images.references.size(), images.shapes.empty(), extent),
                    one_image(extent)),
        images_(std::move(images)),
        extent_(extent) {
    max_stored_bytes_ = 0;
    for (std::uint64_t row = 0; row < images_.references.size(); ++row) {
      if (images_.believable(row))
        max_stored_bytes_ = std::max<std::uint64_t>(max_stored_bytes_, images_.references[row].bytes);
    }
  }

  // What the decoder needs for an image of the size of a sample; it borrows what a larger one needs.
  std::uint64_t scratch_bytes() const noexcept override { return max_stored_bytes_ + own_bytes(); }
  bool direct() const noexcept override { return true; }
  std::string fallback_reason() const override { return {}; }

  ReadCost read_chunk(std::uint64_t chunk, std::span<std::byte> out, ReadScratch& scratch) const override {
    out = chunk_target(*this, chunk, out);
    check(chunk);
    scratch.raw.resize_discard(static_cast<std::size_t>(max_stored_bytes_));
    const std::span<std::byte> raw = scratch.raw.span().first(images_.references[chunk].bytes);
    ReadCost cost = fetch_chunk(chunk, raw);
    cost.decode_ns = decode_chunk(chunk, raw, out, scratch).decode_ns;
    return cost;
  }

  std::uint64_t stored_bytes(std::uint64_t chunk) const override {
    return images_.believable(chunk) ? images_.references[chunk].bytes : 0;
  }
  bool stored_decoded(std::uint64_t) const override { return false; }

  ReadCost fetch_chunk(std::uint64_t chunk, std::span<std::byte> raw) const override {
    ReadCost cost;
    const std::uint64_t begin = now_ns();
    try {
      cost.bytes_read = read_heap_object(*images_.source, images_.format, images_.references[chunk], raw);
    } catch (...) {
      rethrow_for_chunk(*this, chunk);
    }
    cost.read_ns = now_ns() - begin;
    return cost;
  }

  ReadCost decode_chunk(std::uint64_t chunk, std::span<const std::byte> raw, std::span<std::byte> out,
                        ReadScratch& scratch) const override {
    out = chunk_target(*this, chunk, out);
    const std::optional<SpareMemory::Loan> memory = borrow(chunk, raw, scratch.spare);
    ReadCost cost;
    const std::uint64_t begin = now_ns();
    try {
      images_.decode(chunk, raw, extent_, out);
    } catch (const ImageError& error) {
      throw ChunkError(fmt::format("{} does not decode: {}", describe_chunk(chunk), error.what()));
    }
    cost.decode_ns = now_ns() - begin;
    return cost;
  }

  bool written(std::uint64_t) const noexcept override { return true; }
  std::uint32_t filter_mask(std::uint64_t) const noexcept override { return 0; }
  // The address is that of the heap collection which holds the value.
  std::optional<ChunkPlace> place(std::uint64_t chunk) const override {
    ChunkPlace place = place_in_grid(*this, chunk, images_.references[chunk].address);
    place.coordinates.resize(1);
    return place;
  }

  bool rows_readable() const noexcept override { return false; }
  ReadCost read_rows(std::uint64_t, std::uint64_t, std::span<const std::span<std::byte>>) const override {
    throw std::logic_error("ChunkReader::read_rows: rows_readable() is false");
  }
  void hint_rows(std::uint64_t, std::uint64_t) const noexcept override {}
  bool row_resident(std::uint64_t) const noexcept override { return false; }

  std::string describe_chunk(std::uint64_t chunk) const override {
    return fmt::format("{}:{}: sample {}", info_.file, short_path(info_.path), chunk);
  }

 private:
  std::uint64_t own_bytes() const noexcept { return 2 * chunk_bytes_; }

  // Borrows what decoding the image takes beyond `scratch_bytes()`. Blocks while other decodes have it.
  std::optional<SpareMemory::Loan> borrow(std::uint64_t chunk, std::span<const std::byte> raw,
                                          SpareMemory* spare) const {
    if (spare == nullptr) return std::nullopt;
    const ImageNeeds needs = images_.needs_of(chunk, raw, extent_);
    if (needs.bytes <= own_bytes()) return std::nullopt;
    const std::uint64_t more = needs.bytes - own_bytes();
    std::optional<SpareMemory::Loan> loan = spare->borrow(more);
    if (loan) return loan;
    const SpareMemory::Size size = spare->size();
    throw ChunkError(fmt::format(
        "{} does not decode: its {}×{} pixels take {}, and {} {} leaves {} for one image; use at least {}, "
        "or a smaller {}, or store smaller images",
        describe_chunk(chunk), needs.height, needs.width, format_bytes(needs.bytes),
        spelled("memory_budget_bytes"), format_bytes(size.budget), format_bytes(size.spare + own_bytes()),
        format_bytes_ceil(size.budget + more - std::min(more, size.spare)), spelled("cache_bytes")));
  }

  void check(std::uint64_t chunk) const {
    if (images_.believable(chunk)) return;
    throw corrupt_chunk(*this, chunk,
                        fmt::format("it claims {} bytes, more than the file has",
                                    format_count(images_.references[chunk].bytes)));
  }

  const Images images_;
  const ImageExtent extent_;
};

template <typename Integer>
void append_shapes(const ByteBuffer& values, std::vector<Shape>& shapes) {
  const auto* const table = reinterpret_cast<const Integer*>(values.data());
  for (Shape& shape : shapes) {
    const std::size_t row = static_cast<std::size_t>(&shape - shapes.data());
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const auto wide = static_cast<std::uint64_t>(table[row * shape.size() + i]);
      // No dimension can be that long: the image will be rejected.
      shape[i] = static_cast<std::uint32_t>(std::min<std::uint64_t>(wide, ~std::uint32_t{0}));
    }
  }
}

std::vector<Shape> read_shapes(const std::shared_ptr<H5File>& file, const std::string& path,
                               std::uint64_t rows) {
  const DatasetInfo info = file->describe(path, {.name = "images.shapes"});
  if (info.shape != std::vector<std::uint64_t>{rows, 3} || !is_integer(info.dtype)) {
    throw DatasetError(fmt::format("{}:{} is {}; a table of shapes is {}×3 integers", info.file,
                                   short_path(info.path), info.shape_text(), format_count(rows)));
  }
  const ByteBuffer values = read_all(*open_chunk_reader(file, info), 1);
  std::vector<Shape> shapes(rows);
  switch (size_of(info.dtype)) {
    case 1:
      append_shapes<std::uint8_t>(values, shapes);
      break;
    case 2:
      append_shapes<std::uint16_t>(values, shapes);
      break;
    case 4:
      append_shapes<std::uint32_t>(values, shapes);
      break;
    default:
      append_shapes<std::uint64_t>(values, shapes);
      break;
  }
  return shapes;
}

bool is_channel_count(std::uint32_t extent) noexcept { return extent == 1 || extent == 3 || extent == 4; }

bool tell_planar(const DatasetInfo& info, const Shape& shape) {
  const bool first = is_channel_count(shape[0]);
  if (first != is_channel_count(shape[2])) return first;
  throw DatasetError(fmt::format(
      "{}:{}: the first image is {}×{}×{}, whose channel axis is ambiguous; state it: "
      "{} or NHWC",
      info.file, short_path(info.path), shape[0], shape[1], shape[2], spelled("input_layout", "NCHW")));
}

}  // namespace

std::shared_ptr<const ChunkReader> open_images(const std::shared_ptr<H5File>& file, const DatasetInfo& info,
                                               const ImageSource& from,
                                               std::shared_ptr<const ByteSource> source,
                                               const ReaderSettings& settings) {
  Images images;
  images.decoder = from.decoder;
  images.source = source ? source : file->bytes();
  images.format = file->heap_format();
  images.references = read_references(file, info, images.format, images.source, settings);
  const std::uint64_t rows = images.references.size();
  if (!from.shapes.empty() && rows > 0) {
    images.shapes = read_shapes(file, from.shapes, rows);
    images.planar = from.planar ? *from.planar : tell_planar(info, images.shapes.front());
  }
  file->check_unchanged();
  ImageExtent extent{1, 1, 1, DType::u8};  // If there are no images
  if (from.extent) {
    extent = *from.extent;
  } else if (rows > 0) {
    // Read through an ImageReader, for its error messages.
    const ImageReader probe(info, images, extent);
    ByteBuffer first(images.believable(0) ? images.references.front().bytes : 0);
    probe.fetch_chunk(0, first.span());
    try {
      extent = images.shapes.empty() ? from.decoder->extent_of(first.span())
                                     : from.decoder->scaled(images.stored_extent(0));
    } catch (const ImageError& error) {
      throw ChunkError(fmt::format("{} does not decode: {}", probe.describe_chunk(0), error.what()));
    }
  }
  return std::make_shared<const ImageReader>(info, std::move(images), extent);
}

}  // namespace h5feed
