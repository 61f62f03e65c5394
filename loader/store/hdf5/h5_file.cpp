// SPDX-License-Identifier: Apache-2.0
#include "store/hdf5/h5_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "h5feed/error.hpp"
#include "store/checks/structure_check.hpp"
#include "store/format/chunk_geometry.hpp"
#include "store/format/host_values.hpp"
#include "store/format/superblock.hpp"
#include "store/hdf5/dataset_list.hpp"
#include "store/hdf5/h5_file_handles.hpp"
#include "store/hdf5/h5_metadata.hpp"
#include "store/hdf5/hdf5_types.hpp"
#include "store/hdf5/refused_open.hpp"
#include "store/hdf5/virtual_circle.hpp"
#include "store/hdf5/within_file.hpp"
#include "store/isolation/isolated_file.hpp"

namespace h5feed {
namespace {

bool is_prime(std::size_t number) {
  for (std::size_t factor = 2; factor * factor <= number; ++factor) {
    if (number % factor == 0) return false;
  }
  return number > 1;
}

// Number of slots of libhdf5's chunk hash table. It keeps one chunk per slot, so its manual advises a prime
// of about 100 times the number of chunks that fit.
std::size_t cache_slots(const DatasetInfo& info, std::uint64_t cache_bytes) {
  std::uint64_t chunk_bytes = size_of(info.dtype);
  for (const std::uint64_t extent : info.chunk_shape) chunk_bytes *= extent;
  const std::uint64_t chunks = std::max<std::uint64_t>(cache_bytes / chunk_bytes, 1);
  auto slots = static_cast<std::size_t>(std::min<std::uint64_t>(chunks * 100, 100'000));
  while (!is_prime(slots)) ++slots;
  return slots;
}

H5::DataSet open_reader(const H5::H5File& handle, const DatasetInfo& info, std::uint64_t cache_bytes) {
  H5::DSetAccPropList access;
  // Weight 0 evicts the least recently used chunk. Weight 1, meant for chunks that are read once, makes
  // libhdf5 1.10 evict only chunks that were read whole, so chunks at the edge accumulate beyond
  // `cache_bytes`.
  access.setChunkCache(cache_bytes == 0 ? 1 : cache_slots(info, cache_bytes),
                       static_cast<std::size_t>(cache_bytes), 0.0);
  return handle.openDataSet(info.path, access);
}

// libhdf5 walks the whole chunk index of a dataset to count its bytes, and recurses without end over one
// whose nodes refer to each other.
void check_chunk_tree(const Hdf5Calls& calls, const ByteSource& bytes, const H5::DataSet& dataset,
                      const std::string& path) H5FEED_REQUIRES(hdf5_mutex) {
  const std::string damage = chunk_tree_damage(bytes, key_of(dataset.getId(), ".", calls, path));
  if (!damage.empty())
    throw FileError(fmt::format("{}:{}: {}; {}", calls.file(), short_path(path), damage, kRestore));
}

// Opens the file in this process, marked as open by its writer only if that is the program itself. The writer
// may begin or end SWMR mode at any moment.
void open_here(const std::string& path, const std::string& place, bool of_program, H5File::State& state) {
  const Hdf5Session session;
  state.headers.emplace(state.bytes);
  constexpr int kAttempts = 3;
  for (int i = 1;; ++i) {
    const bool closed = of_program || !left_open(*state.bytes);
    if (closed && (state.file = open_for_reading(place, state.swmr_writer)) != H5I_INVALID_HID) return;
    const std::string reason = session.error_and_cure();
    const bool swmr_writer = has_swmr_writer(*state.bytes);
    if (swmr_writer == state.swmr_writer || i == kAttempts)
      throw FileError(why_not_opened(path, *state.bytes, reason));
    state.swmr_writer = swmr_writer;
  }
}

}  // namespace

H5::H5File H5FileAccess::handle(const H5File& file) {
  if (file.state_->remote) throw std::logic_error("H5FileAccess::handle: another process reads the file");
  return H5::H5File(file.state_->file);
}

H5::DataSet H5FileAccess::reader(const H5File& file, const DatasetInfo& info,
                                 std::uint64_t chunk_cache_bytes) {
  hid_t& id = file.state_->readers.try_emplace(info.path, H5I_INVALID_HID).first->second;
  if (id == H5I_INVALID_HID) id = retain(open_reader(handle(file), info, chunk_cache_bytes));
  return H5::DataSet(id);
}

bool H5FileAccess::has_reader(const H5File& file, const DatasetInfo& info) {
  const MutexLock lock(hdf5_mutex);
  return file.state_->readers.contains(info.path);
}

H5File::H5File(std::filesystem::path path, std::filesystem::path place, std::unique_ptr<State> state)
    : path_(std::move(path)), place_(std::move(place)), state_(std::move(state)) {}

H5File::~H5File() {
  if (state_->remote) return;
  // Allocates nothing: a destructor that threw would end the process.
  std::map<std::string, hid_t> readers;
  hid_t file = H5I_INVALID_HID;
  {
    const MutexLock lock(hdf5_mutex);
    readers.swap(state_->readers);
    file = state_->file;
  }
  for (const auto& [path, id] : readers) Hdf5Session::release(id);
  if (file != H5I_INVALID_HID) Hdf5Session::release(file);
}

std::shared_ptr<H5File> H5File::open(const std::filesystem::path& path, const std::filesystem::path& place,
                                     const std::shared_ptr<ReaderProcess>& isolation) {
  return open_with(path, place, isolation, isolation != nullptr);
}

std::shared_ptr<H5File> H5File::open_at_risk(const std::filesystem::path& path,
                                             const std::filesystem::path& place) {
  return open_with(path, place, nullptr, true);
}

std::shared_ptr<H5File> H5File::open_with(const std::filesystem::path& path,
                                          const std::filesystem::path& place,
                                          const std::shared_ptr<ReaderProcess>& isolation, bool at_risk) {
  // First, as nothing may fail between opening the file and owning it.
  std::shared_ptr<H5File> file(new H5File(path, place, std::make_unique<State>()));
  State& state = *file->state_;
  const bool of_program = !isolation && flush_for_program(place.string());
  // Identity of the path, as libhdf5 and its drivers open the file by name.
  state.identity = find_file_identity(place);
  state.bytes = open_file_source(place);
  if (!has_hdf5_signature(*state.bytes)) throw FileError(why_not_hdf5(path));
  state.swmr_writer = has_swmr_writer(*state.bytes);
  if (const std::string damage = structure_damage(*state.bytes); !damage.empty())
    throw FileError(fmt::format("{}: {}; {}", path.string(), damage, kRestore));
  if (const std::string_view why = at_risk ? "" : why_not_examined(*state.bytes); !why.empty()) {
    throw FileError(fmt::format(
        "{}: {}, so that h5feed cannot examine it for damage over which libhdf5 ends the process; open "
        "it with isolation = process, or copy it by h5repack",
        path.string(), why));
  }
  if (isolation) state.remote = std::make_unique<const IsolatedFile>(isolation, path, place);
  if (!isolation) open_here(path.string(), place.string(), of_program, state);
  return file;
}

const std::shared_ptr<const ByteSource>& H5File::bytes() const noexcept { return state_->bytes; }

std::shared_ptr<ReaderProcess> H5File::isolation() const noexcept {
  return state_->remote ? state_->remote->process() : nullptr;
}

bool H5File::swmr_writer() const noexcept { return state_->swmr_writer; }

std::uint64_t H5File::size() const {
  return state_->swmr_writer ? file_identity(place_).bytes : state_->bytes->size();
}

bool H5File::unchanged() const noexcept {
  const std::optional<FileIdentity> now = find_file_identity(place_);
  // A removed name changes nothing: the opened file can still be read.
  if (!now || now == state_->identity) return true;
  // A SWMR writer leaves in place what its readers know of.
  return state_->swmr_writer && state_->identity && now->device == state_->identity->device &&
         now->inode == state_->identity->inode && now->bytes >= state_->identity->bytes;
}

void H5File::check_unchanged() const {
  if (unchanged()) return;
  throw FileError(fmt::format("{}: the file was written or replaced since it was opened; open it again",
                              place_.string()));
}

std::vector<DatasetEntry> H5File::list_datasets() const {
  if (state_->remote) return state_->remote->ask<std::vector<DatasetEntry>>(Request::list_datasets);
  const Hdf5Session session;
  return read_entries(H5FileAccess::handle(*this), {session, path_.string()}, *state_->headers);
}

std::vector<ExternalLink> H5File::list_external_links() const {
  if (state_->remote) return state_->remote->ask<std::vector<ExternalLink>>(Request::list_external_links);
  const Hdf5Session session;
  return read_external_links(H5FileAccess::handle(*this), {session, path_.string()}, *state_->headers);
}

DatasetEntry H5File::list_one(const std::string& path) const {
  if (state_->remote) return state_->remote->ask<DatasetEntry>(Request::list_one, path);
  const Hdf5Session session;
  return read_entry(H5FileAccess::handle(*this), {session, path_.string()}, *state_->headers,
                    absolute_path(path));
}

PathEnd H5File::end_of(const std::string& name) const {
  if (state_->remote) return state_->remote->ask<PathEnd>(Request::end_of_path, name);
  const Hdf5Session session;
  return find_end(H5FileAccess::handle(*this), {session, path_.string()}, *state_->headers,
                  absolute_path(name));
}

DatasetInfo H5File::describe(const std::string& name, const PathOption& option) const {
  const std::string file = path_.string();
  const std::string path = absolute_path(name);
  if (state_->remote) {
    auto info = state_->remote->ask<DatasetInfo>(Request::describe, name, option.as_typed());
    info.file = file;
    info.path = path;
    return info;
  }
  const Hdf5Session session;
  const H5::H5File handle = H5FileAccess::handle(*this);
  const WithinFile within;
  try {
    refuse_damaged_header(handle, within, {session, file}, *state_->headers, path);
    if (path == "/" || within.type_of(handle, path) == H5I_GROUP)
      throw_is_group(handle, {session, file}, *state_->headers, name, option);
    const H5::DataSet dataset = handle.openDataSet(path, within.datasets());
    check_chunk_tree({session, file}, *state_->bytes, dataset, path);
    if (state_->swmr_writer) forget_metadata(dataset);
    return read_info(file, path, dataset);
  } catch (const H5::Exception&) {
    throw_not_opened(handle, within, {session, file}, *state_->headers, name, option);
  }
}

std::optional<DatasetInfo> H5File::describe_ragged(const std::string& name) const {
  std::optional<VlenInfo> info = describe_vlen(name);
  if (!info || size_of(info->dtype) != 1) return std::nullopt;
  return std::move(info->references);
}

std::optional<VlenInfo> H5File::describe_vlen(const std::string& name) const {
  const std::size_t reference_bytes = heap_format().reference_bytes();
  const std::string path = absolute_path(name);
  if (state_->remote) {
    auto info = state_->remote->ask<std::optional<VlenInfo>>(Request::describe_vlen, name);
    if (!info) return info;
    if (info->references.values_per_element != reference_bytes || info->references.file_rank() != 1)
      state_->remote->refuse("references of another size");
    info->references.file = path_.string();
    info->references.path = path;
    return info;
  }
  const Hdf5Session session;
  const H5::H5File handle = H5FileAccess::handle(*this);
  try {
    const WithinFile within;
    refuse_damaged_header(handle, within, {session, path_.string()}, *state_->headers, path);
    if (path == "/" || within.type_of(handle, path) != H5I_DATASET) return std::nullopt;
    const H5::DataSet dataset = handle.openDataSet(path, within.datasets());
    check_chunk_tree({session, path_.string()}, *state_->bytes, dataset, path);
    if (state_->swmr_writer && dataset.getTypeClass() == H5T_VLEN) {
      throw DatasetError(
          fmt::format("{}:{}: values of variable length cannot be read safely while a SWMR "
                      "writer has the file open; read it once the writer has closed it",
                      path_.string(), short_path(path)));
    }
    return read_vlen_info(path_.string(), path, dataset, reference_bytes);
  } catch (const H5::Exception&) {
    return std::nullopt;
  }
}

HeapFormat H5File::heap_format() const {
  if (state_->remote) return state_->remote->ask<HeapFormat>(Request::heap_format);
  const Hdf5Session session;
  try {
    const H5::FileCreatPropList plist = file_creation_properties(H5FileAccess::handle(*this));
    HeapFormat format;
    plist.getSizes(format.address_bytes, format.length_bytes);
    format.base_address = plist.getUserblock();
    return format;
  } catch (const H5::Exception&) {
    throw FileError(
        fmt::format("{}: libhdf5 cannot tell its format: {}", path_.string(), session.error_and_cure()));
  }
}

std::optional<std::uint64_t> H5File::contiguous_offset(const DatasetInfo& info) const {
  if (state_->remote)
    return state_->remote->ask<std::optional<std::uint64_t>>(Request::contiguous_offset, info);
  const Hdf5Session session;
  try {
    const H5::DataSet dataset = H5FileAccess::handle(*this).openDataSet(info.path);
    // Checked first: for data that was never written, H5Dget_offset adds the user block to an undefined
    // address.
    H5D_space_status_t allocated = H5D_SPACE_STATUS_ERROR;
    if (H5Dget_space_status(dataset.getId(), &allocated) < 0) throw H5::DataSetIException();
    const haddr_t offset = H5Dget_offset(dataset.getId());
    if (allocated == H5D_SPACE_STATUS_NOT_ALLOCATED || offset == HADDR_UNDEF) return std::nullopt;
    return offset;
  } catch (const H5::Exception&) {
    throw FileError(Hdf5Calls(session, info.file).problem(info.path, kCannotOpen));
  }
}

std::optional<H5File::StoredChunk> H5File::read_stored_chunk(const DatasetInfo& info,
                                                             std::span<const std::uint64_t> offset,
                                                             std::uint64_t max_bytes, ByteBuffer& raw) const {
  // Without filters, libhdf5 1.10 returns the size that a chunk should have, and reads whatever a damaged
  // index points to.
  if (info.filters.empty()) throw std::invalid_argument("H5File::read_stored_chunk: the data has no filters");
  if (state_->remote) {
    const auto reply = state_->remote->ask_bytes(Request::read_stored_chunk, info,
                                                 std::vector(offset.begin(), offset.end()), max_bytes);
    WireReader reader(reply);
    const auto chunk = state_->remote->taken<std::optional<StoredChunk>>(reader);
    const std::span<const std::byte> bytes = reader.rest();
    if (bytes.size() != (chunk ? chunk->bytes : 0) || bytes.size() > max_bytes)
      state_->remote->refuse("a chunk of another size");
    raw.resize_discard(bytes.size());
    std::ranges::copy(bytes, raw.span().begin());
    return chunk;
  }
  const std::vector<hsize_t> first(offset.begin(), offset.end());
  const Hdf5Session session;
  const auto fail = [&](std::string_view reason) {
    return FileError(fmt::format("{}:{}: libhdf5 cannot read the chunk at ({}): {}; {}", info.file,
                                 short_path(info.path), fmt::join(offset, ","), reason, kRestore));
  };
  try {
    const H5::DataSet dataset = H5FileAccess::reader(*this, info, 0);
    hsize_t bytes = 0;
    if (H5Dget_chunk_storage_size(dataset.getId(), first.data(), &bytes) < 0 || bytes == 0)
      return std::nullopt;
    if (bytes > max_bytes) throw fail(fmt::format("{} bytes are too many", bytes));
    raw.resize_discard(bytes);
    StoredChunk chunk{.bytes = bytes};
    if (!read_raw_chunk(dataset, first, raw.span(), chunk.filter_mask)) throw fail(session.error());
    return chunk;
  } catch (const H5::Exception&) {
    throw fail(session.error());
  }
}

void H5File::read_rows(const DatasetInfo& info, std::uint64_t first, std::uint64_t count,
                       std::span<std::byte> out, std::uint64_t chunk_cache_bytes) const {
  std::vector<std::uint64_t> start(info.shape.size(), 0);
  std::vector<std::uint64_t> extent = info.shape;
  if (!extent.empty()) {
    start.front() = first;
    extent.front() = count;
  }
  read_hyperslab(info, start, extent, out, chunk_cache_bytes);
}

void H5File::read_hyperslab(const DatasetInfo& info, std::span<const std::uint64_t> start,
                            std::span<const std::uint64_t> count, std::span<std::byte> out,
                            std::uint64_t chunk_cache_bytes) const {
  std::uint64_t bytes = size_of(info.dtype);
  for (const std::uint64_t extent : count) bytes *= extent;
  if (bytes != out.size()) throw std::invalid_argument("H5File::read_hyperslab: out is of another size");
  if (out.empty()) return;
  if (state_->remote) {
    state_->remote->ask_into(out, Request::read_hyperslab, info, std::vector(start.begin(), start.end()),
                             std::vector(count.begin(), count.end()), chunk_cache_bytes);
    return;
  }
  if (info.layout == StorageLayout::virtual_dataset && !H5FileAccess::has_reader(*this, info))
    refuse_circle(*this, info);
  const Hdf5Session session;
  try {
    const H5::DataSet dataset = H5FileAccess::reader(*this, info, chunk_cache_bytes);
    const H5::DataSpace file_space = dataset.getSpace();
    // libhdf5 leaves out elements that were never written if their fill time is "never", and libhdf5 1.10
    // those that no source has where the sources of a virtual dataset overlap.
    fill_with(info.fill_value, out);
    if (info.file_rank() == 0) {
      dataset.read(out.data(), memory_type(dataset), file_space, file_space);
      take_value_bits(info, out);
      return;
    }
    // Elements of several values are always read whole.
    const auto rank = static_cast<std::ptrdiff_t>(info.file_rank());
    const std::vector<hsize_t> first(start.begin(), start.begin() + rank);
    const std::vector<hsize_t> extent(count.begin(), count.begin() + rank);
    file_space.selectHyperslab(H5S_SELECT_SET, extent.data(), first.data());
    const H5::DataSpace memory_space(static_cast<int>(extent.size()), extent.data());
    dataset.read(out.data(), memory_type(dataset), memory_space, file_space);
    take_value_bits(info, out);
  } catch (const H5::Exception&) {
    throw FileError(fmt::format("{}:{}: libhdf5 cannot read {} elements at ({}): {}", info.file,
                                short_path(info.path), format_shape({count.begin(), count.end()}),
                                fmt::join(start, ","), session.error_and_cure()));
  }
}

bool H5File::has_filter(unsigned id) const {
  return state_->remote ? state_->remote->ask<bool>(Request::has_filter, id) : libhdf5_has_filter(id);
}

}  // namespace h5feed
