// SPDX-License-Identifier: Apache-2.0
// Opens datasets as ChunkReader: the choice of a reader, and a factory for each kind.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "store/format/byte_source.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/index/chunk_index.hpp"
#include "store/index/last_chunks.hpp"
#include "store/read/chunk_reader.hpp"

namespace h5feed {

class FilePool;
struct OpenedSources;

/// Settings of `open_chunk_reader`.
struct ReaderSettings {
  /// Opens external files, and the sources of virtual datasets, which are read directly if their selections
  /// are regular. Null: a pool for this dataset only.
  std::shared_ptr<FilePool> pool = {};
  bool log_fallback = true;  ///< Log why a dataset is read through libhdf5
  unsigned depth = 0;        ///< Nesting depth: number of virtual datasets that this one is a source of
  /// The datasets that were opened as sources of the same outermost virtual dataset; null for that itself.
  std::shared_ptr<OpenedSources> opened = {};
};

/// Opens a dataset for reading. Uses the direct path (pread and own filters) if layout and filters allow it,
/// else H5Dread under the HDF5 mutex, with the reason logged once per dataset. `source` replaces the file's
/// bytes on the direct path (for tests); null: the file's own. Blocks. Throws FileError, and DatasetError for
/// a filter that neither h5feed nor libhdf5 has.
std::shared_ptr<const ChunkReader> open_chunk_reader(std::shared_ptr<H5File> file, DatasetInfo info,
                                                     std::shared_ptr<const ByteSource> source = nullptr,
                                                     const ReaderSettings& settings = {});

/// Creates a reader of a chunked dataset that uses pread and own filters. `last` watches the chunks that may
/// move while rows are appended; null: none.
std::shared_ptr<const ChunkReader> make_direct_reader(DatasetInfo info, ChunkIndex index,
                                                      std::shared_ptr<const ByteSource> source,
                                                      std::shared_ptr<const LastChunks> last);

/// Creates a reader of contiguous or compact data, split into runs of rows. The data begins at byte `begin`
/// of `source`; empty if it was never written.
std::shared_ptr<const ChunkReader> make_flat_reader(DatasetInfo info, std::optional<std::uint64_t> begin,
                                                    std::shared_ptr<const ByteSource> source);

/// Creates a reader of any dataset under libhdf5's lock. Chunks whose filters are all built in are only read
/// under the lock and decoded outside it; everything else goes through H5Dread. `reason` is what
/// `fallback_reason()` returns.
std::shared_ptr<const ChunkReader> make_fallback_reader(DatasetInfo info, std::shared_ptr<H5File> file,
                                                        std::string reason);

/// Logs `reason` if `settings.log_fallback`, and creates a reader that uses libhdf5 (`make_fallback_reader`).
/// A virtual dataset is read from the original of a copy, next to which libhdf5 finds its sources.
/// Throws FileError and DatasetError if that cannot be opened.
std::shared_ptr<const ChunkReader> open_fallback(std::shared_ptr<H5File> file, DatasetInfo info,
                                                 const std::string& reason, const ReaderSettings& settings);

/// Opens a virtual dataset, whose sources are opened by `settings.pool`. Throws FileError and DatasetError
/// that name a source which is missing or cannot be read.
std::shared_ptr<const ChunkReader> open_virtual(const std::shared_ptr<H5File>& file, const DatasetInfo& info,
                                                const ReaderSettings& settings);

}  // namespace h5feed
