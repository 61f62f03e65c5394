// One field's rows, collected from file after file.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/option_spelling.hpp"
#include "dataset/dataset_state.hpp"
#include "store/file_pool.hpp"
#include "store/image_reader.hpp"
#include "store/joined_reader.hpp"

namespace h5feed {

/// Where to look for a field.
struct FieldSpec {
  std::string path;   ///< of the dataset, or a pattern (store/path_pattern.hpp)
  PathOption option;  ///< by which the user names it
  SampleUnit unit = SampleUnit::row;
  /// Files of the list: where there are more than one, none stays open.
  std::size_t num_files = 1;
  /// What makes samples of bytes of variable length; empty: nothing does.
  std::optional<ImageSource> images = {};
};

/// A dataset that holds rows of a field.
struct PartRows {
  std::string path;
  std::uint64_t rows = 0;
};

/// Looks for a field in one file after the other. Not thread-safe.
class PartOpener {
 public:
  explicit PartOpener(FieldSpec spec) : spec_(std::move(spec)) {}
  virtual ~PartOpener() = default;
  PartOpener(const PartOpener&) = delete;
  PartOpener& operator=(const PartOpener&) = delete;

  /// How many rows `file` has of the field. What was looked at before and not kept is forgotten. `wrap`:
  /// DatasetAccess. Throws FileError, DatasetError, also where they do not go with those kept before.
  virtual std::uint64_t look(const std::shared_ptr<H5File>& file, const DatasetAccess::WrapSource& wrap) = 0;

  /// Appends what `look` found.
  virtual void keep() = 0;

  /// "target" or "field", for messages.
  const char* kind() const noexcept {
    return spec_.option == PathOption{.name = "target"} ? "target" : "field";
  }

  /// The first dataset of the last look, or what the user named.
  const std::string& place() const noexcept { return looked_.empty() ? spec_.path : looked_.front().path; }
  /// Those of the last look that have rows.
  const std::vector<PartRows>& looked() const noexcept { return looked_; }
  /// As the user wrote it.
  const std::string& pattern() const noexcept { return spec_.path; }

 protected:
  FieldSpec& spec() noexcept { return spec_; }
  const FieldSpec& spec() const noexcept { return spec_; }
  /// Whether the field is one dataset of one file.
  bool alone() const;
  void begin_look() noexcept { looked_.clear(); }
  void note_part(std::string path, std::uint64_t rows) {
    if (rows > 0) looked_.push_back({std::move(path), rows});
  }

 private:
  FieldSpec spec_;
  std::vector<PartRows> looked_;
};

/// A field whose samples have one shape.
class FieldOpener final : public PartOpener {
 public:
  FieldOpener(FieldSpec spec, std::shared_ptr<FilePool> pool)
      : PartOpener(std::move(spec)), pool_(std::move(pool)) {}

  std::uint64_t look(const std::shared_ptr<H5File>& file, const DatasetAccess::WrapSource& wrap) override;
  void keep() override;

  /// Whether the rows kept are images of variable length, each delivered as (H,W,C).
  bool decodes() const noexcept { return decodes_; }

  /// All rows as one dataset. Throws DatasetError where there are only files of no images.
  std::shared_ptr<const ChunkReader> finish();

 private:
  std::shared_ptr<const ChunkReader> open_one(const std::shared_ptr<H5File>& file, const std::string& path,
                                              const DatasetAccess::WrapSource& wrap);
  void check_alike(const DatasetInfo& info, const DatasetInfo& first) const;

  const std::shared_ptr<FilePool> pool_;
  std::vector<JoinedPart> found_;
  std::vector<JoinedPart> parts_;
  std::string last_file_;  // that something was looked for in
  bool decodes_ = false;
  bool said_fallback_ = false;
};

}  // namespace h5feed
