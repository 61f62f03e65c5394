// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/limits.hpp"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
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
#include "base/threads/first_error.hpp"
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
  const auto fail = [&] {
    error.store(std::current_exception());
    failed = true;
  };
  const auto work = [&](unsigned thread) {
    std::function<std::uint64_t()> step;
    try {
      step = make_step(thread);
    } catch (...) {
      fail();
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
      fail();
    }
  };
  {
    std::vector<std::jthread> threads;
    try {
      while (threads.size() < setup.threads)
        threads.emplace_back(work, static_cast<unsigned>(threads.size()));
    } catch (...) {
      fail();
      // The threads that run wait for those that the system does not start.
      for (std::size_t i = threads.size(); i < setup.threads; ++i) prepared.arrive_and_drop();
    }
  }
  error.rethrow();
  return static_cast<double>(bytes) / std::chrono::duration<double>(Clock::now() - start).count();
}

// Copies the rows of a decoded chunk that are its samples, or their parts, to the slots.
void copy_rows(const SampleMap& map, std::uint64_t number, const std::byte* chunk, RotatingSlots& slots) {
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
      std::memcpy(slots.next(), map.row_in_chunk(chunk, row), map.row_bytes());
    } else {
      map.copy_piece(map.row_in_chunk(chunk, row), row, EpochKey{}, piece, slots.next());
    }
  }
}

// Copies the rows of a decoded block of a sparse matrix to the slots, as they are delivered.
void copy_sparse_rows(const SparseData& sparse, std::uint64_t number, const std::byte* block,
                      RotatingSlots& slots) {
  const auto [first, end] = sparse.reader->rows().rows_of(number);
  const std::size_t value_bytes = size_of(sparse.reader->info().dtype);
  for (std::uint64_t row = first; row < end; ++row) {
    std::byte* const slot = slots.next();
    const SparseReader::Row values = sparse.reader->row_of(block, row);
    if (sparse.format == SparseFormat::dense) {
      sparse.expand(values, slot);
      continue;
    }
    if (values.columns.empty()) continue;
    std::memcpy(slot, values.values, values.columns.size() * value_bytes);
    std::memcpy(slot + values.columns.size() * value_bytes, values.columns.data(),
                values.columns.size_bytes());
  }
}

// Returns the bytes of the largest sample.
std::size_t slot_bytes_of(const Field& data, const SparseData* sparse) {
  if (sparse == nullptr || sparse->format == SparseFormat::dense) return data.map.row_bytes();
  const std::size_t value_bytes = size_of(data.info().dtype) + sizeof(std::int32_t);
  return std::max<std::size_t>(1, static_cast<std::size_t>(sparse->reader->longest()) * value_bytes);
}

// The chunks of one set of a mixture, and which share of all turns they get.
struct SetTurns {
  std::uint64_t first_chunk = 0;
  std::uint64_t chunks = 1;
  double share = 0;
  double end = 0;  // sum of the shares up to this set
};

}  // namespace

std::function<std::uint64_t(std::uint64_t turn)> mixed_chunks(const DatasetState& dataset,
                                                              const std::vector<MixedSetPlan>& sets) {
  const RowLayout& rows = dataset.data.map.rows();
  std::vector<SetTurns> turns;
  double all = 0;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const MixtureSet& set = dataset.mixture->sets()[i];
    // The measured epochs begin with an empty cache.
    const double decodes = std::max(1.0, sets[i].decodes_per_chunk.value_or(1));
    const double visits = static_cast<double>(sets[i].chunks) * decodes;
    all += visits;
    turns.push_back({rows.chunk_of(set.first_sample), set.layout.num_chunks(), visits, all});
  }
  for (SetTurns& set : turns) {
    set.share /= all;
    set.end /= all;
  }
  return [turns, pieces = dataset.data.map.pieces()](std::uint64_t turn) {
    constexpr double kGoldenRatio = 0.6180339887498949;  // its multiples spread evenly
    const std::uint64_t visit = turn / pieces;
    const double place = std::fmod(static_cast<double>(visit) * kGoldenRatio, 1.0);
    const auto set = std::ranges::find_if(turns, [&](const SetTurns& one) { return place < one.end; });
    const SetTurns& chosen = set == turns.end() ? turns.back() : *set;
    const auto number = static_cast<std::uint64_t>(static_cast<double>(visit) * chosen.share);
    return (chosen.first_chunk + number % chosen.chunks) * pieces + turn % pieces;
  };
}

double measure_decode_limit(const Field& data, const SparseData* sparse, const LimitSetup& setup) {
  const ChunkReader& reader = *data.reader;
  std::atomic<std::uint64_t> next_turn{0};

  struct Thread {
    RotatingSlots slots;
    ByteBuffer chunk;
    ReadScratch scratch;
  };
  return bytes_per_second(setup, [&](unsigned) {
    auto thread = std::make_shared<Thread>(
        Thread{RotatingSlots(setup.slot_bytes / setup.threads, slot_bytes_of(data, sparse)),
               ByteBuffer(static_cast<std::size_t>(reader.chunk_bytes())), ReadScratch()});
    return [&, thread]() -> std::uint64_t {
      const std::uint64_t turn = next_turn.fetch_add(1, std::memory_order_relaxed);
      const std::uint64_t number = setup.chunk_of ? setup.chunk_of(turn) : turn % reader.num_chunks();
      reader.read_chunk(number, thread->chunk.span(), thread->scratch);
      if (sparse != nullptr) {
        copy_sparse_rows(*sparse, number, thread->chunk.data(), thread->slots);
      } else {
        copy_rows(data.map, number, thread->chunk.data(), thread->slots);
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
