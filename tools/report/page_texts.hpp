// SPDX-License-Identifier: Apache-2.0
// The style and the script of every page: page.css and page.js.
#pragma once

#include <string_view>

namespace h5feed::cli {

extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;

}  // namespace h5feed::cli
