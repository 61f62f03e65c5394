// SPDX-License-Identifier: Apache-2.0
#include "store/index/chunk_index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <optional>
#include <span>

#include "h5feed/error.hpp"
#include "store/format/chunk_geometry.hpp"
#include "store/hdf5/h5_file_handles.hpp"
#include "store/hdf5/h5_metadata.hpp"
#include "store/index/array_places.hpp"
#include "store/index/chunk_overlap.hpp"
#include "store/index/entry_check.hpp"
#include "store/index/index_damage.hpp"
#include "store/index/index_walk.hpp"
#include "store/index/recording_driver.hpp"

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

// Without `missing` where it is not known which chunk the dataset has lost.
[[noreturn]] void throw_damaged(const DatasetInfo& info, const ChunkIndex& index, const Misplaced& misplaced,
                                std::optional<std::uint64_t> missing) {
  throw DamagedChunkIndex(fmt::format(
      "{} lists {} out of place{}; restore the file from a good copy, or, if an old library "
      "has shrunk the dataset, rewrite it with h5repack",
      missing ? describe_chunk_of(info, info.chunk_shape, index.grid, *missing) +
                    " is missing in its index, which"
              : fmt::format("{}:{}: its chunk index", info.file, short_path(info.path)),
      misplaced.count == 1 ? "a chunk" : fmt::format("{} chunks", misplaced.count),
      misplaced.example.empty() ? "" : fmt::format(", at element ({})", fmt::join(misplaced.example, ","))));
}

[[noreturn]] void throw_empty(const DatasetInfo& info, std::uint64_t chunk) {
  throw UnreadableChunkIndex(fmt::format("{}:{}: its chunk index gives chunk {} a size of 0 bytes", info.file,
                                         short_path(info.path), chunk));
}

// Returns whether the entries of the index hold the places of their chunks. Those of arrays are found by
// their position, and an array may list places outside the dataset.
bool holds_places(const DatasetInfo& info) { return info.index_kind.starts_with("B-tree"); }

#if H5FEED_HAVE_CHUNK_ITER

struct Visit {
  ChunkIndex& index;  // without locations: the chunks are checked, not listed
  EntryCheck check;
  std::size_t rank = 0;
  std::uint64_t base_address = 0;  // to be added to every address libhdf5 gives
  bool collect = false;            // chunks whose offsets have to be put right
  std::vector<hsize_t> offsets = {};
  std::vector<ChunkLocation> locations = {};
  std::uint64_t visited = 0;
  bool out_of_memory = false;

  void keep(const hsize_t* start, const ChunkLocation& location) {
    const std::optional<std::uint64_t> chunk = check.meet({start, rank});
    if (chunk && location.allocated() && !index.locations.empty()) index.locations[*chunk] = location;
  }
};

// The types of the mask and the size differ between library versions.
template <typename Mask, typename Bytes>
int keep_chunk(const hsize_t* first_element, Mask filter_mask, haddr_t address, Bytes bytes,
               void* data) noexcept {
  try {
    Visit& visit = *static_cast<Visit*>(data);
    ++visit.visited;
    ChunkLocation location;
    if (address != HADDR_UNDEF)
      location = {address + visit.base_address, bytes, static_cast<std::uint32_t>(filter_mask)};
    if (visit.collect) {
      visit.offsets.insert(visit.offsets.end(), first_element, first_element + visit.rank);
      visit.locations.push_back(location);
    } else {
      visit.keep(first_element, location);
    }
    return 0;
  } catch (const std::exception&) {
    static_cast<Visit*>(data)->out_of_memory = true;
    return -1;  // libhdf5's C code cannot pass an exception on
  }
}

void keep_corrected(const H5::DataSet& dataset, Visit& visit) H5FEED_REQUIRES(hdf5_mutex) {
  if (!correct_places(dataset.getId(), visit.offsets))
    throw H5::DataSetIException("H5Dget_chunk_storage_size", "finds chunks elsewhere than H5Dchunk_iter");
  for (std::size_t i = 0; i < visit.locations.size(); ++i)
    visit.keep(visit.offsets.data() + i * visit.rank, visit.locations[i]);
}

