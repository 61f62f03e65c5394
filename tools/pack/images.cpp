// SPDX-License-Identifier: Apache-2.0
#include "tools/pack/images.hpp"

#include <fmt/format.h>
#include <tbb/parallel_pipeline.h>
#include <tbb/task_arena.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/byte_buffer.hpp"
#include "base/byte_units.hpp"
#include "base/system_limits.hpp"
#include "h5feed/error.hpp"
#include "store/filters/filters.hpp"
#include "tools/program/interrupt.hpp"

namespace h5feed::cli {
namespace {

// Rows of image files that are written at once; their addresses share one chunk.
constexpr std::uint64_t kRaggedRows = 256;

// One image in flight; reused, since fresh memory for the pixels of each image costs a page fault per 4 KiB.
struct Loaded {
  std::uint64_t item = 0;
  std::vector<std::byte> file;
  ByteBuffer pixels;
  std::string problem;
};

// Rows that are written together: a whole chunk of pixels. Rows after the last one are zero.
struct Block {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  ByteBuffer pixels;
  std::vector<std::byte> encoded;
  std::vector<std::vector<std::byte>> files;
};
using BlockPtr = std::shared_ptr<Block>;

// Each image is held as a file, as decoded, and as scaled: about three times its pixels.
std::size_t images_under_way(const ImageTarget& target) {
  const std::uint64_t each =
      target.store_bytes ? kMiB : 3 * std::max<std::uint64_t>(1, target.format.bytes());
  const std::uint64_t fit = system_limits().available_bytes / 4 / each;
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(fit, 1, 4 * std::uint64_t{target.jobs}));
}

class ImagePacker {
 public:
  ImagePacker(H5Writer& writer, const ImageSet& set, const ImageTarget& target, Progress& progress)
      : writer_(writer),
        set_(set),
        target_(target),
        progress_(progress),
        row_bytes_(target.store_bytes ? 1 : target.format.bytes()),
        block_rows_(target.store_bytes ? kRaggedRows : target.chunk_shape.front()),
        stats_(target.format.shape(), target.format.channels_last ? 2 : 0),
        filters_(target.filters, static_cast<std::size_t>(block_rows_ * row_bytes_), 1),
        ring_(images_under_way(target)) {}

  PackedImages run() {
    create();
    tbb::task_arena arena(static_cast<int>(target_.jobs));
    arena.execute([&] {
      using tbb::filter_mode;
      tbb::parallel_pipeline(
          ring_.size(),
          tbb::make_filter<void, Loaded*>(filter_mode::serial_in_order, [&](auto& control) {
            return take(control);
          }) & tbb::make_filter<Loaded*, Loaded*>(filter_mode::parallel, [&](Loaded* loaded) {
            load(*loaded);
            return loaded;
          }) & tbb::make_filter<Loaded*, BlockPtr>(filter_mode::serial_in_order, [&](Loaded* loaded) {
            return gather(*loaded);
          }) & tbb::make_filter<BlockPtr, BlockPtr>(filter_mode::parallel, [&](BlockPtr block) {
            if (block) encode(*block);
            return block;
          }) & tbb::make_filter<BlockPtr, void>(filter_mode::serial_in_order, [&](const BlockPtr& block) {
            if (block) write(*block);
          }));
    });
    if (block_) {
      encode(*block_);
      write(*block_);
    }
    finish();
    return std::move(result_);
  }

 private:
  void create() {
    const std::uint64_t images = set_.items.size();
    if (target_.store_bytes) {
      writer_.create_ragged(target_.images, DType::u8, images, kRaggedRows);
      return;
    }
    NewDataset dataset{.path = target_.images,
                       .dtype = DType::u8,
                       .shape = target_.format.shape(),
                       .chunk_shape = target_.chunk_shape,
                       .filters = target_.filters,
                       .grows = target_.skip_bad};
    dataset.shape.insert(dataset.shape.begin(), images);
    writer_.create_dataset(dataset);
  }

  Loaded* take(tbb::flow_control& control) {
    check_interrupted();
    if (next_ == set_.items.size()) {
      control.stop();
      return nullptr;
    }
    // Images leave in order, so the next slot of the ring is free.
    Loaded& loaded = ring_[next_ % ring_.size()];
    loaded.item = next_++;
    return &loaded;
  }

  void load(Loaded& loaded) const {
    try {
      loaded.problem.clear();
      loaded.file = read_image_file(set_.items[loaded.item].file);
      if (target_.store_bytes) {
        check_image_bytes(loaded.file);
        return;
      }
      loaded.pixels.resize_discard(static_cast<std::size_t>(row_bytes_));
      decode_image(loaded.file, target_.format, loaded.pixels.span());
    } catch (const BadImage& bad) {
      loaded.problem = bad.what();
    }
  }

