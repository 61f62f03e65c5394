// SPDX-License-Identifier: Apache-2.0
// GPU readings as JSON and as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cuda/nvml/nvml.hpp"
#include "tools/program/output.hpp"

namespace h5feed::cli {

/// Returns a reading as JSON. Keys are the field names; unknown values are null. Each process has pid,
/// used_bytes, and name, which is null unless it runs on this machine.
Json reading_json(const gpu::GpuReading& reading);

/// Formats a share as "41 %", or "n/a" if unknown.
std::string share_text(const std::optional<double>& share);
/// Formats a rounded value with its unit as "350 W", or "n/a" if unknown.
std::string value_text(const std::optional<double>& value, const char* unit);
/// Formats a size as "1.5 GiB", or "n/a" if unknown.
std::string bytes_text(const std::optional<std::uint64_t>& bytes);

}  // namespace h5feed::cli
