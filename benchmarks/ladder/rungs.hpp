// SPDX-License-Identifier: Apache-2.0
// The rungs of the ladder: each trains as the rung below it, with one change.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace h5feed::ladder {

/// Rungs from the bottom. A rung includes the changes of all rungs below it: `rung >= Rung::late` asks
/// whether batches are normalized late.
enum class Rung : std::uint8_t {
  naive,    ///< LibTorch's DataLoader over the HDF5 C++ API: no workers, float32 samples, pageable memory
  workers,  ///< worker threads
  late,     ///< uint8 batches, normalized on the device of the training
  h5feed,   ///< h5feed's loader in place of LibTorch's: the same shuffle, a cache as small as libhdf5's
  chunks,   ///< order by chunks, and a cache that holds a window of them
  pinned,   ///< batches in pinned memory, copied to the GPU while the training computes
  gapless,  ///< one loader for all epochs: the next one is prepared while the last steps run
  echo,     ///< each batch is delivered several times
};

struct RungText {
  Rung rung;
  std::string_view name;
  std::string_view change;  ///< what the rung changes, for tables and pictures
};

/// Returns all rungs, from the bottom.
std::span<const RungText> rungs();

/// Throws OptionError, which lists the names.
const RungText& rung_named(std::string_view name);

}  // namespace h5feed::ladder
