// SPDX-License-Identifier: Apache-2.0
// `pack` on image files: reads, decodes and compresses in parallel, writes in order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "store/write/h5_writer.hpp"
#include "tools/pack/decode.hpp"
#include "tools/pack/list.hpp"
#include "tools/program/progress.hpp"
#include "tools/storage/channel_stats.hpp"
#include "tools/storage/new_file.hpp"

namespace h5feed::cli {

/// How to store the images of one set.
struct ImageTarget {
  bool store_bytes = false;                ///< store the files as they are; else pixels of `format`
  PixelFormat format;                      ///< used unless `store_bytes`
  std::string images;                      ///< path of the dataset
  std::vector<std::uint64_t> chunk_shape;  ///< chunk shape of pixel data
  std::vector<FilterSpec> filters;         ///< filters of pixel data
  bool skip_bad = false;                   ///< leave bad images out; else the first one ends the work
  unsigned jobs = 1;
};

/// An image that was left out, and why.
struct SkippedImage {
  std::filesystem::path file;
  std::string reason;
};

/// Result of packing one set of images.
struct PackedImages {
  std::vector<std::int64_t> labels;  ///< labels of the stored images, in their order
  std::vector<SkippedImage> skipped;
  std::uint64_t stored_bytes = 0;
  DatasetStats stats;  ///< statistics of pixel data
};

/// Throws FileError: `file` cannot be used because of `problem`, such as "is empty".
[[noreturn]] void refuse_image(const std::filesystem::path& file, std::string_view problem);

/// Throws FileError for the first file of the set that cannot be opened. Opens nothing.
void require_images(const ImageSet& set);

/// Creates and fills the dataset `target.images`. Memory is bounded: a few images and two chunks per job are
/// in flight. The bytes written do not depend on the number of jobs. Blocks; advances `progress` by one for
/// each image. Throws FileError that names a bad image unless bad images are skipped, FileError if all are
/// bad, and Interrupted.
PackedImages pack_images(H5Writer& writer, const ImageSet& set, const ImageTarget& target,
                         Progress& progress);

/// Runs `pack_images`, reports dataset and skipped images to `file`, and stores the channel statistics of
/// pixels as attributes. Throws as `pack_images`.
PackedImages write_images(NewFile& file, const ImageSet& set, const ImageTarget& target, Progress& progress);

}  // namespace h5feed::cli
