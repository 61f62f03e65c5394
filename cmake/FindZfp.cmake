# SPDX-License-Identifier: Apache-2.0
# Defines the imported target Zfp::Zfp. The header states no version.
include("${CMAKE_CURRENT_LIST_DIR}/H5feedFindLibrary.cmake")
h5feed_find_library(Zfp zfp.h zfp "")
