// A loader's run in a few lines for people.
#pragma once

#include <string>

#include "base/system_limits.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/stats.hpp"

namespace h5feed {

std::string format_report(const LoaderStats& stats, const ResolvedOptions& options,
                          const SystemLimits& limits);

}  // namespace h5feed
