// SPDX-License-Identifier: Apache-2.0
// Whether the rows of `bench` begin with the file in the page cache.
#pragma once

#include <string>
#include <vector>

#include "store/read/chunk_reader.hpp"
#include "tools/bench/settings.hpp"

namespace h5feed::cli {

/// Returns, for each group of rows to measure, whether it drops the file's pages first; warm rows come first.
/// Without `cold` and `warm` (the options --cold and --warm), a file that the page cache cannot hold is
/// measured both ways. Throws FileError if `cold` is set and the file's pages cannot be dropped.
std::vector<bool> choose_pages(const BenchSettings& settings, bool cold, bool warm);

/// Throws OptionError that names the dataset unless all values of `reader` are in `file`, whose pages are
/// dropped: external files, and sources of virtual datasets, would stay in memory.
void require_values_in(const std::string& file, const ChunkReader& reader);

/// Reads the file of the samples once if it is one and fits in memory, so that every row begins with the same
/// page cache. Throws FileError.
void load_if_it_fits(const BenchSettings& settings);

/// Returns "warm pages", "cold pages" or "warm pages, then cold ones".
std::string pages_text(const std::vector<bool>& pages);

}  // namespace h5feed::cli
