// The machine a measurement was made on.
#pragma once

#include "tools/output.hpp"

namespace h5feed::cli {

/// CPU model, usable cores and memory with what bounds them, kernel.
Json machine_json();

}  // namespace h5feed::cli
