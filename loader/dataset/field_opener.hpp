// SPDX-License-Identifier: Apache-2.0
// Openers that collect the rows of one field file by file.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/option_spelling.hpp"
#include "dataset/dataset_state.hpp"
#include "store/read/file_pool.hpp"
#include "store/read/joined_reader.hpp"
#include "store/vlen/image_reader.hpp"

namespace h5feed {

/// How many rows a field has, compared with the data. `any`: they do not belong to rows of the data one by
/// one. `one_more`: as many, or one more in every dataset.
enum class RowCount : std::uint8_t { same, one_more, any };

/// Where to find a field.
struct FieldSpec {
  std::string path;   ///< Path of the dataset, or a pattern (store/hdf5/path_pattern.hpp)
  PathOption option;  ///< The option by which the user names the dataset
  SampleUnit unit = SampleUnit::row;
  /// Number of files in the list. With more than one, files are opened and closed on demand.
  std::size_t num_files = 1;
  /// Decoder for samples of variable length; unset: they are not decoded.
  std::optional<ImageSource> images = {};
  /// Rows of different datasets may differ in extent: they are cut into tiles.
  bool extents_differ = false;
  RowCount row_count = RowCount::same;
};

/// A dataset that contributes rows to a field.
struct PartRows {
  std::string path;
  std::uint64_t rows = 0;
  std::uint64_t file = 0;  ///< Number of the file among those that were kept
};

/// Finds a field in one file after the other. Not thread-safe.
class PartOpener {
 public:
  explicit PartOpener(FieldSpec spec) : spec_(std::move(spec)) {}
  virtual ~PartOpener() = default;
  PartOpener(const PartOpener&) = delete;
  PartOpener& operator=(const PartOpener&) = delete;

  /// Opens the field in `file` and returns its number of rows. Discards the result of the previous `look`
  /// unless it was kept. `wrap`: see DatasetAccess. Throws FileError, and DatasetError also if the datasets
  /// do not match those kept before.
  virtual std::uint64_t look(const std::shared_ptr<H5File>& file, const DatasetAccess::WrapSource& wrap) = 0;

  /// Returns whether `shorten` may be called.
  virtual bool can_shorten() const noexcept { return false; }

  /// Shortens each of `all_looked()` to its number in `rows`, which is not larger.
  void shorten(std::span<const std::uint64_t> rows);

  /// Keeps the result of the last `look`.
  void keep();

  /// Returns "target" or "field", for messages.
  const char* kind() const noexcept {
    return spec_.option == PathOption{.name = "target"} ? "target" : "field";
  }

  /// Returns the path of the first dataset with rows in the last `look`; if there is none, the path that the
  /// user named.
  const std::string& place() const noexcept { return looked_.empty() ? spec_.path : looked_.front().path; }
  /// Returns the datasets of the last `look` that have rows.
  const std::vector<PartRows>& looked() const noexcept { return looked_; }
  /// Returns the datasets of the last `look`, also those without rows.
  const std::vector<PartRows>& all_looked() const noexcept { return all_looked_; }
  /// Returns whether a SWMR writer has a file open that the last `look` read, maybe behind a link.
  bool beside_writer() const noexcept { return beside_writer_; }
  /// Returns the datasets of all kept files, also those without rows.
  const std::vector<PartRows>& kept() const noexcept { return kept_; }
  /// Returns the rule for the number of rows.
  RowCount row_count() const noexcept { return spec_.row_count; }
  /// Returns the path or pattern as the user wrote it.
  const std::string& pattern() const noexcept { return spec_.path; }

 protected:
  FieldSpec& spec() noexcept { return spec_; }
  const FieldSpec& spec() const noexcept { return spec_; }
  /// Returns whether the field is a single dataset of a single file.
  bool alone() const;
  void begin_look() noexcept {
    looked_.clear();
    all_looked_.clear();
    beside_writer_ = false;
  }
  /// Notes a file that a `look` reads.
  void note_file(const H5File& file) noexcept { beside_writer_ |= file.swmr_writer(); }
  /// Notes a dataset of a `look`.
  void note_part(std::string path, std::uint64_t rows) {
    all_looked_.push_back({path, rows, kept_files_});
    if (rows > 0) looked_.push_back({std::move(path), rows, kept_files_});
  }
  /// Keeps what the derived class found in the last `look`.
  virtual void keep_found() = 0;
  /// Shortens a dataset of the last `look`, counting those without rows, to `rows`. Only if `can_shorten()`.
  virtual void shorten_found(std::size_t, std::uint64_t) {}

 private:
  FieldSpec spec_;
  std::vector<PartRows> looked_;
  std::vector<PartRows> all_looked_;  // also those without rows
  bool beside_writer_ = false;
  std::vector<PartRows> kept_;
  std::uint64_t kept_files_ = 0;
};

/// Opens a field whose samples have one shape.
class FieldOpener final : public PartOpener {
 public:
  FieldOpener(FieldSpec spec, std::shared_ptr<FilePool> pool)
      : PartOpener(std::move(spec)), pool_(std::move(pool)) {}

  std::uint64_t look(const std::shared_ptr<H5File>& file, const DatasetAccess::WrapSource& wrap) override;
  bool can_shorten() const noexcept override { return !decodes_; }

  /// Returns whether the rows are images of variable length, each decoded to (H,W,C).
  bool decodes() const noexcept { return decodes_; }

  /// All kept datasets, in order.
  struct Found {
    std::vector<JoinedPart> parts;  ///< Not joined readers themselves
    DatasetInfo whole;              ///< All rows together, with the extents of the first
    bool same_extents = true;       ///< All parts have the shape of the first, except for the first dimension

    /// Returns the rows as one dataset; requires `same_extents`. Throws DatasetError for more bytes than 64
    /// bits can count.
    std::shared_ptr<const ChunkReader> joined() const;
  };
  /// Returns what was kept. Throws DatasetError if there is nothing.
  Found found();

  /// Returns all kept rows as one dataset. Throws DatasetError if there are none, or more bytes than 64 bits
  /// can count.
  std::shared_ptr<const ChunkReader> finish() { return found().joined(); }

 private:
  void keep_found() override;
  void shorten_found(std::size_t number, std::uint64_t rows) override { found_[number].rows = rows; }
  std::shared_ptr<const ChunkReader> open_one(const std::shared_ptr<H5File>& in, const std::string& name,
                                              const DatasetAccess::WrapSource& wrap);
  void check_alike(const DatasetInfo& info, const DatasetInfo& first) const;

  const std::shared_ptr<FilePool> pool_;
  std::vector<JoinedPart> found_;
  std::vector<JoinedPart> parts_;
  std::string first_file_;  // first file that was searched
  std::string last_file_;   // last file that was searched
  bool decodes_ = false;
  bool said_fallback_ = false;
};

}  // namespace h5feed
