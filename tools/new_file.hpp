// A new file written by `generate` or `pack`.
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

/// Writes datasets to a temporary file that takes its final name with `commit`, or is removed. For one
/// thread.
class NewFile {
 public:
  /// Throws FileError if `path` exists and `force` is not set, or if it cannot be written.
  NewFile(std::filesystem::path path, bool force);

  /// Creates and fills one dataset. Blocks. Throws the errors of `write_rows_in_parallel`.
  void write(const NewDataset& dataset, Production production, const RowProducer& produce,
             Progress& progress);

  /// Creates and fills `target.images`, and stores the channel statistics of pixels as attributes. Blocks.
  /// Throws the errors of `pack_images`.
  PackedImages write_images(const ImageSet& set, const ImageTarget& target, Progress& progress);

  /// Writes attributes of the dataset at `path`. Throws FileError.
  void describe(const std::string& path, const std::vector<NamedAttribute>& attributes);

  /// Finishes the file and gives it its name. Returns a report with the time since `start`: a line for each
  /// dataset and one for the file, or the same as JSON. Throws FileError.
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

/// Returns the attribute class_names, the names of labels 0, 1, …: an array of strings, or, if there are more
/// than an attribute that HDF5 1.8 reads can hold (4,000), one text with a name per line.
NamedAttribute class_names_attribute(const std::vector<std::string>& names);

/// Adds the option --chunk, described by `help`.
void add_chunk_option(CLI::App& command, std::string& chunk, const std::string& help);
/// Adds the option --filter, described by its grammar and its default, `standard`.
void add_filter_option(CLI::App& command, std::string& filter, const std::string& standard);

/// Returns the filters for a dataset of `dtype` from the text of --filter; empty text means gzip:4 for
/// chunked data and none for contiguous data. Throws OptionError if the text is wrong or asks for filters on
/// data that is not chunked.
std::vector<FilterSpec> filters_for(const std::string& text, bool chunked, DType dtype);

}  // namespace h5feed::cli