Misplaced visit_chunks(const H5::H5File& file, const DatasetInfo& info, ChunkIndex& index)
    H5FEED_REQUIRES(hdf5_mutex) {
  Visit visit{.index = index, .check = {info, index}, .rank = info.file_rank()};
#if !H5_VERSION_GE(1, 14, 4)
  visit.base_address = file_creation_properties(file).getUserblock();
#endif
  const H5::DataSet dataset = file.openDataSet(info.path, without_chunk_cache());
  const bool growing = reads_beside_writer(file);
  if (growing) forget_metadata(dataset);
  visit.collect = lists_wrong_places(dataset.getId());
  const bool whole = H5Dchunk_iter(dataset.getId(), H5P_DEFAULT, keep_chunk, &visit) >= 0;
  // What a killed SWMR writer left half written ends the list: the chunks before are whole.
  if (!whole && (!growing || visit.out_of_memory || visit.visited == 0))
    throw H5::DataSetIException("H5Dchunk_iter", "failed");
  if (visit.collect) keep_corrected(dataset, visit);
  return visit.check.misplaced();
}

Misplaced misplaced_chunks(const H5::H5File& file, const DatasetInfo& info, ChunkIndex& index)
    H5FEED_REQUIRES(hdf5_mutex) {
  return visit_chunks(file, info, index);
}

