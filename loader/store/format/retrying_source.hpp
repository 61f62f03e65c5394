// SPDX-License-Identifier: Apache-2.0
// Repeats reads that fail for a moment.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>

#include "h5feed/error.hpp"
#include "store/format/byte_source.hpp"

namespace h5feed {

/// The error of a read that may succeed if it is repeated: storage was not reachable, or lost the file for a
/// moment.
class PassingReadError : public FileError {
 public:
  using FileError::FileError;
};

/// Returns whether a read that failed with this value of errno is worth repeating: EIO, ESTALE and ETIMEDOUT,
/// which network file systems return while a server is away.
bool may_pass(int error) noexcept;

/// Times to wait before the second, third and fourth try of a read.
using RetryWaits = std::array<std::chrono::milliseconds, 3>;

/// The waits in use: a second in total, which is also the longest that a retry delays the end of a loader.
inline constexpr RetryWaits kRetryWaits = {std::chrono::milliseconds(20), std::chrono::milliseconds(180),
                                           std::chrono::milliseconds(800)};

/// Returns a source that repeats reads of `source` which throw PassingReadError: up to four tries, with
/// `waits` in between. The error of the last try is thrown as a FileError that names the number of tries;
/// all other errors at once.
std::shared_ptr<const ByteSource> make_retrying(std::shared_ptr<const ByteSource> source,
                                                const RetryWaits& waits = kRetryWaits);

/// Returns how many reads the calling thread has repeated since it started.
std::uint64_t read_retries_of_thread() noexcept;

}  // namespace h5feed
