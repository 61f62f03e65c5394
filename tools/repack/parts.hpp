// SPDX-License-Identifier: Apache-2.0
// `repack` in parts: files that each hold some of the rows, written one after the other or on several
// machines.
#pragma once

#include <memory>

#include "store/hdf5/h5_file.hpp"
#include "tools/repack/choice.hpp"
#include "tools/repack/dataset.hpp"
#include "tools/repack/value_files.hpp"

namespace h5feed::cli {

/// Returns whether the user asked for parts: --split, --part or --resume.
bool in_parts(const RepackArguments& arguments) noexcept;

/// Writes the missing parts, each under a temporary name until it is complete and verified. With --split the
/// parts stay, and OUT becomes a file with virtual datasets over them as soon as all exist; otherwise OUT is
/// assembled from them, chunk by chunk as stored, and they are removed. Parts of another source or plan are
/// never used. `values` are the other files that the source has values in. Returns the exit code. Blocks.
/// Throws the errors of `repack`.
int repack_in_parts(const std::shared_ptr<H5File>& file, const ValueFiles& values,
                    const RepackArguments& arguments, const RepackSettings& settings);

}  // namespace h5feed::cli
