// What parts a `repack` has, and which of them are there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/h5_file.hpp"
#include "tools/repack_choice.hpp"
#include "tools/repack_dataset.hpp"

namespace h5feed::cli {

/// The attribute of a part's root group by which a part is known.
inline constexpr const char* kPartIdentity = "h5feed_part";

/// Which parts are to be written.
struct PartChoice {
  std::uint64_t parts = 0;                 ///< of --split; 0: as many as resuming needs
  std::optional<std::uint64_t> only = {};  ///< of --part
};

/// From --split and --part; `auto` asks the environment of Slurm (SLURM_PROCID, SLURM_NTASKS), Open MPI
/// (OMPI_COMM_WORLD_RANK, _SIZE) and of other launchers (PMI_RANK, PMI_SIZE). Throws OptionError.
PartChoice part_choice(const RepackArguments& arguments);

/// Rows of one dataset that one part holds.
struct PartRows {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

/// How the rows of a file's datasets are dealt to parts, and the names of their files. Immutable; what is
/// complete is asked of the files each time.
class PartPlan {
 public:
  /// `arguments` must outlive the plan. Throws as `choose_jobs`, and OptionError where there are fewer rows
  /// of chunks than parts.
  PartPlan(const std::shared_ptr<H5File>& file, const RepackArguments& arguments);

  /// Whether the parts stay and OUT becomes a view of them; else they only serve to resume.
  bool split() const noexcept { return split_; }
  std::uint64_t parts() const noexcept { return parts_; }
  /// The only part that is to be written here.
  std::optional<std::uint64_t> only() const noexcept { return only_; }
  const std::vector<RepackJob>& jobs() const noexcept { return jobs_; }
  /// Whether the rows of `jobs()[job]` are in the parts.
  bool in_parts(std::size_t job) const { return in_parts_[job]; }

  PartRows rows_of(const RepackJob& job, std::uint64_t part) const;
  std::filesystem::path path(std::uint64_t part) const;
  /// Digest of the source as it is and of all that decides what the part holds.
  std::string identity(std::uint64_t part) const;
  /// Whether the part's file is there and has that identity. Reads it. Throws FileError.
  bool complete(std::uint64_t part) const;
  std::uint64_t count_complete() const;
  /// Throws FileError where the file of a part of --split holds anything else, and names it.
  void check_others() const;

  /// What is to be done, for the user.
  std::string text() const;

 private:
  std::uint64_t parts_to_resume() const;
  std::uint64_t unit_rows(const RepackJob& job) const;
  void check_parts() const;
  std::string digest() const;

  const RepackArguments& arguments_;
  bool split_ = false;
  std::optional<std::uint64_t> only_;
  std::uint64_t parts_ = 1;
  std::vector<RepackJob> jobs_;
  std::vector<bool> in_parts_;
  std::string digest_;
};

}  // namespace h5feed::cli
