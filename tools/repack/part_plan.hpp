// SPDX-License-Identifier: Apache-2.0
// The parts of a `repack`, and which of them are complete.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/hdf5/h5_file.hpp"
#include "tools/repack/choice.hpp"
#include "tools/repack/dataset.hpp"
#include "tools/repack/value_files.hpp"

namespace h5feed::cli {

/// Attribute of a part's root group that identifies the part.
inline constexpr const char* kPartIdentity = "h5feed_part";

/// Parts to write.
struct PartChoice {
  std::uint64_t parts = 0;                 ///< from --split; 0: as many as resuming needs
  std::optional<std::uint64_t> only = {};  ///< from --part
};

/// Parses --split and --part; `auto` reads the environment of Slurm (SLURM_PROCID, SLURM_NTASKS), Open MPI
/// (OMPI_COMM_WORLD_RANK, _SIZE) and other launchers (PMI_RANK, PMI_SIZE). Throws OptionError.
PartChoice part_choice(const RepackArguments& arguments);

/// The rows of one dataset that one part holds.
struct PartRows {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

/// Assigns the rows of a file's datasets to parts and names the parts' files. Immutable; which parts are
/// complete is read from the files on each call.
class PartPlan {
 public:
  /// Borrows `values`, the other files that the source has values in, and `arguments`; both must outlive the
  /// plan. Throws the errors of `choose_jobs`, and OptionError if a dataset has fewer rows of chunks than
  /// there are parts.
  PartPlan(const std::shared_ptr<H5File>& file, const ValueFiles& values, const RepackArguments& arguments);

  /// Returns whether the parts stay and OUT becomes a view of them; otherwise they only serve to resume.
  bool split() const noexcept { return split_; }
  /// Number of parts, at least 1.
  std::uint64_t parts() const noexcept { return parts_; }
  /// Returns the only part to write here; empty: all parts.
  std::optional<std::uint64_t> only() const noexcept { return only_; }
  const std::vector<RepackJob>& jobs() const noexcept { return jobs_; }
  /// Returns whether the rows of `jobs()[job]` are stored in the parts.
  bool in_parts(std::size_t job) const { return in_parts_[job]; }

  /// Returns the rows of a dataset that `part` holds; count 0 if none.
  PartRows rows_of(const RepackJob& job, std::uint64_t part) const;
  /// Returns the path of a part's file next to OUT; a hidden file unless the parts stay.
  std::filesystem::path path(std::uint64_t part) const;
  /// Returns a digest of the source's current state and of everything that determines the part's content.
  std::string identity(std::uint64_t part) const;
  /// Returns whether the part's file exists and has that identity. Reads the file. Throws FileError.
  bool complete(std::uint64_t part) const;
  /// Returns the number of complete parts. Reads their files. Throws FileError.
  std::uint64_t count_complete() const;
  /// Throws OptionError if the file of a part is the input or holds values of it, and if a file that OUT,
  /// which is there, may be a view of would be replaced before OUT is; and, unless --force is given,
  /// FileError that names the file if it holds anything else than a part. Reads the files.
  void check_others() const;

  /// Describes the remaining work, for the user.
  std::string text() const;

 private:
  std::uint64_t parts_to_resume() const;
  std::uint64_t unit_rows(const RepackJob& job) const;
  void check_parts() const;
  std::string digest() const;

  const ValueFiles& values_;
  const RepackArguments& arguments_;
  bool split_ = false;
  std::optional<std::uint64_t> only_;
  std::uint64_t parts_ = 1;
  std::vector<RepackJob> jobs_;
  std::vector<bool> in_parts_;
  std::string digest_;
};

}  // namespace h5feed::cli
