# SPDX-License-Identifier: Apache-2.0
# Finds a C library by header and file name: not every distribution ships a CMake package for each library.

# h5feed_find_library(NAME HEADER LIBRARY VERSION_PREFIX [PATH_SUFFIXES ...]): the body of a find module.
# Defines the imported target NAME::NAME, and NAME_VERSION from the header's VERSION_PREFIX_MAJOR, …; empty if
# VERSION_PREFIX is empty. Further arguments are passed to find_path.
macro(h5feed_find_library name header library version_prefix)
  find_path(${name}_INCLUDE_DIR ${header} ${ARGN})
  find_library(${name}_LIBRARY ${library})
  set(${name}_VERSION "")
  if(${name}_INCLUDE_DIR AND NOT "${version_prefix}" STREQUAL "")
    foreach(part MAJOR MINOR RELEASE)
      file(STRINGS "${${name}_INCLUDE_DIR}/${header}" line
        REGEX "#define ${version_prefix}_${part}[ \t]+[0-9]+")
      if("${line}" MATCHES "_${part}[ \t]+([0-9]+)")
        list(APPEND ${name}_VERSION "${CMAKE_MATCH_1}")
      endif()
    endforeach()
    list(JOIN ${name}_VERSION "." ${name}_VERSION)
  endif()
  include(FindPackageHandleStandardArgs)
  find_package_handle_standard_args(${name}
    REQUIRED_VARS ${name}_LIBRARY ${name}_INCLUDE_DIR VERSION_VAR ${name}_VERSION)
  if(${name}_FOUND AND NOT TARGET ${name}::${name})
    add_library(${name}::${name} UNKNOWN IMPORTED)
    set_target_properties(${name}::${name} PROPERTIES
      IMPORTED_LOCATION "${${name}_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${${name}_INCLUDE_DIR}")
  endif()
  mark_as_advanced(${name}_INCLUDE_DIR ${name}_LIBRARY)
endmacro()
