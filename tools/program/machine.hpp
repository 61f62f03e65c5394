// SPDX-License-Identifier: Apache-2.0
// Describes the machine that a measurement was made on.
#pragma once

#include "tools/program/output.hpp"

namespace h5feed::cli {

/// Returns CPU model, usable cores and memory with the limits that determine them, and kernel.
Json machine_json();

}  // namespace h5feed::cli
