// SPDX-License-Identifier: Apache-2.0
#include "ladder/rungs.hpp"

#include <algorithm>
#include <array>

#include "h5feed/error.hpp"

namespace h5feed::ladder {
namespace {

constexpr std::array kRungs = {
    RungText{Rung::naive, "naive", "LibTorch's DataLoader, 0 workers, float32"},
    RungText{Rung::workers, "workers", "worker threads"},
    RungText{Rung::late, "late", "uint8 batches, normalized in the step"},
    RungText{Rung::h5feed, "h5feed", "h5feed's loader in place of LibTorch's"},
    RungText{Rung::chunks, "chunks", "order by chunks, cache of a window"},
    RungText{Rung::pinned, "pinned", "pinned memory, asynchronous copies"},
    RungText{Rung::gapless, "gapless", "one loader for all epochs: no gaps"},
    RungText{Rung::echo, "echo", "each batch twice (repeats counted)"},
};

}  // namespace

std::span<const RungText> rungs() { return kRungs; }

const RungText& rung_named(std::string_view name) {
  const auto* const found = std::ranges::find(kRungs, name, &RungText::name);
  if (found != kRungs.end()) return *found;
  std::string names;
  for (const RungText& rung : kRungs) names += (names.empty() ? "" : ", ") + std::string(rung.name);
  throw OptionError("--rung " + std::string(name) + ": use one of " + names);
}

}  // namespace h5feed::ladder
