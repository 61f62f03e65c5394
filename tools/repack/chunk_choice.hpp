// SPDX-License-Identifier: Apache-2.0
// Chunk shape that `--chunk` of `repack` means for each dataset.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/format/dataset_info.hpp"
#include "tools/repack/choice.hpp"
#include "tools/repack/dataset.hpp"
#include "tools/storage/window_plan.hpp"

namespace h5feed::cli {

/// Kind of value that `--chunk` has.
enum class ChunkForm : std::uint8_t { as_source, automatic, samples, bytes, shape, none };

/// Value of `--chunk`.
struct ChunkChoice {
  ChunkForm form = ChunkForm::as_source;
  std::uint64_t amount = 0;  ///< Samples or bytes
  std::vector<std::uint64_t> shape = {};
};

/// Parses the value of `--chunk`. Throws OptionError.
ChunkChoice parse_chunk_choice(const std::string& text);

/// Returns how windows are read that `--chunk auto` is for; requires `arguments.window`. Throws OptionError.
WindowUse window_use(const RepackArguments& arguments);

/// Returns the chunk shape that `choice` means for this dataset; empty for contiguous storage. Throws
/// OptionError.
std::vector<std::uint64_t> chunk_shape_of(const DatasetInfo& info, const ChunkChoice& choice,
                                          const RepackArguments& arguments);

/// Throws OptionError for a chunk larger than every dataset that it is for, as in tune. If only smaller
/// datasets are exceeded, they are stored in one chunk.
void refuse_larger_chunks(const ChunkChoice& choice, const std::string& text,
                          const std::vector<RepackJob>& jobs);

/// Returns ": windows of 3 rows decode …" for the plan of a dataset in chunks of `chunk_rows`; empty without
/// `arguments.window`.
std::string window_text(const DatasetInfo& info, std::uint64_t chunk_rows, const RepackArguments& arguments);

}  // namespace h5feed::cli
