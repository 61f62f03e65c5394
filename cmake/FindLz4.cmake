# SPDX-License-Identifier: Apache-2.0
# Defines the imported target Lz4::Lz4.
include("${CMAKE_CURRENT_LIST_DIR}/H5feedFindLibrary.cmake")
h5feed_find_library(Lz4 lz4.h lz4 LZ4_VERSION)