void list_chunks(const H5::H5File& file, const DatasetInfo& info, ChunkIndex& index)
    H5FEED_REQUIRES(hdf5_mutex) {
  const Misplaced misplaced = visit_chunks(file, info, index);
  // A SWMR writer may have appended chunks since the extents were read.
  if (misplaced.count == 0 || !holds_places(info) || reads_beside_writer(file)) return;
  const auto missing = std::ranges::find_if_not(index.locations, &ChunkLocation::allocated);
  if (missing == index.locations.end()) return;
  throw_damaged(info, index, misplaced, static_cast<std::uint64_t>(missing - index.locations.begin()));
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

// Of `listed` chunks. Each query walks the index up to its chunk, so that the search has to end.
std::vector<std::uint64_t> find_misplaced(const H5::DataSet& dataset, hsize_t listed, const DatasetInfo& info,
                                          const ChunkIndex& index) {
  constexpr hsize_t kMostQueries = 4096;
  const H5::DataSpace space = dataset.getSpace();
  for (hsize_t i = 0; i < std::min(listed, kMostQueries); ++i) {
    std::array<hsize_t, H5S_MAX_RANK> offset = {};
    unsigned filter_mask = 0;
    haddr_t address = 0;
    hsize_t bytes = 0;
    if (H5Dget_chunk_info(dataset.getId(), space.getId(), i, offset.data(), &filter_mask, &address, &bytes) <
        0)
      break;
    const auto place = std::span(offset).first(info.file_rank());
    const std::optional<std::uint64_t> chunk = chunk_at(place, index, info);
    if (!chunk || !index.locations[*chunk].allocated()) return {place.begin(), place.end()};
  }
  return {};
}

// After fewer chunks were read than the index lists: whether the others are damaged entries, or not of the
// dataset. Throws unless all chunks of the dataset were read.
void check_unread(const H5::DataSet& dataset, const IndexWalk& walk, const DatasetInfo& info,
                  const ChunkIndex& index, bool growing) {
  std::uint64_t in_place = 0;
  std::vector<std::uint64_t> unreadable;
  for (std::uint64_t i = 0; i < walk.candidates.size(); ++i) {
    const std::uint64_t chunk = walk.candidates[i];
    if (index.locations[chunk].allocated()) {
      ++in_place;
      continue;
    }
    hsize_t bytes = 0;
    const auto offset = chunk_offset(chunk, index, info);
    // Fails for a chunk that is not in the index.
    if (H5Dget_chunk_storage_size(dataset.getId(), offset.data(), &bytes) >= 0 && bytes > 0)
      unreadable.push_back(chunk);
  }
  std::uint64_t missing = 0;
  while (missing < index.locations.size() &&
         (index.locations[missing].allocated() || std::ranges::binary_search(unreadable, missing)))
    ++missing;
  const std::uint64_t misplaced =
      walk.listed - std::min<std::uint64_t>(walk.listed, in_place + unreadable.size());
  // A SWMR writer may have appended chunks since the extents were read.
  if (misplaced > 0 && missing < index.locations.size() && !growing) {
    if (holds_places(info))
      throw_damaged(info, index, {misplaced, find_misplaced(dataset, walk.listed, info, index)}, missing);
    throw FileError(fmt::format("{}:{}: its index lists {} chunks, {} of them where libhdf5 finds none",
                                info.file, short_path(info.path), walk.listed, misplaced));
  }
  if (!unreadable.empty()) {
    throw UnreadableChunkIndex(fmt::format("{}:{}: {} {} of its chunk index cannot be read", info.file,
                                           short_path(info.path), unreadable.size(),
                                           unreadable.size() == 1 ? "entry" : "entries"));
  }
}

Misplaced misplaced_chunks(const H5::H5File& named, const DatasetInfo& info, const ChunkIndex& index)
    H5FEED_REQUIRES(hdf5_mutex) {
  const H5::H5File file = open_recorded(named);
  const H5::DataSet dataset = file.openDataSet(info.path, without_chunk_cache());
  IndexWalk walk = walk_index(file, dataset, info, index);
  if (!walk.whole) throw H5::DataSetIException("H5Dget_num_chunks", "failed");
  return std::move(walk.misplaced);
}

void list_chunks(const H5::H5File& named, const DatasetInfo& info, ChunkIndex& index)
    H5FEED_REQUIRES(hdf5_mutex) {
  const bool growing = reads_beside_writer(named);
  const H5::H5File file = open_recorded(named);
  const H5::DataSet dataset = file.openDataSet(info.path, without_chunk_cache());
  // Tells when all is found, and an entry that is damaged, which fails below, from one of a chunk that was
  // never written, which fails as well.
  IndexWalk walk = walk_index(file, dataset, info, index);
  if (!walk.whole && !growing) throw H5::DataSetIException("H5Dget_num_chunks", "failed");
  // What a killed SWMR writer left half written ends the list: the chunks before are whole.
  if (!walk.whole) walk.listed = index.locations.size();
  // libhdf5 need not compose the reasons.
  const Hdf5ErrorHandler silence(nullptr, nullptr);
  hsize_t found = 0;
  for (std::uint64_t i = 0; i < walk.candidates.size() && found < walk.listed; ++i) {
    const std::uint64_t chunk = walk.candidates[i];
    const auto offset = chunk_offset(chunk, index, info);
    std::uint32_t filter_mask = 0;
    std::byte nothing{};  // the driver writes no data
    if (H5Dread_chunk(dataset.getId(), H5P_DEFAULT, offset.data(), &filter_mask, &nothing) < 0) {
      if (walk.whole) continue;
      break;
    }
    const std::optional<RecordedRead> read = take_recorded_read(file);
    if (!read) {
      hsize_t bytes = 0;
      if (H5Dget_chunk_storage_size(dataset.getId(), offset.data(), &bytes) >= 0 && bytes == 0)
        throw_empty(info, chunk);
      throw FileError(fmt::format("{}:{}: libhdf5 does not read chunk {} in one piece", info.file,
                                  short_path(info.path), chunk));
    }
    index.locations[chunk] = {read->address, read->bytes, filter_mask};
    ++found;
  }
  if (!walk.whole && found == 0) throw H5::DataSetIException("H5Dget_num_chunks", "failed");
  if (walk.whole && found != walk.listed) check_unread(dataset, walk, info, index, growing);
}

#endif

// libhdf5 reports a mask of 0 for edge chunks that it stored without filters.
void mark_unfiltered_edges(const DatasetInfo& info, ChunkIndex& index) {
  for (std::uint64_t chunk = 0; chunk < index.locations.size(); ++chunk) {
    if (cut_by_extent(chunk_coordinates(chunk, index.grid), info))
      index.locations[chunk].filter_mask = ChunkLocation::kAllFiltersSkipped;
  }
}

// Two chunks that share bytes: at least one of them would be read as the other's values.
void check_overlap(const DatasetInfo& info, const ChunkIndex& index) {
  const auto overlap = overlapping_chunks(index.locations);
  if (!overlap) return;
  const auto [first, second] = *overlap;
  const std::uint64_t address = std::max(index.locations[first].address, index.locations[second].address);
  throw DamagedChunkIndex(fmt::format(
      "{} and chunk ({}) share bytes of the file from byte {} on, so that one of them is lost; {}",
      describe_chunk_of(info, info.chunk_shape, index.grid, first),
      fmt::join(chunk_coordinates(second, index.grid), ","), address, kRestore));
}

// Lists the chunks in the process that reads the file.
std::vector<ChunkLocation> ask_for_locations(const IsolatedFile& remote, const DatasetInfo& info,
                                             std::uint64_t chunks) {
  auto sent = remote.ask<SentLocations>(Request::chunk_locations, info);
  if (!sent.damage.empty()) throw DamagedChunkIndex(sent.damage);
  if (!sent.unreadable.empty()) throw UnreadableChunkIndex(sent.unreadable);
  if (sent.locations.size() != chunks) remote.refuse("another number of chunks");
  return std::move(sent.locations);
}

}  // namespace

