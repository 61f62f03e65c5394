// SPDX-License-Identifier: Apache-2.0
// Macros that let the same arithmetic compile for the GPU and, in tests, for the CPU.
#pragma once

#ifdef __CUDACC__
#define H5FEED_HOST_DEVICE __host__ __device__
#else
#define H5FEED_HOST_DEVICE
#endif

#ifdef __CUDA_ARCH__
#define H5FEED_UNROLL _Pragma("unroll")
#else
#define H5FEED_UNROLL
#endif
