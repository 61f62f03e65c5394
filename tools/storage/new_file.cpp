// SPDX-License-Identifier: Apache-2.0
#include "tools/storage/new_file.hpp"
#include "base/clock.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <utility>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"
#include "store/filters/filters.hpp"
#include "tools/program/table.hpp"

namespace h5feed::cli {
namespace {

std::string storage_text(const NewDataset& dataset) {
  if (dataset.chunk_shape.empty()) return "contiguous";
  return fmt::format("chunks of {}, {}", format_count(dataset.chunk_shape.front()),
                     format_filters(dataset.filters));
}

}  // namespace

NewFile::NewFile(std::filesystem::path path, bool force) : path_(std::move(path)), writer_(path_, force) {}

void NewFile::write(const NewDataset& dataset, Production production, const RowProducer& produce,
                    Progress& progress) {
  const std::uint64_t stored = write_rows_in_parallel(writer_, dataset, production, produce, progress);
  const std::uint64_t decoded = dataset.shape.front() * row_bytes(dataset);
  note(fmt::format("{} ({} {}): {}; {} decoded, {} stored, ratio {:.2f}\n", dataset.path,
                   format_shape(dataset.shape), name_of(dataset.dtype), storage_text(dataset),
                   format_bytes(decoded), format_bytes(stored),
                   stored > 0 ? static_cast<double>(decoded) / static_cast<double>(stored) : 1.0),
       {dataset.path, name_of(dataset.dtype), dataset.shape, dataset.chunk_shape, dataset.filters, stored});
}

void NewFile::describe(const std::string& path, const std::vector<NamedAttribute>& attributes) {
  for (const NamedAttribute& attribute : attributes) writer_.write_attribute(path, attribute);
}

void NewFile::note(std::string line, const WrittenDataset& dataset) {
  lines_.push_back(std::move(line));
  datasets_.push_back({{"path", dataset.path},
                       {"dtype", dataset.dtype},
                       {"shape", dataset.shape},
                       {"chunk", dataset.chunk_shape},
                       {"filter", format_filters(dataset.filters)},
                       {"stored_bytes", dataset.stored_bytes}});
}

void NewFile::list_skipped() {
  if (skipped_.is_null()) skipped_ = Json::array();
}

void NewFile::note_skipped(const std::filesystem::path& file, const std::string& reason) {
  list_skipped();
  skipped_.push_back({{"file", file.string()}, {"reason", reason}});
}

std::string NewFile::commit(Clock::time_point start, bool as_json) {
  writer_.commit();
  const std::chrono::duration<double> elapsed = Clock::now() - start;
  const std::uint64_t file_bytes = std::filesystem::file_size(path_);
  if (as_json) {
    Json json = {{"out", path_.string()}, {"datasets", datasets_}};
    if (!skipped_.is_null()) json["skipped"] = skipped_;
    json["file_bytes"] = file_bytes;
    json["seconds"] = elapsed.count();
    return json_text(json);
  }
  std::string text;
  for (const std::string& line : lines_) text += line;
  return text + fmt::format("wrote {} ({}) in {:.1f} s\n", printable(path_.string()),
                            format_bytes(file_bytes), elapsed.count());
}

NamedAttribute class_names_attribute(const std::vector<std::string>& names) {
  // A string takes 16 bytes in an object header, whose messages are below 64 KiB.
  constexpr std::size_t kMostStrings = 4000;
  if (names.size() <= kMostStrings) return {"class_names", names};
  return {"class_names", fmt::format("{}", fmt::join(names, "\n"))};
}

void add_chunk_option(CLI::App& command, std::string& chunk, const std::string& help) {
  command.add_option("--chunk", chunk, help)->capture_default_str()->type_name("N");
}

void add_filter_option(CLI::App& command, std::string& filter, const std::string& standard) {
  command
      .add_option("--filter", filter,
                  fmt::format("none, or [shuffle+]gzip:L|lz4|zstd:L|blosc[:CODEC[:L]]|bitshuffle:lz4|"
                              "bitshuffle:zstd:L|lzf|bzip2:L[+fletcher32] [{}]",
                              standard))
      ->type_name("FILTER");
}

void refuse_larger_chunk(std::string_view text, std::uint64_t chunk_rows, std::uint64_t largest_rows) {
  if (chunk_rows <= largest_rows) return;
  throw OptionError(fmt::format("--chunk {}: no dataset has more than {} rows; give smaller chunks", text,
                                format_count(largest_rows)));
}

std::vector<FilterSpec> filters_for(const std::string& text, bool chunked, DType dtype) {
  if (!chunked && !text.empty() && text != "none") {
    throw OptionError(
        fmt::format("--filter {} needs chunks, and --chunk none has none; drop one of the two", text));
  }
  if (!chunked) return {};
  return parse_filters(text.empty() ? "gzip:4" : text, size_of(dtype));
}

}  // namespace h5feed::cli
