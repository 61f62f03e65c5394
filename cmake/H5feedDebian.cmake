# SPDX-License-Identifier: Apache-2.0
# Debian packages, made by `cpack` in a build with BUILD_SHARED_LIBS (tools/scripts/deb.sh). A static library belongs into the
# build of its users: such a build makes no packages.
get_target_property(type h5feed TYPE)
if(NOT PROJECT_IS_TOP_LEVEL OR NOT type STREQUAL "SHARED_LIBRARY")
  return()
endif()

set(H5FEED_DEBIAN_MAINTAINER "The h5feed authors <authors@h5feed.invalid>" CACHE STRING
  "Maintainer of the Debian packages: NAME <ADDRESS>")
mark_as_advanced(H5FEED_DEBIAN_MAINTAINER)
set(soname "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME h5feed)
set(CPACK_PACKAGE_VENDOR "The h5feed authors")
set(CPACK_PACKAGE_CONTACT "${H5FEED_DEBIAN_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_DESCRIPTION_FILE "${PROJECT_BINARY_DIR}/debian_description.txt")
file(WRITE "${CPACK_PACKAGE_DESCRIPTION_FILE}"
  "Worker threads read and decode HDF5 chunks, and deliver batches in a reproducible order, also to a GPU.\n")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL library program development)
if(H5FEED_HAS_OPENCV)
  list(APPEND CPACK_COMPONENTS_ALL images)
endif()

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}/loader")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY "=")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME "libh5feed${soname}")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SUGGESTS h5feed-images)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "${PROJECT_DESCRIPTION}: shared library and reader process")

set(same_version "libh5feed${soname} (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_IMAGES_PACKAGE_NAME h5feed-images)
set(CPACK_DEBIAN_IMAGES_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_IMAGES_PACKAGE_DEPENDS "${same_version}")
set(CPACK_COMPONENT_IMAGES_DESCRIPTION "${PROJECT_DESCRIPTION}: codecs of encoded images")

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME h5feed)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "${same_version}")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS h5feed-images)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "${PROJECT_DESCRIPTION}: the program")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libh5feed-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
# CMake refuses a package some of whose files are missing, so the reader and the codecs come with it.
set(development_needs "${same_version}" libfmt-dev)
if(H5FEED_HAS_OPENCV)
  list(APPEND development_needs "h5feed-images (= ${PROJECT_VERSION})")
endif()
list(JOIN development_needs ", " CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "${PROJECT_DESCRIPTION}: headers and CMake package")
include(CPack)
