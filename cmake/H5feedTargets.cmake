# Settings shared by h5feed's own targets; nothing here leaks to consumers or to other projects.
function(h5feed_configure_target target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
    -Wno-missing-field-initializers)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # False alarms about std::string of GCC 12 (GCC bug 105651).
    target_compile_options(${target} PRIVATE -Wno-restrict)
  endif()
  if(H5FEED_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    target_compile_options(${target} PRIVATE -Wthread-safety)
  endif()
  if(H5FEED_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${H5FEED_SANITIZE} -fno-omit-frame-pointer
      -fno-sanitize-recover=all)
    target_link_options(${target} PUBLIC -fsanitize=${H5FEED_SANITIZE})
  endif()
endfunction()

# h5feed_compile_fast(TARGET): without optimization under a sanitizer. For what only drives the library: half of the
# build time of the sanitizers was in optimizing it.
function(h5feed_compile_fast target)
  if(H5FEED_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

# h5feed_compile_together(TARGET): under a sanitizer, eight sources at a time: most of their build time is in the headers
# that they share. The release build compiles each alone, and finds an #include that is missing.
function(h5feed_compile_together target)
  if(H5FEED_SANITIZE)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
endfunction()

# h5feed_compile_with_torch_cuda(TARGET SOURCES...): an object library of sources that use CUDA's side of LibTorch,
# where LibTorch is built without. Debian's has these headers, but for one that a build with CUDA writes: enough to
# compile, not to link. Makes no target where the headers are not there.
function(h5feed_compile_with_torch_cuda target)
  find_path(H5FEED_TORCH_CUDA_HEADERS c10/cuda/CUDAStream.h HINTS ${TORCH_INCLUDE_DIRS})
  mark_as_advanced(H5FEED_TORCH_CUDA_HEADERS)
  if(NOT H5FEED_TORCH_CUDA_HEADERS)
    return()
  endif()
  set(stub "${PROJECT_BINARY_DIR}/torch_cuda_stub")
  file(CONFIGURE OUTPUT "${stub}/c10/cuda/impl/cuda_cmake_macros.h" CONTENT "#pragma once\n")
  add_library(${target} OBJECT ${ARGN})
  h5feed_configure_target(${target})
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/cuda/include")
  target_include_directories(${target} SYSTEM PRIVATE "${stub}" ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(${target} PRIVATE h5feed::torch)
endfunction()
