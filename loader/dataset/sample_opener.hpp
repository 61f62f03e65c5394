// SPDX-License-Identifier: Apache-2.0
// Opens all fields of the samples file by file.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dataset/field_opener.hpp"
#include "dataset/ragged_opener.hpp"

namespace h5feed {

/// Resolves the image options. `layout` gives the channel order of images that have a table of shapes. Throws
/// OptionError if height and width are out of range.
ImageSource image_source(const ImageOptions& images, InputLayout layout);

/// Opens one file and looks up all fields in it; keeps either all results or none. `fields[0]`, the data,
/// determines the number of rows. If a writer changes the file meanwhile, it is opened again, up to 3 times
/// in all, because results of different states do not fit together. `pool` opens the file. `wrap` applies to
/// `fields[0]` only. Throws FileError, and DatasetError also if a field has another number of rows than the
/// data.
void open_file(const std::filesystem::path& path, std::span<PartOpener* const> fields,
               const DatasetAccess::WrapSource& wrap, FilePool& pool);

/// Opens one of `DatasetOptions::fields`. Not thread-safe.
class NamedFieldOpener {
 public:
  /// `files`: the expanded files of the field, or those of the data if the field names none. `dataset`: the
  /// options that the field is one of. May open the first file to determine the kind of the field. Throws
  /// OptionError, FileError, DatasetError.
  NamedFieldOpener(const FieldOptions& options, std::vector<std::filesystem::path> files,
                   const DatasetOptions& dataset, std::shared_ptr<FilePool> pool);

  /// Returns whether the field is stored in files of its own.
  bool apart() const noexcept { return !options_.files.empty(); }
  /// Files to look the field up in.
  const std::vector<std::filesystem::path>& files() const noexcept { return files_; }
  /// The opener to pass to `open_file`.
  PartOpener& opener() noexcept;

  /// Returns the field after all its files were opened. `data`: the rows that it must match; `tiling`: the
  /// tiles that the data is cut into; `placed`: the rows of samples in episodes. Reads small fields into
  /// memory. Throws OptionError, DatasetError, FileError, ChunkError.
  NamedField finish(const DatasetInfo& data, const std::optional<Tiling>& tiling,
                    const std::optional<SampleRows>& placed);

 private:
  NamedField finish_ragged(const DatasetInfo& data, const std::optional<Tiling>& tiling,
                           const std::optional<SampleRows>& placed);

  const FieldOptions options_;
  const std::vector<std::filesystem::path> files_;
  std::optional<FieldOpener> alike_;
  std::optional<RaggedOpener> ragged_;
};

/// Throws OptionError if a field has no name or two fields share one.
void check_field_names(std::span<const FieldOptions> fields);

/// Returns the target field, which must match the rows of `data`. A mask of the images is cut into tiles like
/// them; other small targets are read whole. `placed`: the rows of samples in episodes. Throws DatasetError,
/// FileError, ChunkError.
Field make_target(FieldOpener::Found found, const DatasetInfo& data, const std::optional<Tiling>& of_data,
                  const std::optional<SampleRows>& placed);

}  // namespace h5feed
