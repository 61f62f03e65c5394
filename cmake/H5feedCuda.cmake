# SPDX-License-Identifier: Apache-2.0
# Finds nvcc and the CUDA runtime for h5feed::gpu, and enables the CUDA language if they work. Default code:
# sm_90, and compute_75 PTX, which drivers compile at the first start for every other GPU that CUDA 13
# supports. The preset gpu-all has machine code for each.

# CMake before 3.26 does not know C++20 for nvcc and silently drops CMAKE_CUDA_STANDARD 20.
if(CMAKE_VERSION VERSION_LESS 3.26)
  foreach(kind STANDARD EXTENSION)
    if(NOT DEFINED CMAKE_CUDA20_${kind}_COMPILE_OPTION)
      set(CMAKE_CUDA20_${kind}_COMPILE_OPTION "-std=c++20")
    endif()
  endforeach()
endif()

set(H5FEED_CUDA_VERSION "")  # of the nvcc that was found
set(H5FEED_HAS_CUDA 0)       # whether h5feed::gpu is built
unset(H5FEED_NVCC)
if(NOT H5FEED_WITH_CUDA STREQUAL "OFF")
  # Searches in the order in which CMake itself chooses a CUDA compiler.
  if(CMAKE_CUDA_COMPILER)
    set(H5FEED_NVCC "${CMAKE_CUDA_COMPILER}")
  elseif(DEFINED ENV{CUDACXX})
    set(H5FEED_NVCC "$ENV{CUDACXX}")
  else()
    find_program(H5FEED_NVCC nvcc NO_CACHE PATHS "$ENV{CUDA_PATH}/bin" /usr/local/cuda/bin)
  endif()
  if(H5FEED_NVCC)
    execute_process(COMMAND "${H5FEED_NVCC}" --version
      OUTPUT_VARIABLE output ERROR_QUIET RESULT_VARIABLE result)
    if(result EQUAL 0 AND output MATCHES "release ([0-9]+\\.[0-9]+)")
      set(H5FEED_CUDA_VERSION "${CMAKE_MATCH_1}")
    endif()
  endif()
  if(H5FEED_WITH_CUDA STREQUAL "ON" AND NOT H5FEED_CUDA_VERSION)
    message(FATAL_ERROR "H5FEED_WITH_CUDA=ON, but no working nvcc was found (tried CMAKE_CUDA_COMPILER, CUDACXX, "
      "PATH and /usr/local/cuda/bin); install the CUDA toolkit, name its nvcc with CUDACXX, or use H5FEED_WITH_CUDA=AUTO")
  endif()
endif()

if(H5FEED_CUDA_VERSION)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES "90-real;75-virtual")
  endif()
  # A toolkit may be installed but not work with this host compiler: this is an error only with ON. The check
  # searches where the environment says.
  if(NOT CMAKE_CUDA_COMPILER)
    set(ENV{CUDACXX} "${H5FEED_NVCC}")
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  find_package(CUDAToolkit 12 QUIET)
  if(H5FEED_WITH_CUDA STREQUAL "ON" OR (CMAKE_CUDA_COMPILER AND TARGET CUDA::cudart))
    find_package(CUDAToolkit 12 REQUIRED)
    enable_language(CUDA)
    set(H5FEED_HAS_CUDA 1)
  endif()
endif()
