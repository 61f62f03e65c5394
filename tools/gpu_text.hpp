// Readings of GPUs as JSON and as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cuda/nvml.hpp"
#include "tools/output.hpp"

namespace h5feed::cli {

/// Keys are the names of the fields; what is not known is null. Processes: pid, name where it is one of this
/// machine's, used_bytes.
Json reading_json(const gpu::GpuReading& reading);

/// "41 %", "n/a".
std::string share_text(const std::optional<double>& share);
/// "350 W", with a unit behind a rounded value.
std::string value_text(const std::optional<double>& value, const char* unit);
/// "1.5 GiB", "n/a".
std::string bytes_text(const std::optional<std::uint64_t>& bytes);

}  // namespace h5feed::cli
