// SPDX-License-Identifier: Apache-2.0
// Included before everything else: what is declared without H5FEED_EXPORT is hidden.
#pragma once
#pragma GCC visibility push(hidden)
