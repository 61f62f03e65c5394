// SPDX-License-Identifier: Apache-2.0
#include "tools/repack/choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/byte_units.hpp"
#include "dataset/geometry.hpp"
#include "h5feed/error.hpp"
#include "plan/permutation.hpp"
#include "store/filters/filters.hpp"
#include "store/hdf5/dataset_names.hpp"
#include "store/index/chunk_index.hpp"
#include "store/index/index_damage.hpp"
#include "store/read/mapped_reader.hpp"
#include "store/read/reader_factories.hpp"
#include "tools/measure/decode_speed.hpp"
#include "tools/program/option_text.hpp"
#include "tools/program/output.hpp"
#include "tools/program/table.hpp"
#include "tools/repack/chunk_choice.hpp"
#include "tools/storage/dataset_alias.hpp"

namespace h5feed::cli {
namespace {

// Contiguous data below this size is left to libhdf5.
constexpr std::uint64_t kSmallBytes = kMiB;

// Some compressors write their chunk's size into the parameters, which changes with the chunks.
std::vector<FilterSpec> for_other_chunks(std::vector<FilterSpec> filters) {
  for (FilterSpec& filter : filters) filter = without_chunk_size(std::move(filter));
  return filters;
}

bool can_grow(const DatasetInfo& info) { return info.max_shape != info.shape; }

CopiedStorage storage_of(const DatasetInfo& info, const RepackArguments& arguments) {
  const ChunkChoice choice = parse_chunk_choice(arguments.chunk);
  if (info.shape.empty()) {
    throw OptionError(
        fmt::format("{}: a single value has no chunks; leave it out of --dataset", info.place()));
  }
  CopiedStorage storage{.chunk_shape = chunk_shape_of(info, choice, arguments),
                        .fixed_max_shape = arguments.max_shape == "fixed"};
  if (storage.chunk_shape.empty()) {
    if (!arguments.filter.empty() && arguments.filter != "none") {
      throw OptionError(
          fmt::format("{}: --filter {} needs chunks; add --chunk auto", info.place(), arguments.filter));
    }
    if (can_grow(info) && !storage.fixed_max_shape) {
      throw OptionError(
          fmt::format("{} can grow, which contiguous storage cannot; add --maxshape fixed", info.place()));
    }
    return storage;
  }
  if (!arguments.filter.empty()) {
    storage.filters = parse_filters(arguments.filter, size_of(info.dtype));
    return storage;
  }
  if (storage.chunk_shape == info.chunk_shape) {
    storage.filters = info.filters;
    storage.unfiltered_edge_chunks = info.unfiltered_edge_chunks && arguments.latest();
    return storage;
  }
  storage.filters = for_other_chunks(info.filters);
  return storage;
}

// Returns the datasets that the user named; if `entries` lists one under another of its names, the user's
// name counts.
std::vector<std::string> named_paths(const H5File& file, std::vector<DatasetEntry>& entries,
                                     const std::vector<std::string>& names) {
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    paths.push_back(file.describe(name, {.name = "dataset"}).path);
    DatasetEntry* const entry = entry_of(file, entries, paths.back());
    if (entry == nullptr) {
      throw DatasetError(
          fmt::format("{}:{} is in another file; repack that one", file.path().string(), paths.back()));
    }
    entry->path = paths.back();
  }
  return paths;
}

std::vector<std::string> chosen_paths(const H5File& file, std::vector<DatasetEntry>& entries,
                                      const RepackArguments& arguments) {
  if (!arguments.datasets.empty()) return named_paths(file, entries, arguments.datasets);
  std::vector<std::string> paths;
  for (const DatasetEntry& entry : entries) {
    const auto dtype = entry.numeric ? dtype_from_name(entry.type_text) : std::nullopt;
    if (dtype && looks_like_images(entry.shape, *dtype)) paths.push_back(entry.path);
  }
  if (paths.empty()) {
    throw DatasetError(no_images_text(file, entries) + ". Name those to repack with --dataset");
  }
  return paths;
}

// Opens a dataset that is to be written. Throws DatasetError if it has so many chunks that nobody lists those
// that are stored: its copy would store them all, and grow from a file of a few bytes to any size.
std::shared_ptr<const ChunkReader> open_rows(const std::shared_ptr<H5File>& file, DatasetInfo info) {
  auto reader = on_grid(open_chunk_reader(file, std::move(info)));
  const bool chunked = reader->info().layout == StorageLayout::chunked;
  if (!chunked || !too_many_to_list(reader->num_chunks(), file->size())) return reader;
  throw DatasetError(
      fmt::format("{}: its {} chunks are too many to find out which of them are stored, and a copy would "
                  "store them all; write the dataset once with larger chunks",
                  reader->info().place(), format_count(reader->num_chunks())));
}

// Returns a job for a dataset that stays as it is if its chunks are copied here: in parallel, with progress,
// and verified. Other datasets are small, or only libhdf5 can read them.
std::optional<RepackJob> untouched_job(const std::shared_ptr<H5File>& file, const DatasetEntry& entry,
                                       bool latest) {
  if (!entry.plain || entry.shape.empty()) return std::nullopt;
  DatasetInfo info = file->describe(entry.path);
  const bool chunked = info.layout == StorageLayout::chunked;
  if (!chunked && (info.layout != StorageLayout::contiguous || info.total_bytes() < kSmallBytes))
    return std::nullopt;
  if (info.unfiltered_edge_chunks && !latest) return std::nullopt;
  for (const FilterSpec& filter : info.filters) {
    if (!FilterPipeline::supports(filter) || (!filter.optional && !libhdf5_has_filter(filter.id)))
      return std::nullopt;
  }
  CopiedStorage storage{.chunk_shape = info.chunk_shape,
                        .filters = info.filters,
                        .unfiltered_edge_chunks = info.unfiltered_edge_chunks};
  const ScopedLogSink quiet(ignore_log);
  const bool byte_swapped = info.byte_swapped;
  auto reader = on_grid(open_chunk_reader(file, std::move(info)));
  if (!reader->direct()) return std::nullopt;
  return RepackJob{.reader = std::move(reader), .storage = std::move(storage), .byte_swapped = byte_swapped};
}

// Throws FileError if the chunk index of a dataset that libhdf5 copies is damaged: its copy would crash
// there.
void refuse_damaged_index(const H5File& file, const DatasetEntry& entry) {
  if (!entry.numeric || entry.shape.empty()) return;
  const DatasetInfo info = file.describe(entry.path);
  if (info.layout != StorageLayout::chunked) return;
  const std::string damage = chunk_index_damage(file, info);
  if (!damage.empty()) throw FileError(damage);
}

}  // namespace