  // Returns the block that this image completes; null if it completes none.
  BlockPtr gather(Loaded& loaded) {
    progress_.advance(1);
    const ImageItem& item = set_.items[loaded.item];
    if (!loaded.problem.empty()) {
      if (!target_.skip_bad) {
        refuse_image(item.file, loaded.problem);
      }
      result_.skipped.push_back({item.file, std::move(loaded.problem)});
      return nullptr;
    }
    if (!block_) {
      block_ = std::make_shared<Block>();
      block_->first = result_.labels.size();
      if (!target_.store_bytes)
        block_->pixels = ByteBuffer(static_cast<std::size_t>(block_rows_ * row_bytes_));
    }
    result_.labels.push_back(item.label);
    if (target_.store_bytes) {
      block_->files.push_back(std::move(loaded.file));
    } else {
      std::memcpy(block_->pixels.data() + block_->count * row_bytes_, loaded.pixels.data(), row_bytes_);
    }
    if (++block_->count < block_rows_) return nullptr;
    return std::exchange(block_, nullptr);
  }

  void encode(Block& block) {
    if (target_.store_bytes) return;
    const auto used = static_cast<std::size_t>(block.count * row_bytes_);
    std::memset(block.pixels.data() + used, 0, block.pixels.size() - used);
    stats_.add(block.pixels.span().first(used));
    if (!filters_.empty()) block.encoded = filters_.encode(block.pixels.span());
  }

  void write(const Block& block) {
    if (target_.store_bytes) {
      std::vector<std::span<const std::byte>> rows;
      for (const std::vector<std::byte>& file : block.files) {
        rows.emplace_back(file);
        result_.stored_bytes += file.size();
      }
      writer_.set_rows(target_.images, block.first + block.count);
      writer_.write_ragged(target_.images, block.first, rows);
      return;
    }
    std::vector<std::uint64_t> offset(4, 0);
    offset.front() = block.first;
    const std::span<const std::byte> bytes =
        filters_.empty() ? block.pixels.span() : std::span(block.encoded);
    if (target_.skip_bad) writer_.set_rows(target_.images, block.first + block.count);
    writer_.write_chunk(target_.images, offset, bytes);
    result_.stored_bytes += bytes.size();
  }

  void finish() {
    if (result_.labels.empty()) {
      throw FileError(fmt::format("none of {} images can be used; the first, {}, {}", set_.items.size(),
                                  result_.skipped.front().file.string(), result_.skipped.front().reason));
    }
    if (!target_.store_bytes) result_.stats = stats_.finish();
  }

  H5Writer& writer_;
  const ImageSet& set_;
  const ImageTarget& target_;
  Progress& progress_;
  const std::uint64_t row_bytes_;
  const std::uint64_t block_rows_;
  ByteStats stats_;
  const FilterPipeline filters_;
  std::vector<Loaded> ring_;
  std::uint64_t next_ = 0;
  BlockPtr block_;
  PackedImages result_;
};

}  // namespace

void refuse_image(const std::filesystem::path& file, std::string_view problem) {
  throw FileError(fmt::format("{} {}; repair or remove it, or leave bad images out with --on-error skip",
                              file.string(), problem));
}

void require_images(const ImageSet& set) {
  for (const ImageItem& item : set.items) {
    check_interrupted();
    if (::access(item.file.c_str(), R_OK) == 0) continue;
    refuse_image(item.file, fmt::format("cannot be opened ({})", std::strerror(errno)));
  }
}

PackedImages pack_images(H5Writer& writer, const ImageSet& set, const ImageTarget& target,
                         Progress& progress) {
  return ImagePacker(writer, set, target, progress).run();
}

PackedImages write_images(NewFile& file, const ImageSet& set, const ImageTarget& target, Progress& progress) {
  PackedImages packed = pack_images(file.writer(), set, target, progress);
  file.list_skipped();
  for (const SkippedImage& image : packed.skipped) file.note_skipped(image.file, image.reason);
  const std::uint64_t images = packed.labels.size();
  const std::string stored = format_bytes(packed.stored_bytes);
  if (target.store_bytes) {
    file.note(fmt::format("{} ({} files of differing size): {} stored\n", target.images, images, stored),
              {target.images, "bytes", {images}, {}, {}, packed.stored_bytes});
    return packed;
  }
  std::vector<std::uint64_t> shape = target.format.shape();
  shape.insert(shape.begin(), images);
  const std::uint64_t decoded = images * target.format.bytes();
  file.note(
      fmt::format("{} ({} u8): chunks of {}, {}; {} decoded, {} stored, ratio {:.2f}\n", target.images,
                  format_shape(shape), format_count(target.chunk_shape.front()),
                  format_filters(target.filters), format_bytes(decoded), stored,
                  static_cast<double>(decoded) / static_cast<double>(packed.stored_bytes)),
      {target.images, name_of(DType::u8), shape, target.chunk_shape, target.filters, packed.stored_bytes});
  file.describe(target.images, stats_attributes(packed.stats));
  return packed;
}

}  // namespace h5feed::cli
