# SPDX-License-Identifier: Apache-2.0
# Finds LibTorch without changing the including project. Part of h5feed's build and of its installed config
# package.

# Variables that Torch's package files set and that affect every target of the including directory.
set(H5FEED_TORCH_TOUCHES
  CMAKE_C_FLAGS CMAKE_CXX_FLAGS CMAKE_CUDA_FLAGS CMAKE_EXE_LINKER_FLAGS CMAKE_SHARED_LINKER_FLAGS
  CMAKE_MODULE_PATH CMAKE_PREFIX_PATH CMAKE_CXX_STANDARD CMAKE_CUDA_STANDARD CMAKE_CUDA_ARCHITECTURES)

# LibTorch's packages search for their own parts (Caffe2, libc10) in the system's folders first: if Debian's
# LibTorch is installed in addition to the one that Torch_DIR names, the libraries of one would be combined
# with the headers of the other. Prefers the parts next to the named one. The caller must restore
# CMAKE_PREFIX_PATH.
macro(h5feed_prefer_named_torch)
  foreach(h5feed_named_torch IN ITEMS "${Torch_DIR}" "$ENV{Torch_DIR}")
    if(EXISTS "${h5feed_named_torch}/TorchConfig.cmake")
      get_filename_component(h5feed_named_torch "${h5feed_named_torch}/../../.." ABSOLUTE)
      list(PREPEND CMAKE_PREFIX_PATH "${h5feed_named_torch}")
      break()
    endif()
  endforeach()
  unset(h5feed_named_torch)
endmacro()

# Sets `result` to the CMake package of torch in the Python that comes first in PATH (for example in an active
# virtual environment); empty if it has none. Only locates the module: importing it takes seconds.
function(h5feed_pip_torch result)
  set(${result} "" PARENT_SCOPE)
  find_program(python NAMES python3 python NO_CACHE)
  if(NOT python)
    return()
  endif()
  execute_process(COMMAND "${python}" -c
    "import importlib.util as u; s = u.find_spec('torch'); print(next(iter(s.submodule_search_locations or []), '') if s else '', end='')"
    OUTPUT_VARIABLE folder ERROR_QUIET RESULT_VARIABLE code)
  if(code EQUAL 0 AND folder AND EXISTS "${folder}/share/cmake/Torch/TorchConfig.cmake")
    set(${result} "${folder}/share/cmake/Torch" PARENT_SCOPE)
  endif()
endfunction()

# CUDA 12.9 and later have no libnvToolsExt, which LibTorch's packages up to 2.7 link if they do not find NVTX
# 3's headers (https://github.com/pytorch/pytorch/issues/152756). NVTX 3 is header-only and serves the same
# calls.
function(h5feed_supply_nvtoolsext)
  if(NOT TARGET torch::nvtoolsext OR TARGET CUDA::nvToolsExt)
    return()
  endif()
  add_library(CUDA::nvToolsExt INTERFACE IMPORTED GLOBAL)
  if(TARGET CUDA::nvtx3)
    target_link_libraries(CUDA::nvToolsExt INTERFACE CUDA::nvtx3)
  endif()
endfunction()

# h5feed_find_torch(AUTO|ON): searches where CMake does (Torch_DIR, CMAKE_PREFIX_PATH, the system), then for a
# package installed by pip. Sets H5FEED_TORCH_FOUND and, if found, H5FEED_TORCH_VERSION and H5FEED_TORCH_CUDA;
# TORCH_LIBRARIES and TORCH_CXX_FLAGS are Torch's own. A macro, because Torch may enable the CUDA language,
# which CMake allows at file scope only.
macro(h5feed_find_torch h5feed_torch_mode)
  foreach(name IN LISTS H5FEED_TORCH_TOUCHES)
    if(DEFINED ${name})
      set(h5feed_saved_${name} "${${name}}")
    endif()
  endforeach()
  set(h5feed_saved_log_level "${CMAKE_MESSAGE_LOG_LEVEL}")
  set(CMAKE_MESSAGE_LOG_LEVEL WARNING)
  h5feed_prefer_named_torch()
  find_package(Torch QUIET)
  if(NOT Torch_FOUND)
    h5feed_pip_torch(h5feed_torch_from_pip)
    if(h5feed_torch_from_pip)
      set(Torch_DIR "${h5feed_torch_from_pip}" CACHE PATH "CMake package of LibTorch" FORCE)
      h5feed_prefer_named_torch()
      find_package(Torch QUIET)
    endif()
    unset(h5feed_torch_from_pip)
  endif()
  if(NOT Torch_FOUND AND "${h5feed_torch_mode}" STREQUAL "ON")
    find_package(Torch REQUIRED)  # says where it looked
  endif()
  h5feed_supply_nvtoolsext()
  set(CMAKE_MESSAGE_LOG_LEVEL "${h5feed_saved_log_level}")
  foreach(name IN LISTS H5FEED_TORCH_TOUCHES)
    if(DEFINED h5feed_saved_${name})
      set(${name} "${h5feed_saved_${name}}")
      unset(h5feed_saved_${name})
    else()
      unset(${name})
    endif()
  endforeach()

  set(H5FEED_TORCH_FOUND FALSE)
  if(Torch_FOUND)
    set(H5FEED_TORCH_VERSION "${Torch_VERSION}")
    set(H5FEED_TORCH_CUDA FALSE)
    if(TARGET torch_cuda)
      set(H5FEED_TORCH_CUDA TRUE)
    endif()
    if("${TORCH_CXX_FLAGS}" MATCHES "_GLIBCXX_USE_CXX11_ABI=0")
      set(h5feed_torch_refusal "LibTorch ${H5FEED_TORCH_VERSION} (${TORCH_INSTALL_PREFIX}) is built with \
_GLIBCXX_USE_CXX11_ABI=0, the C++ ABI of before gcc 5: its std::string is not that of h5feed and HDF5, and a program \
with both does not link. Use pip's torch 2.7 or later, a LibTorch archive named cxx11-abi, or Debian's libtorch-dev")
      if("${h5feed_torch_mode}" STREQUAL "ON")
        message(FATAL_ERROR "${h5feed_torch_refusal}")
      endif()
      message(WARNING "${h5feed_torch_refusal}. h5feed::torch is off.")
    else()
      set(H5FEED_TORCH_FOUND TRUE)
    endif()
  endif()
endmacro()

# h5feed_link_torch(TARGET): adds to an INTERFACE library what users of h5feed/torch.hpp need.
function(h5feed_link_torch target)
  separate_arguments(flags UNIX_COMMAND "${TORCH_CXX_FLAGS}")
  # stdc++ comes first: pip's libtorch.so (2.11) exports its own std::filesystem, whose remove_all crashes
  # unless the program's C++ library is found before it.
  target_link_libraries(${target} INTERFACE stdc++ h5feed::h5feed ${TORCH_LIBRARIES})
  target_compile_options(${target} INTERFACE ${flags})
endfunction()