void check_arguments(const RepackArguments& arguments) {
  const auto one_of = [](const std::string& value, std::string_view option, std::string_view only) {
    if (!value.empty() && value != only) {
      throw OptionError(fmt::format("{} \"{}\": give {}, or leave it out", option, value, only));
    }
  };
  one_of(arguments.max_shape, "--maxshape", "fixed");
  one_of(arguments.libver, "--libver", "latest");
  parse_chunk_choice(arguments.chunk);
  if (!arguments.filter.empty()) parse_filters(arguments.filter, 1);
  if (arguments.chunk == "none" && !arguments.filter.empty() && arguments.filter != "none") {
    throw OptionError(fmt::format("--filter {} needs chunks, and --chunk none has none; drop one of the two",
                                  arguments.filter));
  }
  if (!arguments.window.empty()) {
    if (arguments.chunk != "auto")
      throw OptionError("--window chooses the chunks of --chunk auto; add that, or leave --window out");
    window_use(arguments);
  } else if (!arguments.shuffle.empty() || !arguments.cache_bytes.empty()) {
    throw OptionError("--shuffle and --cache-bytes say how windows are read; add --window");
  }
  if (!arguments.shuffle_rows.empty()) {
    parse_number("--shuffle-rows", arguments.shuffle_rows);
    if (!arguments.split.empty() || !arguments.part.empty() || arguments.resume) {
      throw OptionError(
          "--shuffle-rows moves rows over the whole dataset; it does not go with --split, --part or "
          "--resume");
    }
  }
}

void refuse_no_change(const H5File& file, const RepackArguments& arguments) {
  for (const std::string& name : arguments.datasets) file.describe(name, {.name = "dataset"});
  if (arguments.chunk.empty() && arguments.filter.empty() && arguments.max_shape.empty() &&
      !arguments.latest() && arguments.shuffle_rows.empty()) {
    throw OptionError(fmt::format("nothing to change; try h5feed tune {}", shell_word(arguments.in)));
  }
}