bool too_many_to_list(std::uint64_t chunks, std::uint64_t file_bytes) noexcept {
  return chunks > std::min(kMaxChunks, kMaxSparseChunks + file_bytes);
}

std::vector<ChunkLocation> chunk_locations(const H5File& file, const DatasetInfo& info) {
  ChunkIndex index;
  index.grid = chunk_grid(info.shape, info.chunk_shape);
  const std::uint64_t chunks =
      std::accumulate(index.grid.begin(), index.grid.end(), std::uint64_t{1}, std::multiplies<>());
  const bool too_many = too_many_to_list(chunks, file.size());
  if (const IsolatedFile* const remote = H5FileAccess::remote(file))
    return ask_for_locations(*remote, info, chunks);
  if (!too_many) index.locations.resize(chunks);
  const Hdf5Session session;
  try {
    if (too_many && info.index_kind == kVersion1Index) {
      const Misplaced misplaced = misplaced_chunks(H5FileAccess::handle(file), info, index);
      if (misplaced.count > 0) throw_damaged(info, index, misplaced, std::nullopt);
    }
    if (too_many)
      throw FileError(
          fmt::format("{}:{}: {} chunks are too many to list", info.file, short_path(info.path), chunks));
    list_chunks(H5FileAccess::handle(file), info, index);
    // libhdf5 would keep what the walk took of memory.
    H5garbage_collect();
  } catch (const H5::Exception&) {
    throw UnreadableChunkIndex(fmt::format("{}:{}: libhdf5 cannot list the chunks: {}", info.file,
                                           short_path(info.path), session.error()));
  }
  return std::move(index.locations);
}

ChunkIndex build_chunk_index(const H5File& file, const DatasetInfo& info) {
  ChunkIndex index;
  index.grid = chunk_grid(info.shape, info.chunk_shape);
  index.locations = chunk_locations(file, info);
  const std::uint64_t file_bytes = file.size();
  for (std::uint64_t chunk = 0; chunk < index.locations.size(); ++chunk) {
    const ChunkLocation& location = index.locations[chunk];
    if (!location.allocated()) continue;
    if (location.stored_bytes == 0) throw_empty(info, chunk);
    if (location.address > file_bytes || location.stored_bytes > file_bytes - location.address) {
      throw UnreadableChunkIndex(
          fmt::format("{}:{}: the address of a chunk is outside the file", info.file, short_path(info.path)));
    }
  }
  check_overlap(info, index);
  if (info.unfiltered_edge_chunks) mark_unfiltered_edges(info, index);
  return index;
}

std::string chunk_index_damage(const H5File& file, const DatasetInfo& info) {
  try {
    build_chunk_index(file, info);
  } catch (const DamagedChunkIndex& error) {
    return error.what();
  } catch (const UnreadableChunkIndex& error) {
    return fmt::format("{}; {}", error.what(), kRestore);
  } catch (const FileError&) {
    // The chunks cannot be listed, for another reason than damage.
  }
  return {};
}

}  // namespace h5feed
