// SPDX-License-Identifier: Apache-2.0
// Compares batches that are delivered as stored with the file.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>

#include "h5feed/batch.hpp"
#include "support/files/sample_set.hpp"

namespace h5feed::test {

/// Fails the test unless `batch` has the stored bytes of its samples, and no others.
inline void expect_stored(const SampleSet& set, const Batch& batch) {
  const std::size_t bytes = set.sample_bytes();
  ASSERT_EQ(static_cast<std::size_t>(batch.data.elements()) * size_of(batch.data.dtype),
            batch.indices.size() * bytes);
  for (std::size_t i = 0; i < batch.indices.size(); ++i) {
    ASSERT_EQ(std::memcmp(batch.data.bytes.get() + i * bytes, set.sample(batch.indices[i]), bytes), 0)
        << "sample " << batch.indices[i] << " of batch " << batch.number << " in epoch " << batch.epoch;
  }
}

}  // namespace h5feed::test
