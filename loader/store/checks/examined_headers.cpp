// SPDX-License-Identifier: Apache-2.0
#include "store/checks/examined_headers.hpp"

#include <cstddef>
#include <utility>

#include "store/checks/structure_check.hpp"
#include "store/format/superblock.hpp"

namespace h5feed {

ExaminedHeaders::ExaminedHeaders(std::shared_ptr<const ByteSource> source)
    : source_(std::move(source)), may_change_(has_swmr_writer(*source_)) {}

std::string ExaminedHeaders::damage_at(std::uint64_t address) {
  constexpr std::size_t kMostRemembered = 1 << 16;
  if (whole_.contains(address)) return {};
  std::string damage = header_damage(*source_, address);
  if (damage.empty() && !may_change_) {
    if (whole_.size() == kMostRemembered) whole_.clear();
    whole_.insert(address);
  }
  return damage;
}

}  // namespace h5feed
