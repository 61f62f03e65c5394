// SPDX-License-Identifier: Apache-2.0
// Lower bound for the cost of reading samples from the page cache.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/files/file_descriptor.hpp"

namespace h5feed::bench {

/// Drops files from the page cache. Throws std::runtime_error if the system does not.
inline void drop_pages(const std::vector<std::filesystem::path>& files) {
  for (const std::filesystem::path& path : files) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.valid() || ::fsync(file.get()) != 0 ||
        ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED) != 0)
      throw std::runtime_error(path.string() + ": cannot be taken out of the page cache");
  }
}

/// Reads samples of `sample_bytes` in random order with threads that only call pread(2), into as much memory
/// as six batches of 64 samples take. The samples are the last bytes of `files`, distributed evenly.
class PreadLoop {
 public:
  /// Throws std::runtime_error if a file cannot be opened.
  PreadLoop(const std::vector<std::filesystem::path>& files, std::size_t samples, std::size_t sample_bytes,
            std::size_t threads)
      : each_(samples / files.size()), sample_bytes_(sample_bytes), order_(samples) {
    for (const std::filesystem::path& path : files) {
      files_.emplace_back(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
      if (!files_.back().valid()) throw std::runtime_error(path.string() + ": cannot be opened");
    }
    header_ = std::filesystem::file_size(files.front()) - each_ * sample_bytes;
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    buffers_.assign(threads, std::vector<char>(kBuffered / threads * sample_bytes));
  }

  /// Reads all samples once and returns their number. Blocks. Throws std::runtime_error if a read is short.
  std::size_t run() {
    std::ranges::shuffle(order_, random_);
    std::atomic<bool> failed = false;
    {
      std::vector<std::jthread> threads;
      for (std::size_t number = 0; number < buffers_.size(); ++number)
        threads.emplace_back([this, number, &failed] {
          if (!read_share(number)) failed = true;
        });
    }
    if (failed) throw std::runtime_error("pread fell short");
    return order_.size();
  }

 private:
  static constexpr std::size_t kBuffered = 6 * 64;

  bool read_share(std::size_t number) {
    std::vector<char>& buffer = buffers_[number];
    std::size_t at = 0;
    for (std::size_t i = number; i < order_.size(); i += buffers_.size()) {
      const std::size_t sample = order_[i];
      const std::size_t offset = header_ + sample % each_ * sample_bytes_;
      if (::pread(files_[sample / each_].get(), buffer.data() + at, sample_bytes_,
                  static_cast<off_t>(offset)) != static_cast<ssize_t>(sample_bytes_))
        return false;
      at += sample_bytes_;
      if (at == buffer.size()) at = 0;
    }
    return true;
  }

  const std::size_t each_;
  const std::size_t sample_bytes_;
  std::size_t header_ = 0;
  std::vector<FileDescriptor> files_;
  std::vector<std::size_t> order_;
  std::vector<std::vector<char>> buffers_;
  std::minstd_rand random_{1};
};

}  // namespace h5feed::bench
