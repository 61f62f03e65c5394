// SPDX-License-Identifier: Apache-2.0
// Temporary files beside an output: names that nobody else can know in advance, and what killed processes
// left.
#pragma once

#include <cstdint>
#include <filesystem>

namespace h5feed {

/// Returns the path ".NAME.tmp-DIGITS" next to `target`, with 12 hexadecimal digits from the system's source
/// of random numbers. Whoever may write to the folder cannot put a link in its place before it is created.
/// Throws std::exception if there is no such source. Thread-safe.
std::filesystem::path temporary_beside(const std::filesystem::path& target);

/// Marks `file`, a temporary file that is open for writing as `fd`, as one whose process lives, until the
/// last copy of `fd` is closed. Uses a lock of the open file (fcntl(2), F_OFD_SETLK), which those that
/// libhdf5 takes (flock(2)) do not exclude. Does nothing on a file system that is not known to be of this
/// machine alone: over a network they would. Thread-safe.
void hold_temporary(int fd, const std::filesystem::path& file) noexcept;

/// Who may have left the temporary files that are to be removed.
enum class LeftBy : std::uint8_t {
  any_process,  ///< Leaves those of the last second: after creating a file, a process takes microseconds to
                ///< hold it
  ended_child   ///< Takes these, too
};

/// Removes temporary files of `target` (`temporary_beside`) that belong to this user and are held by no
/// process. Leaves what lies on a file system that another machine may write to. Errors are ignored.
/// Thread-safe. Blocks while the folder is listed.
void remove_abandoned_temporaries(const std::filesystem::path& target,
                                  LeftBy left_by = LeftBy::any_process) noexcept;

}  // namespace h5feed
