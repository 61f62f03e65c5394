// SPDX-License-Identifier: Apache-2.0
// Reads images stored as variable-length values as rows of equal shape.
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

/// How to turn the values of a variable-length uint8 dataset (N) into image samples.
struct ImageSource {
  /// Decodes or scales each value to the samples' extent.
  std::shared_ptr<const ImageDecoder> decoder;
  /// Path of the dataset (N,3) of image shapes, if the values are raw pixels; empty: encoded images.
  std::string shapes;
  /// Whether the channels come first; only with `shapes`. Empty: determined from the first shape.
  std::optional<bool> planar;
  /// Extent of all samples; empty: the extent of the first image.
  std::optional<ImageExtent> extent;
};

/// Opens the images as a dataset (N,H,W,C) with one chunk per image. Uses 16 bytes of memory per image, 12
/// more with a table of shapes. Reads values without libhdf5 and its lock. `info` is from
/// `H5File::describe_ragged`; `source` replaces the file's bytes, null: `file->bytes()`. Blocks. Throws
/// FileError; DatasetError if the references cannot be read directly or the table of shapes does not fit;
/// ChunkError if the first image does not decode.
std::shared_ptr<const ChunkReader> open_images(const std::shared_ptr<H5File>& file, const DatasetInfo& info,
                                               const ImageSource& images,
                                               std::shared_ptr<const ByteSource> source,
                                               const ReaderSettings& settings);

}  // namespace h5feed
