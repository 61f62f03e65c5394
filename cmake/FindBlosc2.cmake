# SPDX-License-Identifier: Apache-2.0
# Defines the imported target Blosc2::Blosc2.
include("${CMAKE_CURRENT_LIST_DIR}/H5feedFindLibrary.cmake")
h5feed_find_library(Blosc2 blosc2.h blosc2 BLOSC2_VERSION)
