// SPDX-License-Identifier: Apache-2.0
// Copies a file and compares what was stored with what was read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

namespace h5feed {

/// Copies the first `bytes` of `source` to `target`, which is created for its owner alone or replaced. Reads
/// in blocks of 4 MiB on up to four threads, syncs the copy to its storage, and reads it again to compare the
/// CRC-32 of each block with that of the block read from `source`. Blocks. Throws FileError if `source`
/// cannot be read or is shorter, if `target` cannot be written (naming the space that it needs, if there is
/// too little), and if the copy differs; `target` is removed then. `before_compare` is for tests.
void copy_checked(const std::filesystem::path& source, const std::filesystem::path& target,
                  std::uint64_t bytes, const std::function<void()>& before_compare = {});

}  // namespace h5feed
