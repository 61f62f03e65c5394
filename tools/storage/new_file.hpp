// SPDX-License-Identifier: Apache-2.0
// A new file written by `generate` or `pack`.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "h5feed/dtype.hpp"
#include "store/write/h5_writer.hpp"
#include "tools/program/interrupt.hpp"
#include "tools/program/output.hpp"
#include "tools/program/progress.hpp"
#include "tools/storage/parallel_write.hpp"

namespace CLI {
class App;
}

namespace h5feed::cli {

/// One dataset in the JSON report of a new file.
struct WrittenDataset {
  std::string path;
  std::string_view dtype;                  ///< a literal, such as "u8", or "bytes" for encoded images
  std::vector<std::uint64_t> shape;        ///< in elements
  std::vector<std::uint64_t> chunk_shape;  ///< in elements; empty if contiguous
  std::vector<FilterSpec> filters;
  std::uint64_t stored_bytes = 0;
};

/// Writes datasets to a temporary file that takes its final name with `commit`, or is removed. For one
/// thread.
class NewFile {
 public:
  /// Throws FileError if `path` exists and `force` is not set, or if it cannot be written.
  NewFile(std::filesystem::path path, bool force);

  /// Creates and fills one dataset. Blocks. Throws the errors of `write_rows_in_parallel`.
  void write(const NewDataset& dataset, Production production, const RowProducer& produce,
             Progress& progress);

  /// Returns the writer of the file, for datasets that `write` cannot fill. Report them with `note`.
  H5Writer& writer() noexcept { return writer_; }

  /// Adds a dataset that was filled through `writer()` to the report of `commit`. `line` describes it as text
  /// and ends with a line break.
  void note(std::string line, const WrittenDataset& dataset);

  /// Adds a list of skipped inputs to the JSON report, even if nothing is ever skipped.
  void list_skipped();

  /// Adds an input that was left out, and why, to the JSON report.
  void note_skipped(const std::filesystem::path& file, const std::string& reason);

  /// Writes attributes of the dataset at `path`. Throws FileError.
  void describe(const std::string& path, const std::vector<NamedAttribute>& attributes);

  /// Finishes the file and gives it its name. Returns a report with the time since `start`: a line for each
  /// dataset and one for the file, or the same as JSON. Throws FileError.
  std::string commit(Clock::time_point start, bool as_json);

 private:
  std::filesystem::path path_;
  UnfinishedOutput unfinished_;  // outlives the writer, which removes the file
  H5Writer writer_;
  std::vector<std::string> lines_;
  Json datasets_ = Json::array();
  Json skipped_;  // null until list_skipped()
};

/// Returns the attribute class_names, the names of labels 0, 1, …: an array of strings, or, if there are more
/// than an attribute that HDF5 1.8 reads can hold (4,000), one text with a name per line.
NamedAttribute class_names_attribute(const std::vector<std::string>& names);

/// Adds the option --chunk, described by `help`.
void add_chunk_option(CLI::App& command, std::string& chunk, const std::string& help);
/// Adds the option --filter, described by its grammar and its default, `standard`.
void add_filter_option(CLI::App& command, std::string& filter, const std::string& standard);

/// Throws OptionError if --chunk, typed as `text`, asks for more samples in a chunk than the largest of the
/// datasets that are written has rows. That is a mistake, while a smaller dataset of the same file is stored
/// in one chunk.
void refuse_larger_chunk(std::string_view text, std::uint64_t chunk_rows, std::uint64_t largest_rows);

/// Returns the filters for a dataset of `dtype` from the text of --filter; empty text means gzip:4 for
/// chunked data and none for contiguous data. Throws OptionError if the text is wrong or asks for filters on
/// data that is not chunked.
std::vector<FilterSpec> filters_for(const std::string& text, bool chunked, DType dtype);

}  // namespace h5feed::cli
