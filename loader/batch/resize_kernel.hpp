// SPDX-License-Identifier: Apache-2.0
// The row kernel that scales a window of each image.
#pragma once

#include <memory>

#include "batch/row_kernel.hpp"

namespace h5feed {

/// Creates the kernel of a specification whose crop sizes say `resizes`: the window of the transform is
/// scaled to the output in the stored type (batch/resample.hpp); then the sample is flipped and converted
/// like any other. Throws OptionError like `make_row_kernel`.
std::unique_ptr<const RowKernel> make_resize_kernel(const RowKernelSpec& spec);

}  // namespace h5feed
