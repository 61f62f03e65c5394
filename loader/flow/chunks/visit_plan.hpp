// SPDX-License-Identifier: Apache-2.0
// Which chunks a batch has to visit.
#pragma once

#include <cstddef>

#include "dataset/sample_map.hpp"
#include "flow/chunks/batch_job.hpp"

namespace h5feed {

// Each adds the visits of the field with number `lane_number` to `job`. They throw std::bad_alloc, and are
// thread-safe for different jobs.

/// Of samples that lie in chunks, whole or in the same pieces. `job.rows` of the field are in file order.
void plan_chunks(BatchJob& job, std::size_t lane_number, const SampleMap& map);

/// Of tiles, which lie in few of the chunks that hold their image: each visit has rows of its own, so that
/// `job.rows` of the field, in file order before, are listed visit by visit afterwards.
void plan_tiles(BatchJob& job, std::size_t lane_number, const SampleMap& map);

/// Of samples that differ in length.
void plan_ragged(BatchJob& job, std::size_t lane_number);

}  // namespace h5feed
