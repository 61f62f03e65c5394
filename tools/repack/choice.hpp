// SPDX-License-Identifier: Apache-2.0
// Options of `repack`, and the jobs that they mean for each dataset.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "store/hdf5/h5_file.hpp"
#include "tools/repack/dataset.hpp"

namespace h5feed::cli {

/// Options of `repack` as typed; empty if not given.
struct RepackArguments {
  std::string in;
  std::string out;
  std::vector<std::string> datasets;
  std::string chunk;
  std::string window;
  std::string shuffle;
  std::string cache_bytes;
  std::string filter;
  std::string jobs;
  std::string memory;
  std::string max_shape;
  std::string libver;
  std::string shuffle_rows;
  std::string split;
  std::string part;
  bool resume = false;
  bool force = false;
  bool dry_run = false;
  bool no_verify = false;
  bool json = false;

  bool latest() const noexcept { return libver == "latest"; }
};

/// Throws OptionError if options have values that are wrong for any file.
void check_arguments(const RepackArguments& arguments);

/// Throws DatasetError if `file` lacks a dataset that the options name, and OptionError if the options change
/// nothing. The messages suggest what to try.
void refuse_no_change(const H5File& file, const RepackArguments& arguments);

/// Returns the datasets to re-encode and those whose chunks are copied as stored; `plan_job` has yet to plan
/// them. All other objects are left to `copy_objects`. Throws DatasetError and OptionError that name the
/// dataset.
std::vector<RepackJob> choose_jobs(const std::shared_ptr<H5File>& file, const RepackArguments& arguments);

/// Adds to `jobs` the datasets with as many rows as a chosen one, usually labels, with unchanged storage. If
/// h5feed cannot move the elements of one, throws DatasetError if `refuse` is set, else leaves it out.
void add_row_companions(const std::shared_ptr<H5File>& file, const RepackArguments& arguments, bool refuse,
                        std::vector<RepackJob>& jobs);

/// Returns whether a dataset of this shape has more than one row and as many rows as a chosen dataset of
/// `jobs`.
bool shares_rows(const std::vector<RepackJob>& jobs, const std::vector<std::uint64_t>& shape);

}  // namespace h5feed::cli