// Throws DatasetError if the elements are not plain numbers and the copy cannot keep their type. Values of
// one number each, in all bits of their bytes, are moved between chunks as they are stored. Parts, however,
// are written as plain numbers, and contiguous storage by libhdf5, which converts no numbers to enumerations.
void check_elements(const DatasetInfo& info, const DatasetEntry& entry, const CopiedStorage& storage,
                    const RepackArguments& arguments) {
  if (info.plain_type) return;
  const auto refuse = [&](std::string_view reason) {
    throw DatasetError(fmt::format("{}:{}: the elements are {}, which {}", arguments.in,
                                   short_path(entry.path), entry.type_text, reason));
  };
  if (info.values_per_element > 1 || info.bits.count > 0) {
    refuse(fmt::format("repack copies as they are stored; leave out --dataset {}", entry.path));
  }
  if (storage.chunk_shape.empty()) {
    refuse(fmt::format("repack writes in chunks only; give --chunk auto, or leave out --dataset {}",
                       entry.path));
  }
  if (!arguments.split.empty() || !arguments.part.empty() || arguments.resume) {
    refuse(
        fmt::format("repack does not write in parts; leave out --split, --part and --resume, or --dataset {}",
                    entry.path));
  }
}

std::vector<RepackJob> choose_jobs(const std::shared_ptr<H5File>& file, const RepackArguments& arguments) {
  std::vector<DatasetEntry> entries = file->list_datasets();
  for (const DatasetEntry& entry : entries) {
    if (!entry.problem.empty()) throw FileError(entry.problem);  // all objects are copied
  }
  const std::vector<std::string> chosen = chosen_paths(*file, entries, arguments);
  std::vector<RepackJob> jobs;
  for (const DatasetEntry& entry : entries) {
    if (std::find(chosen.begin(), chosen.end(), entry.path) == chosen.end()) {
      if (auto job = untouched_job(file, entry, arguments.latest())) {
        jobs.push_back(std::move(*job));
      } else {
        refuse_damaged_index(*file, entry);
      }
      continue;
    }
    DatasetInfo info = file->describe(entry.path, {.name = "dataset"});
    CopiedStorage storage = storage_of(info, arguments);
    check_elements(info, entry, storage, arguments);
    RepackJob& job = jobs.emplace_back();
    job.byte_swapped = info.byte_swapped;
    job.reader = open_rows(file, std::move(info));
    job.storage = std::move(storage);
    job.chosen = true;
  }
  refuse_larger_chunks(parse_chunk_choice(arguments.chunk), arguments.chunk, jobs);
  if (arguments.shuffle_rows.empty()) return jobs;
  // Rows of data and labels stay together: every dataset with as many rows as a chosen one is included.
  add_row_companions(file, arguments, true, jobs);
  const std::uint64_t seed = parse_number("--shuffle-rows", arguments.shuffle_rows);
  for (RepackJob& job : jobs) {
    if (!shares_rows(jobs, job.info().shape)) continue;
    // Where nothing is stored, all rows are equal.
    if (written_share(*job.reader) > 0) job.shuffle_key = mix_key(seed, 0, 0);
    job.storage.rows_move = true;
  }
  return jobs;
}

bool shares_rows(const std::vector<RepackJob>& jobs, const std::vector<std::uint64_t>& shape) {
  return !shape.empty() && shape.front() > 1 &&
         std::any_of(jobs.begin(), jobs.end(),
                     [&](const RepackJob& job) { return job.chosen && job.info().rows() == shape.front(); });
}

void add_row_companions(const std::shared_ptr<H5File>& file, const RepackArguments& arguments, bool refuse,
                        std::vector<RepackJob>& jobs) {
  for (const DatasetEntry& entry : file->list_datasets()) {
    if (!shares_rows(jobs, entry.shape)) continue;
    if (std::any_of(jobs.begin(), jobs.end(),
                    [&](const RepackJob& job) { return job.info().path == entry.path; })) {
      continue;
    }
    if (!entry.plain) {
      if (!refuse) continue;
      throw DatasetError(
          fmt::format("{}:{} has as many rows as a dataset to shuffle, but its elements are {}, which "
                      "h5feed cannot move; remove it first",
                      arguments.in, entry.path, entry.type_text));
    }
    DatasetInfo info = file->describe(entry.path);
    // The dataset may be chosen already under another of its names.
    std::vector<std::string> names = {info.path};
    for (const RepackJob& job : jobs) names.push_back(job.info().path);
    const std::vector<std::uint64_t> numbers = object_numbers(*file, names);
    if (std::find(numbers.begin() + 1, numbers.end(), numbers.front()) != numbers.end()) continue;
    RepackArguments as_it_is = arguments;
    as_it_is.chunk = as_it_is.filter = as_it_is.max_shape = "";
    CopiedStorage storage = storage_of(info, as_it_is);
    const bool byte_swapped = info.byte_swapped;
    jobs.push_back({.reader = open_rows(file, std::move(info)),
                    .storage = std::move(storage),
                    .byte_swapped = byte_swapped});
  }
}

}  // namespace h5feed::cli
