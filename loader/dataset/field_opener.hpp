// One field's rows, collected from file after file.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dataset/dataset_state.hpp"
#include "store/file_pool.hpp"
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
  };

  FieldOpener(Spec spec, std::shared_ptr<FilePool> pool) : spec_(std::move(spec)), pool_(std::move(pool)) {}

  /// The field's rows in `file`. `wrap`: DatasetAccess. Throws FileError, DatasetError, also where they do
  /// not go with those kept before.
  std::vector<JoinedPart> open(const std::shared_ptr<H5File>& file, const DatasetAccess::WrapSource& wrap);

  /// Appends what `open` returned.
  void keep(std::vector<JoinedPart> parts);

  /// Rows kept so far.
  std::uint64_t rows() const noexcept { return rows_; }

  /// All rows as one dataset. Something has been kept.
  std::shared_ptr<const ChunkReader> finish();

 private:
  bool alone() const;
  std::shared_ptr<const ChunkReader> open_one(const std::shared_ptr<H5File>& file, const std::string& path,
                                              const DatasetAccess::WrapSource& wrap);
  void check_alike(const DatasetInfo& info, const DatasetInfo& first) const;

  const Spec spec_;
  const std::shared_ptr<FilePool> pool_;
  std::vector<JoinedPart> parts_;
  std::uint64_t rows_ = 0;
  bool said_fallback_ = false;
};

}  // namespace h5feed
