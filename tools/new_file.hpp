// A file that a command writes: common to generate and pack.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "h5feed/dtype.hpp"
#include "store/h5_writer.hpp"
#include "tools/interrupt.hpp"
#include "tools/output.hpp"
#include "tools/pack_images.hpp"
#include "tools/parallel_write.hpp"
#include "tools/progress.hpp"

namespace h5feed::cli {

/// Collects datasets; the file appears under its name with `commit`, or not at all. For one thread.
class NewFile {
 public:
  /// Throws FileError where `path` exists and `force` is not set, or cannot be written.
  NewFile(std::filesystem::path path, bool force);

  /// Creates and fills one dataset. Throws as `write_rows_in_parallel`.
  void write(const NewDataset& dataset, Production production, const RowProducer& produce,
             Progress& progress);

  /// Creates and fills `target.images` and stores its figures as attributes. Throws as `pack_images`.
  PackedImages write_images(const ImageSet& set, const ImageTarget& target, Progress& progress);

  /// Writes attributes of a dataset. Throws FileError.
  void describe(const std::string& path, const std::vector<NamedAttribute>& attributes);

  /// Finishes the file. Returns what was written, with the time since `start`: a line for each dataset and
  /// one for the file, or the same as JSON. Throws FileError.
  std::string commit(std::chrono::steady_clock::time_point start, bool as_json);

 private:
  std::filesystem::path path_;
  UnfinishedOutput unfinished_;  // outlives the writer, which removes the file
  H5Writer writer_;
  void note(const std::string& path, std::string_view dtype, const std::vector<std::uint64_t>& shape,
            const std::vector<std::uint64_t>& chunk_shape, const std::vector<FilterSpec>& filters,
            std::uint64_t stored_bytes);

  std::vector<std::string> lines_;
  Json datasets_ = Json::array();
  Json skipped_;  // null unless images were written
};

/// The meaning of labels 0, 1, …: strings; where they are too many for an attribute that HDF5 1.8 reads, one
/// text with a name a line.
NamedAttribute class_names_attribute(const std::vector<std::string>& names);

/// The option --chunk, explained by `help`, and --filter with its grammar and default.
void add_chunk_option(CLI::App& command, std::string& chunk, const std::string& help);
void add_filter_option(CLI::App& command, std::string& filter, const std::string& standard);

/// Throws OptionError where --chunk, typed as `text`, asks for more samples in a chunk than the largest of
/// the datasets that are written has rows: a mistake, while a smaller dataset beside it is stored in one
/// chunk.
void refuse_larger_chunk(std::string_view text, std::uint64_t chunk_rows, std::uint64_t largest_rows);

/// The filters for a dataset of `dtype`, from the text of --filter; empty text means gzip:4 for chunked
/// and none for contiguous data. Throws OptionError where the text is wrong or data is not chunked.
std::vector<FilterSpec> filters_for(const std::string& text, bool chunked, DType dtype);

}  // namespace h5feed::cli
