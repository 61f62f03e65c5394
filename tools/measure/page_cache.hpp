// SPDX-License-Identifier: Apache-2.0
// Queries and controls which pages of a file are in the kernel's page cache.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>

namespace h5feed::cli {

/// Largest share of resident pages at which a file counts as cold; measurements report a larger one.
inline constexpr double kColdEnough = 0.01;

/// Returns the share of the file's pages in the page cache, 0 … 1 (mincore(2)); 0 for an empty file. Empty if
/// the kernel does not tell: since Linux 5.2 only owners and writers of a file may ask. Throws FileError.
std::optional<double> resident_share(const std::filesystem::path& file);

/// Writes dirty pages back and asks the kernel to drop the file's pages. Returns the share that stays. Blocks
/// for the storage. Throws FileError, also if the kernel does not tell that share.
double drop_pages(const std::filesystem::path& file);

/// Drops the file's pages. Throws FileError that names the likely causes if more than `kColdEnough` of them
/// stay: a file system in memory, a process that maps the file, or others reading it. Blocks for the storage.
void require_droppable(const std::filesystem::path& file);

/// Reads the file once, so that its pages are in the page cache; stops after `limit`. Returns whether it
/// reached the end. Blocks. Throws FileError.
bool load_pages(const std::filesystem::path& file, std::chrono::nanoseconds limit);

}  // namespace h5feed::cli
