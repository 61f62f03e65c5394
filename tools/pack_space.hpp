// How much room `pack` needs, estimated before it writes.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "store/h5_writer.hpp"
#include "tools/free_space.hpp"
#include "tools/pack_images.hpp"
#include "tools/pack_list.hpp"
#include "tools/pack_source.hpp"

namespace h5feed::cli {

/// Opens an array anew, at its first element.
using SourceOpener = std::function<std::unique_ptr<ArraySource>()>;

/// Bytes that `dataset` will take. Where it is compressed, its first rows are read and encoded. Throws as the
/// source.
SpaceNeed array_space(const NewDataset& dataset, const SourceOpener& open);

/// Bytes that the images of `set` will take: exact without filters; else a few images, spread over the set,
/// are decoded and encoded, and files that are stored as they are have the sizes that up to 1,000 of them
/// have on average. Images that cannot be read are left to `pack_images`.
SpaceNeed image_space(const ImageSet& set, const ImageTarget& target);

}  // namespace h5feed::cli
