// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/file_faults.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/byte_units.hpp"
#include "base/files/scratch_folder.hpp"
#include "flow/resolve/cache_layout.hpp"
#include "h5feed/error.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/index/index_damage.hpp"
#include "store/read/joined_reader.hpp"
#include "tools/doctor/reading_faults.hpp"
#include "tools/info/shapes.hpp"
#include "tools/measure/decode_speed.hpp"
#include "tools/program/table.hpp"
#include "tools/storage/free_space.hpp"
#include "tools/storage/h5py_line.hpp"
#include "tools/storage/isolated.hpp"
#include "tools/storage/storage_advice.hpp"
#include "tools/storage/storage_model.hpp"

namespace h5feed::cli {
namespace {

// A smaller dataset is read whole, whatever its storage.
constexpr std::uint64_t kSmallBytes = kMiB;

struct Naming {
  const char* name;
  Severity severity;
};

Naming naming_of(StorageMistake mistake) {
  switch (mistake) {
    case StorageMistake::cut_samples:
      return {"cut_samples", Severity::serious};
    case StorageMistake::fallback:
      return {"read_by_libhdf5", Severity::serious};
    case StorageMistake::unset_chunks:
      return {"unset_chunks", Severity::serious};
    case StorageMistake::wide_chunks:
      return {"wide_chunks", Severity::minor};
    case StorageMistake::padding:
      return {"padding", Severity::minor};
    case StorageMistake::one_row_chunks:
      return {"one_row_chunks", Severity::serious};
    case StorageMistake::one_chunk:
      return {"one_chunk", Severity::serious};
    case StorageMistake::large_chunks:
      return {"large_chunks", Severity::minor};
    case StorageMistake::useless_filter:
      break;
  }
  return {"useless_filter", Severity::serious};
}

std::string name_of(const DatasetInfo& info) { return printable(short_path(info.path)); }

// Returns the line of h5py that writes the dataset in whole samples, of `value_bytes` each value.
std::string whole_samples_line(const DatasetInfo& info, std::string_view values, std::uint64_t value_bytes) {
  std::vector<std::uint64_t> chunk = info.shape;
  chunk.front() = automatic_chunk_rows(info.rows(), info.row_elements() * value_bytes);
  return h5py_line(info.path, values, chunk, info.filters);
}

Fault fault_of(const DatasetInfo& info, const StorageFault& found) {
  const auto [name, severity] = naming_of(found.mistake);
  Fault fault{severity, name, fmt::format("{}: {}", name_of(info), found.what), {}};
  if (!found.command.empty()) fault.mend.push_back(found.command);
  if (found.mistake != StorageMistake::unset_chunks) return fault;
  const std::optional<StorageFault> cut = cut_samples(info);
  fault.what += fmt::format(", as a filter or maxshape was given without chunks; {}", cut->what);
  fault.mend = {cut->command,
                whole_samples_line(info, "images", size_of(info.dtype)) + "  # h5py, when it is written"};
  return fault;
}

// Whether values are whole numbers from 0 to 255.
struct SmallWhole {
  bool all = true;
  bool any_above_zero = false;

