# SPDX-License-Identifier: Apache-2.0
# Defines the imported target Blosc::Blosc.
include("${CMAKE_CURRENT_LIST_DIR}/H5feedFindLibrary.cmake")
h5feed_find_library(Blosc blosc.h blosc BLOSC_VERSION)
