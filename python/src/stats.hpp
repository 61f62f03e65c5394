// SPDX-License-Identifier: Apache-2.0
// Statistics and predictions in Python.
#pragma once

#include <nanobind/nanobind.h>

#include "h5feed/data_loader.hpp"
#include "h5feed/stats.hpp"

namespace h5feed::python {

/// Returns the counters and ratios as a flat dictionary of numbers, as loggers take it.
nanobind::dict to_dict(const LoaderStats& stats);

/// Returns the options in use, by their names.
nanobind::dict to_dict(const ResolvedOptions& options);

/// Binds PlanReport.
void bind_plan(nanobind::module_& module);

}  // namespace h5feed::python
