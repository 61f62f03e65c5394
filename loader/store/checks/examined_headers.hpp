// SPDX-License-Identifier: Apache-2.0
// The object headers of a file that have been examined before libhdf5 reads them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>

#include "store/format/byte_source.hpp"

namespace h5feed {

/// Examines the object headers of a file, each once: groups lie on the way to many objects. Not thread-safe.
class ExaminedHeaders {
 public:
  /// Reads the superblock from `source`. Blocks. Throws FileError if it cannot be read.
  explicit ExaminedHeaders(std::shared_ptr<const ByteSource> source);

  /// Returns the `header_damage` at `address`. Remembers headers without damage, unless the file is open for
  /// SWMR writing, where they may change. Blocks. Throws FileError if the source cannot be read.
  std::string damage_at(std::uint64_t address);

 private:
  std::shared_ptr<const ByteSource> source_;
  bool may_change_ = false;
  std::unordered_set<std::uint64_t> whole_;
};

}  // namespace h5feed
