// One field's rows, collected from file after file.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "store/file_pool.hpp"
#include "store/image_reader.hpp"
#include "store/joined_reader.hpp"

namespace h5feed {

/// Not thread-safe.
class FieldOpener {
 public:
  struct Spec {
    std::string path;    ///< of the dataset, or a pattern (store/path_pattern.hpp)
    std::string option;  ///< what the user calls it: "--data"
    SampleUnit unit = SampleUnit::row;
    /// Files of the list: where there are more than one, none stays open.
    std::size_t num_files = 1;
    /// What makes samples of bytes of variable length; empty: nothing does.
    std::optional<ImageSource> images = {};
  };

  FieldOpener(Spec spec, std::shared_ptr<FilePool> pool) : spec_(std::move(spec)), pool_(std::move(pool)) {}

  /// The field's rows in `file`. `wrap`: DatasetAccess. Throws FileError, DatasetError, also where they do
  /// not go with those kept before.
  std::vector<JoinedPart> open(const std::shared_ptr<H5File>& file, const DatasetAccess::WrapSource& wrap);

  /// Appends what `open` returned.
  void keep(std::vector<JoinedPart> parts);

  /// Rows kept so far.
  std::uint64_t rows() const noexcept { return rows_; }

  /// Whether the rows kept are images of variable length, each delivered as (H,W,C).
  bool decodes() const noexcept { return decodes_; }

  /// As the user named it.
  const std::string& path() const noexcept { return spec_.path; }

  /// All rows as one dataset. Throws DatasetError where there are only files of no images.
  std::shared_ptr<const ChunkReader> finish();

 private:
  bool alone() const;
  std::shared_ptr<const ChunkReader> open_one(const std::shared_ptr<H5File>& file, const std::string& path,
                                              const DatasetAccess::WrapSource& wrap);
  void check_alike(const DatasetInfo& info, const DatasetInfo& first) const;

  Spec spec_;
  const std::shared_ptr<FilePool> pool_;
  std::vector<JoinedPart> parts_;
  std::uint64_t rows_ = 0;
  std::string last_file_;  // that something was looked for in
  bool decodes_ = false;
  bool said_fallback_ = false;
};

}  // namespace h5feed
