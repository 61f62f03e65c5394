// SPDX-License-Identifier: Apache-2.0
#include "tools/pack/space.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/byte_buffer.hpp"
#include "base/byte_units.hpp"
#include "tools/pack/decode.hpp"
#include "tools/program/interrupt.hpp"
#include "tools/storage/parallel_write.hpp"

namespace h5feed::cli {
namespace {

SpaceNeed files_space(const ImageSet& set) {
  constexpr std::size_t kMostLooks = 1000;
  const std::size_t looks = std::min(kMostLooks, set.items.size());
  double bytes = 0;
  for (std::size_t i = 0; i < looks; ++i) {
    check_interrupted();
    std::error_code error;
    const std::uintmax_t size =
        std::filesystem::file_size(set.items[set.items.size() * i / looks].file, error);
    if (!error) bytes += static_cast<double>(size);
  }
  const double all = bytes / static_cast<double>(looks) * static_cast<double>(set.items.size());
  return one_file(static_cast<std::uint64_t>(all), set.items.size() > looks);
}

}  // namespace

SpaceNeed array_space(const NewDataset& dataset, const SourceOpener& open) {
  double share = 1;
  if (!dataset.filters.empty()) {
    const std::uint64_t rows = std::clamp<std::uint64_t>(kMiB / row_bytes(dataset), 1, dataset.shape.front());
    ByteBuffer values(static_cast<std::size_t>(rows * row_bytes(dataset)));
    open()->read(values.span());
    share = measure_stored_share(dataset, values.span());
  }
  return one_file(stored_bytes_of(dataset, share), !dataset.filters.empty());
}

SpaceNeed image_space(const ImageSet& set, const ImageTarget& target) {
  if (target.store_bytes) return files_space(set);
  NewDataset dataset{.path = target.images,
                     .dtype = DType::u8,
                     .shape = target.format.shape(),
                     .chunk_shape = target.chunk_shape,
                     .filters = target.filters};
  dataset.shape.insert(dataset.shape.begin(), set.items.size());
  double share = 1;
  if (!target.filters.empty()) {
    constexpr std::size_t kMostLooks = 8;
    const std::size_t looks = std::min(kMostLooks, set.items.size());
    ByteBuffer pixels(static_cast<std::size_t>(target.format.bytes()));
    double sum = 0;
    std::size_t decoded = 0;
    for (std::size_t i = 0; i < looks; ++i) {
      check_interrupted();
      try {
        decode_image(read_image_file(set.items[set.items.size() * i / looks].file), target.format,
                     pixels.span());
      } catch (const BadImage& bad) {
        if (!target.skip_bad) refuse_image(set.items[set.items.size() * i / looks].file, bad.what());
        continue;
      }
      sum += measure_stored_share(dataset, pixels.span());
      ++decoded;
    }
    if (decoded > 0) share = sum / static_cast<double>(decoded);
  }
  return one_file(stored_bytes_of(dataset, share), !target.filters.empty());
}

}  // namespace h5feed::cli
