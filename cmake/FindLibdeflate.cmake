# SPDX-License-Identifier: Apache-2.0
# Defines the imported target Libdeflate::Libdeflate.
include("${CMAKE_CURRENT_LIST_DIR}/H5feedFindLibrary.cmake")
h5feed_find_library(Libdeflate libdeflate.h deflate LIBDEFLATE_VERSION)
