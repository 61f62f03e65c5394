#include "store/chunk_index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <optional>

#include "h5feed/error.hpp"
#include "store/chunk_geometry.hpp"
#include "store/h5_file_state.hpp"
#include "store/recording_driver.hpp"

namespace h5feed {
namespace {

// A larger grid, possible in a sparse dataset, would take gigabytes of index.
constexpr std::uint64_t kMaxChunks = std::uint64_t{1} << 26;

// Chunks that any file may have, however small: their index takes 24 MiB. Beyond that a file has one
// byte a chunk at least, so that a few damaged bytes cannot demand gigabytes.
constexpr std::uint64_t kMaxSparseChunks = std::uint64_t{1} << 20;

// Only the index of the dataset is wanted: no chunk may be cached.
H5::DSetAccPropList without_chunk_cache() {
  H5::DSetAccPropList access;
  access.setChunkCache(1, 0, 1.0);
  return access;
}

#if H5FEED_HAVE_CHUNK_ITER

struct Visit {
  const DatasetInfo& info;
  ChunkIndex& index;
  std::uint64_t base_address;  // to be added to every address libhdf5 gives
};

// The types of the mask and the size differ between library versions.
template <typename Mask, typename Bytes>
int keep_chunk(const hsize_t* offset, Mask filter_mask, haddr_t address, Bytes bytes, void* data) {
  const Visit& visit = *static_cast<const Visit*>(data);
  std::uint64_t chunk = 0;
  for (std::size_t d = 0; d < visit.info.file_rank(); ++d) {
    const std::uint64_t coordinate = offset[d] / visit.info.chunk_shape[d];
    // Files of old libraries may keep chunks beyond an extent that was shrunk.
    if (coordinate >= visit.index.grid[d]) return 0;
    chunk = chunk * visit.index.grid[d] + coordinate;
  }
  if (address != HADDR_UNDEF) {
    visit.index.locations[chunk] = {address + visit.base_address, bytes,
                                    static_cast<std::uint32_t>(filter_mask)};
  }
  return 0;
}

void list_chunks(const H5::H5File& file, const DatasetInfo& info, ChunkIndex& index) {
  Visit visit{info, index, 0};
#if !H5_VERSION_GE(1, 14, 4)
  visit.base_address = file.getCreatePlist().getUserblock();
#endif
  const H5::DataSet dataset = file.openDataSet(info.path, without_chunk_cache());
  if (H5Dchunk_iter(dataset.getId(), H5P_DEFAULT, keep_chunk, &visit) < 0) {
    throw H5::DataSetIException("H5Dchunk_iter", "failed");
  }
}

#else

// The chunk's element offsets, from its number.
std::array<hsize_t, H5S_MAX_RANK> chunk_offset(std::uint64_t chunk, const ChunkIndex& index,
                                               const DatasetInfo& info) {
  std::array<hsize_t, H5S_MAX_RANK> offset = {};
  for (std::size_t d = index.grid.size(); d-- > 0;) {
    offset[d] = chunk % index.grid[d] * info.chunk_shape[d];
    chunk /= index.grid[d];
  }
  return offset;
}

void list_chunks(const H5::H5File& named, const DatasetInfo& info, ChunkIndex& index)
    H5FEED_REQUIRES(hdf5_mutex) {
  const H5::FileAccPropList access;
  limit_metadata_cache(access);
  use_recording_driver(access);
  const H5::H5File file(named.getFileName(), H5F_ACC_RDONLY, H5::FileCreatPropList::DEFAULT, access);
  const H5::DataSet dataset = file.openDataSet(info.path, without_chunk_cache());
  // One walk over the index. It tells when all is found, and an entry that is damaged, which fails
  // below, from one of a chunk that was never written, which fails as well.
  hsize_t stored = 0;
  const H5::DataSpace space = dataset.getSpace();
  if (H5Dget_num_chunks(dataset.getId(), space.getId(), &stored) < 0)
    throw H5::DataSetIException("H5Dget_num_chunks", "failed");
  // libhdf5 need not compose the reasons.
  const Hdf5ErrorHandler silence(nullptr, nullptr);
  hsize_t found = 0;
  for (std::uint64_t chunk = 0; chunk < index.locations.size() && found < stored; ++chunk) {
    const auto offset = chunk_offset(chunk, index, info);
    std::uint32_t filter_mask = 0;
    std::byte nothing{};  // the driver writes no data
    if (H5Dread_chunk(dataset.getId(), H5P_DEFAULT, offset.data(), &filter_mask, &nothing) < 0) continue;
    const std::optional<RecordedRead> read = take_recorded_read(file);
    if (!read) throw H5::DataSetIException("H5Dread_chunk", "not one read a chunk");
    index.locations[chunk] = {read->address, read->bytes, filter_mask};
    ++found;
  }
  if (found != stored) throw H5::DataSetIException("H5Dget_num_chunks", "differs from the chunks found");
}

#endif

// libhdf5 reports a mask of 0 for edge chunks that it stored without filters.
void mark_unfiltered_edges(const DatasetInfo& info, ChunkIndex& index) {
  for (std::uint64_t chunk = 0; chunk < index.locations.size(); ++chunk) {
    if (cut_by_extent(chunk_coordinates(chunk, index.grid), info))
      index.locations[chunk].filter_mask = ChunkLocation::kAllFiltersSkipped;
  }
}

}  // namespace

ChunkIndex build_chunk_index(const H5File& file, const DatasetInfo& info) {
  ChunkIndex index;
  index.grid = chunk_grid(info.shape, info.chunk_shape);
  const std::uint64_t chunks =
      std::accumulate(index.grid.begin(), index.grid.end(), std::uint64_t{1}, std::multiplies<>());
  const std::uint64_t file_bytes = file.bytes()->size();
  if (chunks > std::min(kMaxChunks, kMaxSparseChunks + file_bytes)) {
    throw FileError(fmt::format("{}:{}: {} chunks are too many to list", info.file, info.path, chunks));
  }
  index.locations.resize(chunks);
  {
    const Hdf5Session session;
    try {
      list_chunks(H5FileAccess::handle(file), info, index);
      // libhdf5 would keep what the walk took of memory.
      H5garbage_collect();
    } catch (const H5::Exception& error) {
      throw FileError(fmt::format("{}:{}: libhdf5 cannot list the chunks: {}", info.file, info.path,
                                  error.getDetailMsg()));
    }
  }
  for (const ChunkLocation& location : index.locations) {
    if (!location.allocated()) continue;
    if (location.address > file_bytes || location.stored_bytes > file_bytes - location.address) {
      throw FileError(fmt::format("{}:{}: a chunk lies outside the file", info.file, info.path));
    }
  }
  if (info.unfiltered_edge_chunks) mark_unfiltered_edges(info, index);
  return index;
}

}  // namespace h5feed
