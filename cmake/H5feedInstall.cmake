# SPDX-License-Identifier: Apache-2.0
# Install rules, the config package, and the Debian packages. The components are those of H5feedDebian: what programs load
# (library), the codecs of encoded images (images), the program (program), and what they are compiled with (development).
include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/h5feed")
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)

install(TARGETS h5feed EXPORT h5feedTargets FILE_SET HEADERS
  LIBRARY COMPONENT library NAMELINK_COMPONENT development)
install(TARGETS h5feed_nvml EXPORT h5feedTargets FILE_SET HEADERS)
install(FILES loader/include/h5feed/torch.hpp DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/h5feed")
install(DIRECTORY loader/include/h5feed/torch DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/h5feed")
if(H5FEED_HAS_OPENCV)
  install(TARGETS h5feed_images EXPORT h5feedTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/h5feed" COMPONENT images)
endif()
install(TARGETS h5feed_reader EXPORT h5feedTargets RUNTIME DESTINATION "${CMAKE_INSTALL_LIBDIR}/h5feed" COMPONENT library)
install(EXPORT h5feedTargets NAMESPACE h5feed:: DESTINATION "${package_dir}")
if(TARGET h5feed_gpu)
  # A separate export set: projects without a CUDA toolkit can still use the other targets.
  install(TARGETS h5feed_gpu EXPORT h5feedGpuTargets FILE_SET HEADERS)
  install(EXPORT h5feedGpuTargets NAMESPACE h5feed:: DESTINATION "${package_dir}")
  install(FILES cuda/include/h5feed/torch/cuda.hpp DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/h5feed/torch")
endif()
if(TARGET h5feed_program)
  install(TARGETS h5feed_program COMPONENT program)
  # The manual page is made from the help.
  install(CODE "execute_process(COMMAND \"$<TARGET_FILE:h5feed_program>\" --man
    OUTPUT_FILE \"${PROJECT_BINARY_DIR}/h5feed.1\" COMMAND_ERROR_IS_FATAL ANY)" COMPONENT program)
  install(FILES "${PROJECT_BINARY_DIR}/h5feed.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT program)
endif()
install(FILES LICENSE THIRD_PARTY.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")

get_target_property(type h5feed TYPE)
set(H5FEED_NEEDS_DEPENDENCIES TRUE)
if(type STREQUAL "SHARED_LIBRARY")
  set(H5FEED_NEEDS_DEPENDENCIES FALSE)
endif()
configure_package_config_file(cmake/h5feedConfig.cmake.in "${PROJECT_BINARY_DIR}/h5feedConfig.cmake"
  INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/h5feedConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/h5feedConfig.cmake" "${PROJECT_BINARY_DIR}/h5feedConfigVersion.cmake"
  cmake/H5feedFindTorch.cmake cmake/H5feedFindLibrary.cmake cmake/FindLibdeflate.cmake cmake/FindLz4.cmake cmake/FindZstd.cmake
  cmake/FindAec.cmake cmake/FindBlosc.cmake cmake/FindBlosc2.cmake cmake/FindLzf.cmake cmake/FindZfp.cmake
  DESTINATION "${package_dir}")
include(H5feedDebian)
