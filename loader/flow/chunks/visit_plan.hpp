// SPDX-License-Identifier: Apache-2.0
// Plans which chunks a batch visits.
#pragma once

#include <cstddef>

#include "dataset/sample_map.hpp"
#include "flow/chunks/batch_job.hpp"

namespace h5feed {

/// Adds the visits of a field to `job`: field number `lane_number`, whose samples are stored in chunks, whole
/// or each in the same number of pieces. `job.rows` of the field must be in file order. Thread-safe for
/// different jobs. Throws std::bad_alloc.
void plan_chunks(BatchJob& job, std::size_t lane_number, const SampleMap& map);

/// Adds the visits of a field of tiles to `job`: field number `lane_number`. A tile is stored in a few of the
/// chunks of its image, so each visit has its own rows: `job.rows` of the field must be in file order and is
/// regrouped by visit. Thread-safe for different jobs. Throws std::bad_alloc.
void plan_tiles(BatchJob& job, std::size_t lane_number, const SampleMap& map);

/// Adds the visits of a ragged field to `job`: field number `lane_number`. The rows of these visits are
/// positions in the batch. Thread-safe for different jobs. Throws std::bad_alloc.
void plan_ragged(BatchJob& job, std::size_t lane_number);

}  // namespace h5feed
