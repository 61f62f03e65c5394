// What the user asks of `repack`, and what that means for each dataset.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "store/h5_file.hpp"
#include "tools/repack_dataset.hpp"

namespace h5feed::cli {

/// As typed; empty where not given.
struct RepackArguments {
  std::string in;
  std::string out;
  std::vector<std::string> datasets;
  std::string chunk;
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

/// Throws OptionError for values of options that are wrong whatever the file holds.
void check_arguments(const RepackArguments& arguments);

/// Throws OptionError where nothing is to change, with what to try on the file, which has been opened by
/// then.
void refuse_no_change(const RepackArguments& arguments);

/// The datasets to store anew and those whose chunks are copied as they are; not planned yet. What is
/// neither is left to `copy_objects`. Throws DatasetError and OptionError, naming the dataset.
std::vector<RepackJob> choose_jobs(const std::shared_ptr<H5File>& file, const RepackArguments& arguments);

/// Adds to `jobs` the datasets with as many rows as a chosen one, labels as a rule, stored as they are.
/// Throws DatasetError for one whose elements h5feed cannot move, where `refuse` is set; else leaves it out.
void add_row_companions(const std::shared_ptr<H5File>& file, const RepackArguments& arguments, bool refuse,
                        std::vector<RepackJob>& jobs);

/// Whether a dataset has as many rows, more than one, as a chosen one of `jobs`.
bool shares_rows(const std::vector<RepackJob>& jobs, const std::vector<std::uint64_t>& shape);

}  // namespace h5feed::cli
