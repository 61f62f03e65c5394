// All fields of the samples, opened file by file.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dataset/field_opener.hpp"
#include "dataset/ragged_opener.hpp"

namespace h5feed {

/// What makes samples of `images`; `layout` says how tabled ones lie. Throws OptionError.
ImageSource image_source(const ImageOptions& images, InputLayout layout);

/// Opens a file and what the fields have in it, all or nothing: `fields[0]` sets the number of rows. A file
/// that a writer appends to just then is looked at once more, as what was learned of it does not belong
/// together. `wrap` applies to `fields[0]` alone. Throws FileError, DatasetError.
void open_file(const std::filesystem::path& path, std::span<PartOpener* const> fields,
               const DatasetAccess::WrapSource& wrap);

/// Opens one of `DatasetOptions::fields`.
class NamedFieldOpener {
 public:
  /// `files` are expanded, those of the samples where the field names none; `unit` is that of the data.
  NamedFieldOpener(const FieldOptions& options, std::vector<std::filesystem::path> files, SampleUnit unit,
                   std::shared_ptr<FilePool> pool);

  /// In files of its own.
  bool apart() const noexcept { return !options_.files.empty(); }
  const std::vector<std::filesystem::path>& files() const noexcept { return files_; }
  PartOpener& opener() noexcept;

  /// The field of samples whose data has `rows` rows, cut as `tiling` says. Throws DatasetError, OptionError.
  NamedField finish(const DatasetInfo& data, const std::optional<Tiling>& tiling);

 private:
  NamedField finish_ragged(const DatasetInfo& data, const std::optional<Tiling>& tiling);

  const FieldOptions options_;
  const std::vector<std::filesystem::path> files_;
  std::optional<FieldOpener> alike_;
  std::optional<RaggedOpener> ragged_;
};

/// Names that are empty or come twice: throws OptionError.
void check_field_names(std::span<const FieldOptions> fields);

/// The target of `reader`: cut into tiles with the images where it is a mask of them, read whole where small.
/// Throws as `read_all`.
Field make_target(std::shared_ptr<const ChunkReader> reader, const std::optional<Tiling>& of_data);

/// Throws DatasetError unless `rows` are those of the data.
void check_rows_of(const char* what, const DatasetInfo& field, const DatasetInfo& data);

}  // namespace h5feed
