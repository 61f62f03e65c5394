// SPDX-License-Identifier: Apache-2.0
// Steps of `repack` around the datasets that it fills, for one output file or several.
#pragma once

#include <filesystem>
#include <vector>

#include "store/write/object_copy.hpp"
#include "tools/repack/choice.hpp"
#include "tools/repack/dataset.hpp"

namespace h5feed::cli {

/// Returns the plan in which the caller fills the datasets of all jobs and everything else is copied.
CopyPlan copy_plan(const std::vector<RepackJob>& jobs, const RepackArguments& arguments);

/// Compares digests of all objects that `copy_objects` wrote to `written` with those of the source. Throws
/// FileError that names the first object of `out` that differs, and Interrupted. Blocks.
void verify_objects(const H5File& source, const std::filesystem::path& written, const CopyPlan& plan,
                    const std::filesystem::path& out);

/// Calls verify_job for each job on the dataset of the same name in `written`. Throws the errors of
/// verify_job. Blocks.
void verify_jobs(const std::filesystem::path& written, const std::vector<RepackJob>& jobs,
                 const std::vector<ChunkSeals>& seals, const RepackSettings& settings,
                 const Advance& advance);

}  // namespace h5feed::cli
