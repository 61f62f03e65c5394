# Finds LibTorch without letting it change the including project. Part of h5feed's build and of its
# installed config package.

# Torch's package files write to variables that steer every target of the including directory.
set(H5FEED_TORCH_TOUCHES
  CMAKE_C_FLAGS CMAKE_CXX_FLAGS CMAKE_CUDA_FLAGS CMAKE_EXE_LINKER_FLAGS CMAKE_SHARED_LINKER_FLAGS
  CMAKE_MODULE_PATH CMAKE_CXX_STANDARD CMAKE_CUDA_STANDARD)

# h5feed_find_torch(AUTO|ON): sets H5FEED_TORCH_FOUND and, where found, H5FEED_TORCH_VERSION and
# H5FEED_TORCH_CUDA; TORCH_LIBRARIES and TORCH_CXX_FLAGS are Torch's own. A macro, because Torch may
# enable the CUDA language, which CMake allows at file scope only.
macro(h5feed_find_torch h5feed_torch_mode)
  foreach(name IN LISTS H5FEED_TORCH_TOUCHES)
    if(DEFINED ${name})
      set(h5feed_saved_${name} "${${name}}")
    endif()
  endforeach()
  set(h5feed_saved_log_level "${CMAKE_MESSAGE_LOG_LEVEL}")
  set(CMAKE_MESSAGE_LOG_LEVEL WARNING)
  if("${h5feed_torch_mode}" STREQUAL "ON")
    find_package(Torch REQUIRED)
  else()
    find_package(Torch QUIET)
  endif()
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
      set(h5feed_torch_refusal "LibTorch ${H5FEED_TORCH_VERSION} (${TORCH_LIBRARY}) uses the C++ ABI of before \
gcc 5 and cannot be linked with h5feed; use a LibTorch built with _GLIBCXX_USE_CXX11_ABI=1")
      if("${h5feed_torch_mode}" STREQUAL "ON")
        message(FATAL_ERROR "${h5feed_torch_refusal}")
      endif()
      message(WARNING "${h5feed_torch_refusal}. h5feed::torch is off.")
    else()
      set(H5FEED_TORCH_FOUND TRUE)
    endif()
  endif()
endmacro()

# h5feed_link_torch(TARGET): gives an INTERFACE library what users of h5feed/torch.hpp need.
function(h5feed_link_torch target)
  separate_arguments(flags UNIX_COMMAND "${TORCH_CXX_FLAGS}")
  target_link_libraries(${target} INTERFACE h5feed::h5feed ${TORCH_LIBRARIES})
  target_compile_options(${target} INTERFACE ${flags})
endfunction()
