# SPDX-License-Identifier: Apache-2.0
# Finds everything that h5feed builds on. Required: the Debian packages in tools/install_deps.sh. Optional:
# LibTorch, CUDA, and the libraries of two filters. The summary (H5feedSummary.cmake) reports the results.
foreach(switch H5FEED_BUILD_PYTHON H5FEED_WITH_TORCH H5FEED_WITH_CUDA H5FEED_WITH_BLOSC2 H5FEED_WITH_ZFP)
  if(NOT ${switch} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "${switch} is \"${${switch}}\"; it takes AUTO, ON or OFF")
  endif()
endforeach()

find_package(Threads REQUIRED)
set(HDF5_PREFER_PARALLEL OFF)
find_package(HDF5 1.10.8 REQUIRED COMPONENTS C CXX)
find_package(TBB REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(Libdeflate REQUIRED)
find_package(Lz4 REQUIRED)
find_package(Zstd REQUIRED)
find_package(Lzf REQUIRED)
find_package(Blosc REQUIRED)
find_package(BZip2 REQUIRED)
find_package(Aec REQUIRED)
find_package(JPEG REQUIRED)  # libjpeg-turbo
find_package(OpenCV 4 REQUIRED COMPONENTS core imgproc imgcodecs)

# h5feed_find_optional(NAME SWITCH): finds a library unless the switch is OFF; with ON it must be there. Sets
# H5FEED_HAS_<NAME> to 1 or 0.
macro(h5feed_find_optional name switch)
  string(TOUPPER "${name}" upper)
  set(H5FEED_HAS_${upper} 0)
  if("${switch}" STREQUAL "ON")
    find_package(${name} MODULE REQUIRED)
  elseif("${switch}" STREQUAL "AUTO")
    find_package(${name} MODULE QUIET)
  endif()
  if("${switch}" MATCHES "^(AUTO|ON)$" AND ${name}_FOUND)
    set(H5FEED_HAS_${upper} 1)
  endif()
endmacro()
h5feed_find_optional(Blosc2 "${H5FEED_WITH_BLOSC2}")
h5feed_find_optional(Zfp "${H5FEED_WITH_ZFP}")

include(H5feedCuda)
set(H5FEED_TORCH_FOUND FALSE)
if(NOT H5FEED_WITH_TORCH STREQUAL "OFF")
  include(H5feedFindTorch)
  # Torch's targets refer to each other in generator expressions, which a project that contains h5feed
  # evaluates in its own directories.
  set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
  h5feed_find_torch(${H5FEED_WITH_TORCH})
  unset(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL)
  if(H5FEED_TORCH_FOUND AND CMAKE_CXX_COMPILER_ID MATCHES Clang)
    # The headers of LibTorch 1.13 are not valid C++20 for Clang.
    include(CheckCXXSourceCompiles)
    set(CMAKE_REQUIRED_FLAGS "-std=c++20")
    set(CMAKE_REQUIRED_LIBRARIES ${TORCH_LIBRARIES})
    check_cxx_source_compiles("#include <torch/types.h>\nint main() {}" H5FEED_TORCH_COMPILES)
    unset(CMAKE_REQUIRED_FLAGS)
    unset(CMAKE_REQUIRED_LIBRARIES)
    set(H5FEED_TORCH_FOUND ${H5FEED_TORCH_COMPILES})
    if(NOT H5FEED_TORCH_FOUND AND H5FEED_WITH_TORCH STREQUAL "ON")
      message(FATAL_ERROR "the headers of LibTorch ${H5FEED_TORCH_VERSION} do not compile as C++20 with "
        "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}; use g++ or a newer LibTorch")
    endif()
  endif()
endif()
include(H5feedHdf5Check)