  template <typename T>
  void look_at(std::span<const std::byte> bytes) {
    for (std::size_t at = 0; all && at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
      T value{};
      std::memcpy(&value, bytes.data() + at, sizeof(T));
      all = value >= 0 && value <= 255 && value == std::floor(value);
      any_above_zero = any_above_zero || value > 0;
    }
  }
};

// Returns whether the values of a few chunks, spread over the dataset, are whole numbers from 0 to 255. False
// if they are not looked at, or all zero, which tells nothing of the others.
bool fits_u8(const ChunkReader& reader) {
  constexpr std::uint64_t kChunks = 4, kLargest = 64 * kMiB;
  if (reader.chunk_bytes() > kLargest) return false;
  ReadScratch scratch;
  ByteBuffer values(static_cast<std::size_t>(reader.chunk_bytes()));
  SmallWhole seen;
  for (std::uint64_t i = 0; i < kChunks && seen.all; ++i) {
    reader.read_chunk(i * reader.num_chunks() / kChunks, values.span(), scratch);
    if (reader.info().dtype == DType::f64) {
      seen.look_at<double>(values.span());
    } else {
      seen.look_at<float>(values.span());
    }
  }
  return seen.all && seen.any_above_zero;
}

// Images, or other samples of several dimensions, in wider numbers than training needs.
std::optional<Fault> wide_values(const DatasetInfo& info, const ChunkReader& reader) {
  if (info.shape.size() < 3 || (info.dtype != DType::f64 && info.dtype != DType::f32)) return std::nullopt;
  const bool bytes_suffice = fits_u8(reader);
  if (info.dtype == DType::f32 && !bytes_suffice) return std::nullopt;
  const std::size_t stored = size_of(info.dtype), needed = bytes_suffice ? 1 : 4;
  const char* const narrow = bytes_suffice ? "uint8" : "float32";
  return Fault{Severity::serious,
               "wide_values",
               fmt::format("{}: its values are {}, {}; as {} it is read, decoded and cached in {} of {}",
                           name_of(info), info.dtype == DType::f64 ? "float64" : "float32",
                           bytes_suffice ? "but all that were looked at are whole numbers from 0 to 255"
                                         : "but networks train in float32 or less",
                           narrow, format_bytes(info.total_bytes() / stored * needed),
                           format_bytes(info.total_bytes())),
               {whole_samples_line(
                    info, fmt::format("f[{}][:].astype(\"{}\")", python_string(info.path), narrow), needed) +
                "  # h5py; f: this file, out: a new one"}};
}

// Returns what is damaged, one sentence; empty if nothing is known to be.
std::string damage_of(const DatasetInfo& info, const ChunkReader& reader) {
  try {
    if (info.layout == StorageLayout::chunked && !reader.direct()) {
      const std::string damage = chunk_index_damage(*open_isolated(info.file), info);
      if (!damage.empty()) return damage;
    }
    decode_seconds_per_byte(reader, std::chrono::milliseconds(50));
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

void add_faults(const DatasetState& dataset, const ChunkReader& reader, std::vector<Fault>& faults) {
  // Files and groups that are joined are written alike: the first stands for them.
  if (const auto parts = reader.parts(); !parts.empty()) {
    add_faults(dataset, *parts.front().reader, faults);
    return;
  }
  const DatasetInfo& info = reader.info();
  if (const std::string damage = damage_of(info, reader); !damage.empty()) {
    faults.push_back(damage_fault(dataset, info.file, damage));
    return;
  }
  if (info.total_bytes() < kSmallBytes) return;
  const bool by_tiles = dataset.tiling || suggested_tile(info).has_value();
  const std::vector<StorageFault> found = storage_faults(info, &reader);
  const bool unset = std::ranges::any_of(
      found, [](const StorageFault& fault) { return fault.mistake == StorageMistake::unset_chunks; });
  if (const auto cut = cut_samples(info); cut && !unset && !by_tiles) faults.push_back(fault_of(info, *cut));
  if (auto wide = wide_values(info, reader)) faults.push_back(std::move(*wide));
  for (const StorageFault& fault : found) faults.push_back(fault_of(info, fault));
}

// Returns a directory for copies of `bytes`: that for temporary files, if it is on a local disk with room.
std::string local_directory(std::uint64_t bytes) {
  const std::filesystem::path directory = temporary_place();
  std::error_code none;
  if (std::filesystem::is_directory(directory, none)) {
    const StorageKind kind = storage_kind(directory);
    const auto room = free_bytes_for(directory / "h5feed");
    if (!kind.remote && kind.name != "tmpfs" && room && *room > 2 * bytes) return directory.string();
  }
  return "/a/folder/on/a/local/disk";
}

std::optional<Fault> network_storage(const DatasetState& dataset, const ResolvedOptions& options) {
  if (!dataset.remote) return std::nullopt;
  const bool cached = cached_data_bytes(dataset, options) <= options.cache_bytes;
  std::error_code none;
  const auto bytes = std::filesystem::file_size(dataset.remote->file, none);
  return Fault{cached ? Severity::minor : Severity::serious,
               "network_storage",
               fmt::format("{} is on {}, which is reached over a network: {}",
                           printable(dataset.remote->file), printable(dataset.remote->storage),
                           cached ? "the first epoch waits for it; the following ones come from the cache"
                                  : "every epoch reads the file through it, and waits for it"),
               {fmt::format("Dataset.open(..., stage_dir=\"{}\")  # copies the file there once",
                            local_directory(none ? 0 : bytes))}};
}

}  // namespace

std::vector<Fault> file_faults(const DatasetState& dataset, const ResolvedOptions& options) {
  std::vector<Fault> faults;
  for (std::size_t number = 0; number < dataset.num_fields(); ++number) {
    const Field* const field = dataset.field(number);
    // Rows of sparse matrices have no chunks of their own.
    if (field == nullptr || field->is_resident() || (number == kData && dataset.sparse)) continue;
    add_faults(dataset, *field->reader, faults);
  }
  if (auto network = network_storage(dataset, options)) faults.push_back(std::move(*network));
  return faults;
}

}  // namespace h5feed::cli
