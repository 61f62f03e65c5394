// SPDX-License-Identifier: Apache-2.0
// Estimates the disk space that `pack` needs, before it writes.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "store/write/h5_writer.hpp"
#include "tools/pack/images.hpp"
#include "tools/pack/list.hpp"
#include "tools/pack/source.hpp"
#include "tools/storage/free_space.hpp"

namespace h5feed::cli {

/// Opens an array again, at its first element.
using SourceOpener = std::function<std::unique_ptr<ArraySource>()>;

/// Returns the bytes that `dataset` will take. If it is compressed, reads and encodes its first rows. Throws
/// the errors of the source.
SpaceNeed array_space(const NewDataset& dataset, const SourceOpener& open);

/// Returns the bytes that the images of `set` will take. Exact without filters; otherwise estimated by
/// decoding and encoding a few images spread over the set. Files stored as they are count with the mean size
/// of up to 1,000 of them. Throws FileError that names a bad image it meets, unless bad images are skipped.
SpaceNeed image_space(const ImageSet& set, const ImageTarget& target);

}  // namespace h5feed::cli
