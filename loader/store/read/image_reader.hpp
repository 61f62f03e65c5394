// SPDX-License-Identifier: Apache-2.0
// Images of variable length as rows of equal shape.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/image_decoder.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/file_pool.hpp"
#include "store/read/reader_factories.hpp"

namespace h5feed {

/// What makes samples of the values of a variable-length uint8 dataset (N).
struct ImageSource {
  std::shared_ptr<const ImageDecoder> decoder;
  /// Path of the table (N,3) of shapes where the values are pixels; empty: encoded images.
  std::string shapes;
  /// With `shapes`: whether the channels come first. Empty: told from the first shape.
  std::optional<bool> planar;
  /// Of all samples; empty: that of the first image.
  std::optional<ImageExtent> extent;
};

/// The images as a dataset (N,H,W,C), a chunk each: 16 bytes of memory an image, 12 more with a table of
/// shapes. Their values are read without libhdf5 and its lock. `info` is from `describe_ragged`. `source`
/// replaces the file's bytes. Throws FileError; DatasetError where the references cannot be read directly,
/// there are no images, or the table does not fit; ChunkError where the first image does not decode.
std::shared_ptr<const ChunkReader> open_images(const std::shared_ptr<H5File>& file, const DatasetInfo& info,
                                               const ImageSource& images,
                                               std::shared_ptr<const ByteSource> source,
                                               const ReaderSettings& settings);

}  // namespace h5feed
