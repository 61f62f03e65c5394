// What `repack` does around the datasets that it fills, whether it writes one file or several.
#pragma once

#include <filesystem>
#include <vector>

#include "store/object_copy.hpp"
#include "tools/repack_choice.hpp"
#include "tools/repack_dataset.hpp"

namespace h5feed::cli {

/// All jobs filled by the caller, everything else copied.
CopyPlan copy_plan(const std::vector<RepackJob>& jobs, const RepackArguments& arguments);

/// Compares digests of all that `copy_objects` wrote into `written`. Throws FileError that names the first
/// object of `out` that differs, and Interrupted.
void verify_objects(const H5File& source, const std::filesystem::path& written, const CopyPlan& plan,
                    const std::filesystem::path& out);

/// verify_job for each job against the dataset of its name in `written`. Throws as verify_job.
void verify_jobs(const std::filesystem::path& written, const std::vector<RepackJob>& jobs,
                 const std::vector<ChunkSeals>& seals, const RepackSettings& settings,
                 const Advance& advance);

}  // namespace h5feed::cli
