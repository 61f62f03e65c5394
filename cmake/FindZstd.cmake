# SPDX-License-Identifier: Apache-2.0
# Defines the imported target Zstd::Zstd.
include("${CMAKE_CURRENT_LIST_DIR}/H5feedFindLibrary.cmake")
h5feed_find_library(Zstd zstd.h zstd ZSTD_VERSION)
