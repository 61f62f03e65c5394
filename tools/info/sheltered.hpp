// SPDX-License-Identifier: Apache-2.0
// Changes a file in place where no signal to the program can cut the change off.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>

namespace h5feed::cli {

/// Runs `change`, which changes `file`, in a copy of this process that gets no signal sent to this one or to
/// its process group, and waits for it: where this process is killed in between, the change is completed
/// nevertheless. Only killing the copy itself, a machine that stops, or `most_cpu` of CPU time cut it off.
/// Call it from the only thread that uses libhdf5. Blocks. Throws FileError with the message of what `change`
/// threw, or one that names the file if the copy crashed; Error if no process can be started.
void run_sheltered(const std::filesystem::path& file, const std::function<void()>& change,
                   std::chrono::seconds most_cpu = std::chrono::seconds(60));

}  // namespace h5feed::cli
