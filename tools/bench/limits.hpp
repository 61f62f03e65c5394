// SPDX-License-Identifier: Apache-2.0
// Upper bounds for the loader's speed: the same threads do only the unavoidable work.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"

namespace h5feed::cli {

/// Settings for both limits.
struct LimitSetup {
  unsigned threads = 1;
  std::uint64_t slot_bytes = 0;  ///< all threads' slots together; each thread has room for at least one row
  std::chrono::nanoseconds duration = std::chrono::seconds(1);
  bool skip_bad = false;  ///< pass over what cannot be read or decoded, instead of throwing
  /// Chunk that turn number `turn` decodes. Empty: all chunks in turn.
  std::function<std::uint64_t(std::uint64_t turn)> chunk_of = {};
};

/// Returns the chunks that turns decode for a mixture, for `LimitSetup::chunk_of`: those of each set as often
/// as an epoch decodes them, by the `sets` of its plan.
std::function<std::uint64_t(std::uint64_t turn)> mixed_chunks(const DatasetState& dataset,
                                                              const std::vector<MixedSetPlan>& sets);

/// Returns decoded bytes per second: threads read each chunk in turn, run its filters, and copy its rows into
/// rotating slots, without cache, order or queue. `sparse` is set if the rows are those of a sparse matrix.
/// Blocks. Throws the errors of ChunkReader::read_chunk, without `skip_bad`.
double measure_decode_limit(const Field& data, const SparseData* sparse, const LimitSetup& setup);

/// Returns bytes per second: threads read single random rows straight into the slots. Needs
/// `data.reader->rows_readable()`. Blocks. Throws the errors of ChunkReader::read_rows,
/// without `skip_bad`.
double measure_gather_limit(const Field& data, const LimitSetup& setup);

}  // namespace h5feed::cli
