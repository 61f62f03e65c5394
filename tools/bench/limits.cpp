// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/limits.hpp"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <ranges>
#include <thread>
#include <vector>

#include "base/byte_buffer.hpp"
#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "h5feed/error.hpp"

namespace h5feed::cli {
namespace {

// One thread's share of the slots, reused in turn.
class RotatingSlots {
 public:
  RotatingSlots(std::uint64_t bytes, std::size_t row_bytes) : row_bytes_(row_bytes) {
    const std::uint64_t rows = std::max<std::uint64_t>(1, bytes / row_bytes);
    memory_ = ByteBuffer(static_cast<std::size_t>(rows * row_bytes));
    std::memset(memory_.data(), 0, memory_.size());  // the loader's pool is resident after a few batches
  }

  std::byte* next() noexcept {
    if (used_ + row_bytes_ > memory_.size()) used_ = 0;
    std::byte* const row = memory_.data() + used_;
    used_ += row_bytes_;
    return row;
  }

 private:
  std::size_t row_bytes_;
  std::size_t used_ = 0;
  ByteBuffer memory_;
};

class FirstError {
 public:
  void store(std::exception_ptr error) {
    const MutexLock lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  void rethrow() {
    const MutexLock lock(mutex_);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  Mutex mutex_;
  std::exception_ptr error_ H5FEED_GUARDED_BY(mutex_);
};

// Does a step. What cannot be read or decoded moves no bytes if `setup` passes over it.
std::uint64_t bytes_of(const LimitSetup& setup, const std::function<std::uint64_t()>& step) {
  if (!setup.skip_bad) return step();
  try {
    return step();
  } catch (const ChunkError&) {
  } catch (const FileError&) {
  }
  return 0;
}

// Prepares all threads with `make_step(thread)`; then each calls its step, which returns the bytes it moved,
// until the time is over.
template <typename MakeStep>
double bytes_per_second(const LimitSetup& setup, const MakeStep& make_step) {
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<bool> failed{false};
  FirstError error;
  // The clock starts when every thread is prepared.
  Clock::time_point start;
  std::barrier prepared(static_cast<std::ptrdiff_t>(setup.threads), [&]() noexcept { start = Clock::now(); });
  {
    std::vector<std::jthread> threads;
    for (unsigned thread = 0; thread < setup.threads; ++thread) {
      threads.emplace_back([&, thread] {
        std::function<std::uint64_t()> step;
        try {
          step = make_step(thread);
        } catch (...) {
          error.store(std::current_exception());
          failed = true;
        }
        prepared.arrive_and_wait();
        try {
          std::uint64_t moved = 0;
          do {
            if (failed) return;
            moved += bytes_of(setup, step);
          } while (Clock::now() - start < setup.duration);
          bytes += moved;
        } catch (...) {
          error.store(std::current_exception());
          failed = true;
        }
      });
    }
  }
  error.rethrow();
  return static_cast<double>(bytes) / std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

double measure_decode_limit(const Field& data, const LimitSetup& setup) {
  const ChunkReader& reader = *data.reader;
  const SampleMap& map = data.map;
  std::atomic<std::uint64_t> next_chunk{0};

  struct Thread {
    RotatingSlots slots;
    ByteBuffer chunk;
    ReadScratch scratch;
  };
  return bytes_per_second(setup, [&](unsigned) {
    auto thread = std::make_shared<Thread>(
        Thread{RotatingSlots(setup.slot_bytes / setup.threads, map.row_bytes()),
               ByteBuffer(static_cast<std::size_t>(reader.chunk_bytes())), ReadScratch()});
    return [&, thread]() -> std::uint64_t {
      const std::uint64_t number = next_chunk.fetch_add(1, std::memory_order_relaxed) % reader.num_chunks();
      reader.read_chunk(number, thread->chunk.span(), thread->scratch);
      const std::uint64_t piece = number % map.pieces();
      const auto [first, end] = map.rows().rows_of(number / map.pieces());
      std::vector<std::uint64_t> pieces;
      for (std::uint64_t row = first; row < end; ++row) {
        if (map.tiled()) {
          pieces.clear();
          map.append_pieces(row, EpochKey{}, pieces);
          if (!std::ranges::binary_search(pieces, piece)) continue;
        }
        if (map.rows_contiguous()) {
          std::memcpy(thread->slots.next(), map.row_in_chunk(thread->chunk.data(), row), map.row_bytes());
        } else {
          map.copy_piece(map.row_in_chunk(thread->chunk.data(), row), row, EpochKey{}, piece,
                         thread->slots.next());
        }
      }
      return reader.chunk_bytes();
    };
  });
}

double measure_gather_limit(const Field& data, const LimitSetup& setup) {
  const ChunkReader& reader = *data.reader;
  const std::size_t row_bytes = data.map.row_bytes();
  struct Thread {
    RotatingSlots slots;
    std::mt19937_64 random;
  };
  return bytes_per_second(setup, [&](unsigned number) {
    auto thread = std::make_shared<Thread>(
        Thread{RotatingSlots(setup.slot_bytes / setup.threads, row_bytes), std::mt19937_64(number)});
    return [&, thread]() -> std::uint64_t {
      const std::uint64_t row = thread->random() % data.info().rows();
      reader.read_rows(row, 1, {thread->slots.next(), row_bytes});
      return row_bytes;
    };
  });
}

}  // namespace h5feed::cli
