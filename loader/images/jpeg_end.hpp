// Whether the bytes of a JPEG reach to its end.
#pragma once

#include <cstddef>
#include <span>

namespace h5feed {

/// False for a JPEG that was cut short: its markers (ITU-T Recommendation T.81, Annex B) do not lead to "end
/// of image". Decoders fill in what is missing and do not say so. True for bytes that are no JPEG, whatever
/// they are, and for a JPEG with anything behind its end. Decodes nothing.
bool jpeg_is_whole(std::span<const std::byte> bytes) noexcept;

}  // namespace h5feed
