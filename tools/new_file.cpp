#include "tools/new_file.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"
#include "store/filters.hpp"
#include "tools/table.hpp"

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
  lines_.push_back(fmt::format(
      "{} ({} {}): {}; {} decoded, {} stored, ratio {:.2f}\n", dataset.path, format_shape(dataset.shape),
      name_of(dataset.dtype), storage_text(dataset), format_bytes(decoded), format_bytes(stored),
      stored > 0 ? static_cast<double>(decoded) / static_cast<double>(stored) : 1.0));
}

std::string NewFile::commit(std::chrono::steady_clock::time_point start) {
  writer_.commit();
  std::string text;
  for (const std::string& line : lines_) text += line;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return text + fmt::format("wrote {} ({}) in {:.1f} s\n", printable(path_.string()),
                            format_bytes(std::filesystem::file_size(path_)), elapsed.count());
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
