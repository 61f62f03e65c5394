// SPDX-License-Identifier: Apache-2.0
// How a dataset is opened as a ChunkReader: the choice between the ways of reading it, and each of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "store/format/byte_source.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/index/chunk_index.hpp"
#include "store/read/chunk_reader.hpp"

namespace h5feed {

class FilePool;

/// How a dataset is opened for reading.
struct ReaderSettings {
  /// Where the sources of virtual datasets are opened: they are then read directly, where they are runs of
  /// whole rows. Null: virtual datasets go through libhdf5, once their sources were found to be there.
  std::shared_ptr<FilePool> pool = {};
  bool log_fallback = true;  ///< log why a dataset is read through libhdf5
  unsigned depth = 0;        ///< virtual datasets that this one is a source of
};

/// Chooses the direct path (pread and own filters) where layout and filters allow it, else H5Dread under the
/// mutex, logged once a dataset with the reason. `source` replaces the file's bytes on the direct path
/// (tests, later remote sources). Throws FileError, and DatasetError for a filter that neither h5feed nor
/// libhdf5 has.
std::shared_ptr<const ChunkReader> open_chunk_reader(std::shared_ptr<H5File> file, DatasetInfo info,
                                                     std::shared_ptr<const ByteSource> source = nullptr,
                                                     const ReaderSettings& settings = {});

/// Chunked layout by pread and own filters.
std::shared_ptr<const ChunkReader> make_direct_reader(DatasetInfo info, ChunkIndex index,
                                                      std::shared_ptr<const ByteSource> source);

/// Contiguous or compact data, cut into runs of rows. `source` holds it from `begin` on; empty when
/// nothing was ever written.
std::shared_ptr<const ChunkReader> make_flat_reader(DatasetInfo info, std::optional<std::uint64_t> begin,
                                                    std::shared_ptr<const ByteSource> source);

/// Anything, under libhdf5's lock. Chunks whose filters are all built in are only read there, and
/// decoded outside; the rest goes through H5Dread.
std::shared_ptr<const ChunkReader> make_fallback_reader(DatasetInfo info, std::shared_ptr<H5File> file,
                                                        std::string reason);

/// As `make_fallback_reader`, with the reason logged where `settings` says so.
std::shared_ptr<const ChunkReader> open_fallback(std::shared_ptr<H5File> file, DatasetInfo info,
                                                 const std::string& reason, const ReaderSettings& settings);

/// A virtual dataset, whose sources `settings.pool` opens. Throws FileError and DatasetError that name a
/// source which is missing or cannot be read.
std::shared_ptr<const ChunkReader> open_virtual(const std::shared_ptr<H5File>& file, const DatasetInfo& info,
                                                const ReaderSettings& settings);

}  // namespace h5feed
