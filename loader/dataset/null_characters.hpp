// SPDX-License-Identifier: Apache-2.0
// Texts of options that the system and libhdf5 would end early.
#pragma once

#include "h5feed/dataset.hpp"
#include "h5feed/options.hpp"

namespace h5feed {

/// Throws OptionError if a path or a name among the options has a null character: the system and libhdf5 end
/// texts there, and would open something else.
void refuse_null_characters(const DatasetOptions& options);
/// Throws OptionError if a path or a name among the options of a loader has a null character.
void refuse_null_characters(const DataLoaderOptions& options);

}  // namespace h5feed
