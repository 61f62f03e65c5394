// SPDX-License-Identifier: Apache-2.0
// Files that are installed with the library and found at run time.
#pragma once

#include <string>
#include <vector>

namespace h5feed {

/// Returns the paths at which the file `name` that belongs to this library may be, the first to be tried
/// first: the one in the environment variable `variable`, and no other if that is set; else the folder of the
/// program or shared library that contains this code, its subfolder h5feed, the installed folder of
/// libraries, and the folders that the dynamic linker searches for it.
std::vector<std::string> companion_places(const char* name, const char* variable);

}  // namespace h5feed
