// What of a file lies in the kernel's page cache.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>

namespace h5feed::cli {

/// Share above which a file counts as resident still: measurements say so.
inline constexpr double kColdEnough = 0.01;

/// Share of the file's pages in the page cache, 0 … 1 (mincore(2)); 0 for an empty file. Empty where the
/// kernel does not tell: since Linux 5.2 only owners and writers of a file may know. Throws FileError.
std::optional<double> resident_share(const std::filesystem::path& file);

/// Writes dirty pages back and asks the kernel to drop the file's pages. Returns the share that stays.
/// Blocks for the storage. Throws FileError, where the kernel does not tell that share among others.
double drop_pages(const std::filesystem::path& file);

/// Drops the pages; throws FileError that names the reason where more than `kColdEnough` of them stay: a
/// file system in memory, a process that maps the file, or others reading it.
void require_droppable(const std::filesystem::path& file);

/// Reads the file once, so that its pages are in the page cache; stops after `limit` and returns whether it
/// came to the end. Blocks. Throws FileError.
bool load_pages(const std::filesystem::path& file, std::chrono::nanoseconds limit);

}  // namespace h5feed::cli
