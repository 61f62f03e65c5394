// SPDX-License-Identifier: Apache-2.0
// The manual page of the program.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace h5feed::cli {

/// Returns the manual page, in the macros of man(7), of a program with its commands: what --help prints of
/// each.
std::string man_page(const CLI::App& program);

}  // namespace h5feed::cli
