// A file that a command writes: common to generate and pack.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "h5feed/dtype.hpp"
#include "store/h5_writer.hpp"
#include "tools/interrupt.hpp"
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

  /// Finishes the file. Returns what was written, a line for each dataset and one for the file with
  /// the time since `start`. Throws FileError.
  std::string commit(std::chrono::steady_clock::time_point start);

 private:
  std::filesystem::path path_;
  UnfinishedOutput unfinished_;  // outlives the writer, which removes the file
  H5Writer writer_;
  std::vector<std::string> lines_;
};

/// The filters for a dataset of `dtype`, from the text of --filter; empty text means gzip:4 for chunked
/// and none for contiguous data. Throws OptionError where the text is wrong or data is not chunked.
std::vector<FilterSpec> filters_for(const std::string& text, bool chunked, DType dtype);

}  // namespace h5feed::cli
