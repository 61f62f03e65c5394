// SPDX-License-Identifier: Apache-2.0
// Fills a dataset of a new file: rows are produced and compressed in parallel and written in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "store/write/h5_writer.hpp"
#include "tools/program/progress.hpp"

namespace h5feed::cli {

/// Function that fills `out` with rows [first, first + count).
using RowProducer = std::function<void(std::uint64_t first, std::uint64_t count, std::span<std::byte> out)>;

/// Who may call a RowProducer: many threads at once, or one at a time with ascending rows.
enum class Production : std::uint8_t { parallel, in_order };

/// Creates `dataset` and writes all its rows. Chunks must span whole rows. Memory is bounded: at most two
/// blocks (chunks, or about 1 MiB of contiguous rows) per usable CPU are in flight, fewer if they would take
/// more than a quarter of the available memory. The bytes written do not depend on the number of threads.
/// Blocks; advances `progress` by decoded bytes. Returns the bytes stored. Throws the errors of `produce`,
/// FileError, and Interrupted.
std::uint64_t write_rows_in_parallel(H5Writer& writer, const NewDataset& dataset, Production production,
                                     const RowProducer& produce, Progress& progress);

/// Throws OptionError if the chunks of `dataset` are larger than HDF5 can store (4 GiB).
void check_chunk_size(const NewDataset& dataset);

/// Returns the decoded bytes of one row.
std::uint64_t row_bytes(const NewDataset& dataset);

}  // namespace h5feed::cli
