// SPDX-License-Identifier: Apache-2.0
#include "store/vlen/heap_references.hpp"

#include <fmt/format.h>

#include <string>

#include "h5feed/error.hpp"
#include "store/read/read_all.hpp"
#include "store/read/reader_factories.hpp"

namespace h5feed {

std::vector<HeapReference> read_references(const std::shared_ptr<H5File>& file, const DatasetInfo& info,
                                           const HeapFormat& format,
                                           const std::shared_ptr<const ByteSource>& source,
                                           const ReaderSettings& settings) {
  // libhdf5 reads the values of such data, not the references to them.
  std::shared_ptr<const ChunkReader> reader;
  ReaderSettings quiet = settings;
  quiet.log_fallback = false;
  if (info.layout == StorageLayout::chunked || info.layout == StorageLayout::contiguous)
    reader = open_chunk_reader(file, info, source, quiet);
  if (!reader || !reader->direct()) {
    throw DatasetError(
        fmt::format("{}:{}: variable-length data is read where it is stored contiguous, or in chunks with "
                    "filters that are built in; this is {}; rewrite it",
                    info.file, short_path(info.path),
                    reader ? reader->fallback_reason() : std::string(name_of(info.layout))));
  }
  const ByteBuffer stored = read_all(*reader, 1);
  std::vector<HeapReference> references;
  references.reserve(info.rows());
  const std::size_t bytes = format.reference_bytes();
  for (std::size_t row = 0; row < info.rows(); ++row)
    references.push_back(read_reference(stored.span().subspan(row * bytes, bytes), format));
  return references;
}

}  // namespace h5feed
