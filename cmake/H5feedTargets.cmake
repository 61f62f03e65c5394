# SPDX-License-Identifier: Apache-2.0
# Settings shared by h5feed's own targets. They do not affect consumers or other projects.
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
    # False positives of GCC 12 for std::string (GCC bug 105651).
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
    if(H5FEED_SANITIZE MATCHES "address.*undefined" AND NOT H5FEED_LONG_TESTS)
      # They take a quarter of the compile time; AddressSanitizer finds most of what they find.
      target_compile_options(${target} PRIVATE -fno-sanitize=null,object-size,vptr)
    endif()
  endif()
endfunction()

# h5feed_compile_fast(TARGET): reduces optimization in the release build, and disables it under a sanitizer, where it also
# leaves out what only fuzz targets need. For code that only drives the library: half of the build time was spent optimizing it.
function(h5feed_compile_fast target)
  if(H5FEED_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
    if(H5FEED_SANITIZE MATCHES "fuzzer-no-link")
      target_compile_options(${target} PRIVATE -fno-sanitize=fuzzer-no-link)
    endif()
  else()
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endfunction()

# h5feed_compile_as_test(TARGET): compiles tests without optimization, and, except with H5FEED_LONG_TESTS, without
# UndefinedBehaviorSanitizer: it is the library that meets foreign data.
function(h5feed_compile_as_test target)
  h5feed_compile_fast(${target})
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O0>)
  if(H5FEED_SANITIZE MATCHES "undefined" AND NOT H5FEED_LONG_TESTS)
    target_compile_options(${target} PRIVATE -fno-sanitize=undefined)
  endif()
endfunction()

# h5feed_precompile_headers(TARGET HEADERS...): parses headers that most sources of a target include only
# once. The preset `dev` turns this off (CMAKE_DISABLE_PRECOMPILE_HEADERS), which reveals missing #includes.
function(h5feed_precompile_headers target)
  target_precompile_headers(${target} PRIVATE ${ARGN})
  if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES ccache AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE -fpch-preprocess)  # else ccache cannot tell what a source depends on
  endif()
endfunction()

# h5feed_add_header_holder(NAME HEADERS ... LINK ... [TEST]): adds an executable that is never run. Its
# precompiled headers serve the programs that name it in h5feed_share_precompiled_headers. They must have its
# compiler options: those of h5feed_compile_fast, or with TEST of h5feed_compile_as_test, and those of the libraries in LINK.
function(h5feed_add_header_holder name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TEST" "" "HEADERS;LINK")
  set(source "${PROJECT_BINARY_DIR}/${name}.cpp")
  file(CONFIGURE OUTPUT "${source}" CONTENT "int main() {}\n")
  add_executable(${name} EXCLUDE_FROM_ALL "${source}")
  h5feed_configure_target(${name})
  if(arg_TEST)
    h5feed_compile_as_test(${name})
  else()
    h5feed_compile_fast(${name})
  endif()
  target_link_libraries(${name} PRIVATE ${arg_LINK})
  h5feed_precompile_headers(${name} ${arg_HEADERS})
endfunction()

# h5feed_share_precompiled_headers(TARGET HOLDER): compiles TARGET with the precompiled headers of HOLDER.
function(h5feed_share_precompiled_headers target holder)
  target_precompile_headers(${target} REUSE_FROM ${holder})
  if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES ccache AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  endif()
endfunction()

# h5feed_compile_together(TARGET): with H5FEED_COMPILE_TOGETHER, and under a sanitizer, compiles sixteen sources
# at a time, since most of their build time is in shared headers. Other presets compile each source alone.
function(h5feed_compile_together target)
  if(H5FEED_SANITIZE OR H5FEED_COMPILE_TOGETHER)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
      # GCC takes the sources that are compiled together for headers, whose anonymous namespaces it warns of.
      target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
    endif()
  endif()
endfunction()

# h5feed_compile_with_torch_cuda(TARGET SOURCES...): adds an object library of sources that use the CUDA part
# of LibTorch, for a LibTorch without CUDA. Debian's has these headers except one that a build with CUDA
# generates: enough to compile, not to link. Adds no target if the headers are missing.
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
  target_compile_options(${target} PRIVATE -O0)  # nothing runs these objects
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/cuda/include")
  target_include_directories(${target} SYSTEM PRIVATE "${stub}" ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(${target} PRIVATE h5feed::torch)
endfunction()
