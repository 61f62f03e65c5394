// SPDX-License-Identifier: Apache-2.0
#include "tools/repack/choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/byte_units.hpp"
#include "dataset/geometry.hpp"
#include "h5feed/error.hpp"
#include "plan/permutation.hpp"
#include "store/filters/filters.hpp"
#include "store/hdf5/dataset_names.hpp"
#include "store/index/index_damage.hpp"
#include "store/read/reader_factories.hpp"
#include "tools/program/option_text.hpp"
#include "tools/program/output.hpp"
#include "tools/storage/dataset_alias.hpp"
#include "tools/storage/storage_model.hpp"

namespace h5feed::cli {
namespace {

constexpr const char* kChunkForms =
    "auto, samples per chunk, a size such as 4MiB, a shape such as 100x3x218x178, or none for contiguous "
    "storage";

// Contiguous data below this size is left to libhdf5.
constexpr std::uint64_t kSmallBytes = kMiB;

enum class ChunkForm : std::uint8_t { as_source, automatic, samples, bytes, shape, none };

struct ChunkChoice {
  ChunkForm form = ChunkForm::as_source;
  std::uint64_t amount = 0;
  std::vector<std::uint64_t> shape = {};
};

ChunkChoice parse_chunk_choice(const std::string& text) {
  if (text.empty()) return {};
  if (text == "auto") return {.form = ChunkForm::automatic};
  if (text == "none") return {.form = ChunkForm::none};
  const auto digits = [](char c) { return c >= '0' && c <= '9'; };
  if (std::all_of(text.begin(), text.end(), digits)) {
    return {.form = ChunkForm::samples,
            .amount = parse_number("--chunk", text, 1, std::numeric_limits<std::uint32_t>::max())};
  }
  if (std::all_of(text.begin(), text.end(), [&](char c) { return digits(c) || c == 'x'; })) {
    return {.form = ChunkForm::shape, .shape = parse_shape("--chunk", text, kChunkForms)};
  }
  // A fraction without a unit is neither a number of samples nor a plausible size.
  const bool has_unit = text.find_first_of("0123456789.", text.size() - 1) == std::string::npos;
  const std::uint64_t bytes = has_unit && digits(text.front()) ? parse_size("--chunk", text) : 0;
  if (bytes == 0) throw OptionError(fmt::format("--chunk \"{}\": give {}", text, kChunkForms));
  if (bytes >= 4 * kGiB) {
    throw OptionError(fmt::format(
        "--chunk \"{}\" is too large; HDF5 stores chunks below 4 GiB, choose a smaller size", text));
  }
  return {.form = ChunkForm::bytes, .amount = bytes};
}

std::vector<std::uint64_t> whole_samples(const DatasetInfo& info, std::uint64_t samples) {
  std::vector<std::uint64_t> chunk = info.shape;
  chunk.front() = samples;
  return chunk;
}

// Returns the chunk shape that `choice` means for this dataset; empty for contiguous storage.
std::vector<std::uint64_t> chunk_shape_of(const DatasetInfo& info, const ChunkChoice& choice) {
  std::vector<std::uint64_t> chunk;
  switch (choice.form) {
    case ChunkForm::as_source:
      chunk = info.chunk_shape;
      break;
    case ChunkForm::automatic:
      chunk = whole_samples(info, automatic_chunk_rows(info.rows(), info.row_bytes()));
      break;
    case ChunkForm::samples:
      chunk = whole_samples(info, choice.amount);
      break;
    case ChunkForm::bytes:
      chunk = whole_samples(
          info, std::max<std::uint64_t>(1, choice.amount / std::max<std::uint64_t>(1, info.row_bytes())));
      break;
    case ChunkForm::shape:
      if (choice.shape.size() != info.shape.size()) {
        throw OptionError(fmt::format("--chunk {}: {} has {} dimensions ({}); give as many extents",
                                      fmt::join(choice.shape, "x"), info.path, info.shape.size(),
                                      format_shape(info.shape)));
      }
      chunk = choice.shape;
      break;
    case ChunkForm::none:
      return {};
  }
  // A chunk beyond the data would be padding, and libhdf5 refuses chunks beyond a fixed extent.
  for (std::size_t d = 0; d < chunk.size(); ++d) {
    chunk[d] = std::clamp<std::uint64_t>(chunk[d], 1, std::max<std::uint64_t>(1, info.shape[d]));
  }
  std::uint64_t bytes = size_of(info.dtype);
  for (const std::uint64_t extent : chunk) {
    if (bytes > (4 * kGiB - 1) / extent) {
      throw OptionError(
          fmt::format("{}: chunks of {} exceed 4 GiB, the most that HDF5 stores; choose a smaller "
                      "--chunk",
                      info.path, format_shape(chunk)));
    }
    bytes *= extent;
  }
  return chunk;
}

// Refuses a chunk larger than every dataset that it is for, as in tune. If only smaller datasets are
// exceeded, they are stored in one chunk.
void refuse_larger_chunks(const ChunkChoice& choice, const std::string& text,
                          const std::vector<RepackJob>& jobs) {
  std::vector<std::uint64_t> wanted = choice.shape;
  if (choice.form == ChunkForm::samples) wanted = {choice.amount};
  for (std::size_t d = 0; d < wanted.size(); ++d) {
    const DatasetInfo* largest = nullptr;
    for (const RepackJob& job : jobs) {
      if (job.chosen && (largest == nullptr || job.info().shape[d] > largest->shape[d]))
        largest = &job.info();
    }
    if (largest == nullptr || largest->shape[d] == 0 || wanted[d] <= largest->shape[d]) continue;
    if (choice.form == ChunkForm::samples) {
      throw OptionError(fmt::format("--chunk {}: {} has {} rows; give smaller chunks", text, largest->path,
                                    format_count(largest->rows())));
    }
    throw OptionError(fmt::format("--chunk {}: {} is {}; give smaller chunks", text, largest->path,
                                  format_shape(largest->shape)));
  }
}

// Some compressors write their chunk's size into the parameters, which changes with the chunks.
std::vector<FilterSpec> for_other_chunks(std::vector<FilterSpec> filters) {
  for (FilterSpec& filter : filters) filter = without_chunk_size(std::move(filter));
  return filters;
}

bool can_grow(const DatasetInfo& info) { return info.max_shape != info.shape; }

CopiedStorage storage_of(const DatasetInfo& info, const RepackArguments& arguments) {
  const ChunkChoice choice = parse_chunk_choice(arguments.chunk);
  if (info.shape.empty()) {
    throw OptionError(fmt::format("{}: a single value has no chunks; leave it out of --dataset", info.path));
  }
  CopiedStorage storage{.chunk_shape = chunk_shape_of(info, choice),
                        .fixed_max_shape = arguments.max_shape == "fixed"};
  if (storage.chunk_shape.empty()) {
    if (!arguments.filter.empty() && arguments.filter != "none") {
      throw OptionError(
          fmt::format("{}: --filter {} needs chunks; add --chunk auto", info.path, arguments.filter));
    }
    if (can_grow(info) && !storage.fixed_max_shape) {
      throw OptionError(
          fmt::format("{} can grow, which contiguous storage cannot; add --maxshape fixed", info.path));
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
    throw DatasetError(no_images_text(arguments.in, entries) + ". Name those to repack with --dataset");
  }
  return paths;
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
  auto reader = open_chunk_reader(file, std::move(info));
  if (!reader->direct()) return std::nullopt;
  return RepackJob{.reader = std::move(reader), .storage = std::move(storage)};
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
    throw OptionError(fmt::format("nothing to change; try h5feed tune {}", arguments.in));
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
    job.reader = open_chunk_reader(file, std::move(info));
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
    job.shuffle_key = mix_key(seed, 0, 0);
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
    jobs.push_back({.reader = open_chunk_reader(file, std::move(info)), .storage = std::move(storage)});
  }
}

}  // namespace h5feed::cli
