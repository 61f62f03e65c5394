# SPDX-License-Identifier: Apache-2.0
# Defines the imported target Lzf::Lzf. The header only states a version of the interface.
include("${CMAKE_CURRENT_LIST_DIR}/H5feedFindLibrary.cmake")
h5feed_find_library(Lzf lzf.h lzf "" PATH_SUFFIXES liblzf)
