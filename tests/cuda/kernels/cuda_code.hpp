// SPDX-License-Identifier: Apache-2.0
// What nvcc makes of a source of the project.
#pragma once

namespace h5feed::gpu::test {

/// `__cplusplus` in .cu sources.
long language_of_cuda_sources();

}  // namespace h5feed::gpu::test
