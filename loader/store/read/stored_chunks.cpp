// SPDX-License-Identifier: Apache-2.0
#include "store/read/stored_chunks.hpp"

namespace h5feed {
namespace {

class AllWritten final : public StoredChunks {
 public:
  bool written(std::uint64_t) const noexcept override { return true; }
  std::uint32_t filter_mask(std::uint64_t) const noexcept override { return 0; }
};

constexpr AllWritten kAllWritten;

}  // namespace

const StoredChunks& StoredChunks::of(const ChunkReader& reader) noexcept {
  const auto* const stored = dynamic_cast<const StoredChunks*>(&reader);
  return stored == nullptr ? kAllWritten : *stored;
}

}  // namespace h5feed
