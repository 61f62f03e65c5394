// SPDX-License-Identifier: Apache-2.0
// Detects truncated JPEG images.
#pragma once

#include <cstddef>
#include <span>

namespace h5feed {

/// Returns false for a truncated JPEG: its markers (ITU-T Recommendation T.81, Annex B) do not lead to "end
/// of image". Decoders fill in the missing part without an error. Returns true for bytes that are not a JPEG,
/// and for a JPEG with extra bytes after its end. Does not decode. Thread-safe.
bool jpeg_is_whole(std::span<const std::byte> bytes) noexcept;

}  // namespace h5feed
