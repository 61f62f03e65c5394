// SPDX-License-Identifier: Apache-2.0
// Divides a virtual dataset into runs of rows that come from the same sources.
#pragma once

#include <vector>

#include "store/read/joined_reader.hpp"
#include "store/read/mapped_reader.hpp"

namespace h5feed {

/// A virtual dataset as parts that are its rows in order.
struct RowParts {
  std::vector<JoinedPart> parts;
  bool put_together = false;  ///< Whether a part is not read as one source is
};

/// Returns parts that are, joined in order, the virtual dataset `info`. Rows that are whole rows of one
/// source are read as this source is. All others are put together (store/read/mapped_reader.hpp) in chunks
/// that are as high as those of their sources and begin at the same rows, if the sources agree about that,
/// but of 128 MiB at most if they have more than one row: so that each chunk of a source is usually decoded
/// for one chunk only. `mappings` are as those of `make_mapped_reader`, in the order in which they count.
RowParts parts_of_rows(const DatasetInfo& info, std::vector<SourceMapping> mappings);

}  // namespace h5feed
