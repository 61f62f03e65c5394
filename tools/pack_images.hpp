// The work of `pack` on image files: read, decoded and compressed in parallel, written in order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "store/h5_writer.hpp"
#include "tools/channel_stats.hpp"
#include "tools/new_file.hpp"
#include "tools/pack_decode.hpp"
#include "tools/pack_list.hpp"
#include "tools/progress.hpp"

namespace h5feed::cli {

/// What becomes of the images of one set.
struct ImageTarget {
  bool store_bytes = false;                ///< the files as they are; else pixels of `format`
  PixelFormat format;                      ///< unless bytes are stored
  std::string images;                      ///< path of the dataset
  std::vector<std::uint64_t> chunk_shape;  ///< of pixels
  std::vector<FilterSpec> filters;         ///< of pixels
  bool skip_bad = false;                   ///< else the first one ends the work
  unsigned jobs = 1;
};

/// An image that was left out.
struct SkippedImage {
  std::filesystem::path file;
  std::string reason;
};

struct PackedImages {
  std::vector<std::int64_t> labels;  ///< of the images that were stored, in their order
  std::vector<SkippedImage> skipped;
  std::uint64_t stored_bytes = 0;
  DatasetStats stats;  ///< of pixels
};

/// Creates and fills the dataset `target.images`. Memory is bounded: a few images a job are under way, and
/// two chunks a job. The bytes written do not depend on the number of jobs. Blocks; advances `progress` by
/// one for each image. Throws FileError, which names a bad image unless they are skipped, and where all
/// are bad; Interrupted.
PackedImages pack_images(H5Writer& writer, const ImageSet& set, const ImageTarget& target,
                         Progress& progress);

/// Runs `pack_images`, reports dataset and skipped images to `file`, and stores the channel statistics of
/// pixels as attributes. Throws as `pack_images`.
PackedImages write_images(NewFile& file, const ImageSet& set, const ImageTarget& target, Progress& progress);

}  // namespace h5feed::cli
