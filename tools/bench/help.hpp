// SPDX-License-Identifier: Apache-2.0
// The end of `bench --help`: how it measures, and examples.
#pragma once

namespace h5feed::cli {

/// Text below the options of `bench --help`.
extern const char* const kBenchFooter;

}  // namespace h5feed::cli
