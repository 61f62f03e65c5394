// SPDX-License-Identifier: Apache-2.0
#include "cuda/memory/row_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/byte_units.hpp"
#include "h5feed/log.hpp"

namespace h5feed::gpu {
namespace {

// Suits the widest loads of the kernels, and keeps rows that are being written out of the words of others.
constexpr std::size_t kRowAlignment = 16;
constexpr std::uint64_t kMostBlockBytes = std::uint64_t{256} << 20;
// Blocks of a small store: as many as there are to give back.
constexpr std::uint64_t kBlocks = 8;

// Deliveries after which a model has taken its memory: the optimizer's state comes with the first step, and
// work spaces with the first batches of each shape. From then on memory is looked at as often.
constexpr std::uint64_t kFirstBatches = 16;

// The share of a device's memory that is left free: one part of so many.
constexpr std::uint64_t kReserve = 16;

struct FreeMemory {
  std::uint64_t free = 0;
  std::uint64_t reserve = 0;
  bool known = false;
};

FreeMemory memory_now() noexcept {
  std::size_t free = 0, total = 0;
  const cudaError_t code = cudaMemGetInfo(&free, &total);
  ignore_error(code);
  return {free, total / kReserve, code == cudaSuccess};
}

void say(int device, std::string_view what) {
  log(LogLevel::info, fmt::format("gpu_cache_bytes: {} on cuda:{}", what, device));
}

}  // namespace

RowStore::Block::Block(std::size_t bytes, const CallPlace& place, std::shared_ptr<MemoryLedger> ledger)
    : memory(bytes, place, std::move(ledger)), num_bytes(bytes) {}

RowStore::RowStore(const Settings& settings, std::shared_ptr<MemoryLedger> ledger)
    : settings_(settings),
      ledger_(std::move(ledger)),
      pitch_((std::max<std::size_t>(settings.row_bytes, 1) + kRowAlignment - 1) / kRowAlignment *
             kRowAlignment) {
  if (settings_.size.automatic()) return;
  const MutexLock lock(fill_mutex_);
  open(settings_.size.bytes());
}

RowStore::~RowStore() = default;

void RowStore::open(std::uint64_t bytes) {
  left_ = bytes;
  block_bytes_ =
      std::max<std::uint64_t>(std::min(kMostBlockBytes, bytes / kBlocks), aligned_for_device(pitch_));
  growing_ = true;
}

std::shared_ptr<const RowStore::Rows> RowStore::find(std::span<const std::int64_t> samples) const {
  std::shared_ptr<Rows> rows;
  const MutexLock lock(mutex_);
  if (places_.empty()) return nullptr;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto found = places_.find(samples[i]);
    if (found == places_.end()) continue;
    if (!rows) rows = std::make_shared<Rows>(samples.size());
    const std::shared_ptr<Block>& block = blocks_[found->second.block];
    (*rows)[i] = Row(block, block->memory.get() + found->second.row * pitch_);
  }
  return rows;
}

bool RowStore::holds(std::int64_t sample) const {
  const MutexLock lock(mutex_);
  return places_.contains(sample);
}

std::uint64_t RowStore::bytes() const {
  const MutexLock lock(mutex_);
  std::uint64_t bytes = 0;
  for (const auto& block : blocks_) bytes += block->num_bytes;
  return bytes;
}

// Returns the numbers of the samples that are not kept, each sample once.
std::vector<std::size_t> RowStore::not_kept(std::span<const std::int64_t> samples) const {
  std::vector<std::size_t> numbers;
  std::unordered_set<std::int64_t> seen;
  const MutexLock lock(mutex_);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (!places_.contains(samples[i]) && seen.insert(samples[i]).second) numbers.push_back(i);
  }
  return numbers;
}

// Returns the free rows of the newest block; takes a new block if there are none. 0: the store is full.
std::size_t RowStore::room(const CallPlace& place) {
  if (room_ > 0) return room_;
  const std::uint64_t rows = std::min(block_bytes_, left_) / kDeviceAlignment * kDeviceAlignment / pitch_;
  const std::uint64_t bytes = aligned_for_device(rows * pitch_);
  if (rows == 0) {
    growing_ = false;
    return 0;
  }
  const FreeMemory memory = memory_now();
  if (!memory.known) return 0;  // until the next batch
  if (memory.free < bytes + memory.reserve) {
    growing_ = false;
    say(settings_.device, fmt::format("no further block of {}, to leave {} free", format_bytes(bytes),
                                      format_bytes(memory.reserve)));
    return 0;
  }
  std::shared_ptr<Block> block;
  try {
    block = std::make_shared<Block>(bytes, place, ledger_);
  } catch (const CudaError& error) {
    if (error.code() != cudaErrorMemoryAllocation) throw;
    growing_ = false;
    say(settings_.device,
        fmt::format("no further block of {}, which cannot be allocated", format_bytes(bytes)));
    return 0;
  }
  block->samples.reserve(rows);
  {
    const MutexLock lock(mutex_);
    blocks_.push_back(std::move(block));
  }
  left_ -= bytes;
  room_ = rows;
  return room_;
}

void RowStore::keep(std::span<const std::int64_t> samples, const std::byte* rows, cudaStream_t stream,
                    const CallPlace& place) {
  const MutexLock filling(fill_mutex_);
  if (!growing_) return;
  const std::vector<std::size_t> fresh = not_kept(samples);
  for (std::size_t done = 0; done < fresh.size();) {
    const std::size_t count = std::min(fresh.size() - done, room(place));
    if (count == 0) return;
    std::shared_ptr<Block> block;
    std::size_t row = 0;
    {
      const MutexLock lock(mutex_);
      block = blocks_.back();
      row = block->samples.size();
    }
    // Neighbours travel together where rows have no gaps between them.
    for (std::size_t i = done; i < done + count;) {
      std::size_t run = 1;
      while (pitch_ == settings_.row_bytes && i + run < done + count && fresh[i + run] == fresh[i] + run)
        ++run;
      check(cudaMemcpyAsync(block->memory.get() + (row + i - done) * pitch_,
                            rows + fresh[i] * settings_.row_bytes, run * settings_.row_bytes,
                            cudaMemcpyDeviceToDevice, stream),
            "cudaMemcpyAsync", place);
      i += run;
    }
    room_ -= count;
    const MutexLock lock(mutex_);
    for (std::size_t i = done; i < done + count; ++i) {
      const std::int64_t sample = samples[fresh[i]];
      places_[sample] = {static_cast<std::uint32_t>(blocks_.size() - 1),
                         static_cast<std::uint32_t>(block->samples.size())};
      block->samples.push_back(sample);
    }
    done += count;
  }
}

void RowStore::delivered(std::size_t served) noexcept {
  served_.fetch_add(served, std::memory_order_relaxed);
  const std::uint64_t deliveries = deliveries_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (deliveries % kFirstBatches != 0) return;
  try {
    if (deliveries == kFirstBatches && settings_.size.automatic()) {
      const FreeMemory memory = memory_now();
      const std::uint64_t bytes = memory.free > memory.reserve ? memory.free - memory.reserve : 0;
      const MutexLock lock(fill_mutex_);
      open(bytes);
      say(settings_.device, fmt::format("up to {} for samples", format_bytes(bytes)));
    } else {
      look_at_memory();
    }
  } catch (const std::exception&) {
    // The store stays as it is; the next batches meet an error of the device themselves.
  }
}

// Begins to give back at half the reserve, so that blocks do not go because of a few bytes.
void RowStore::look_at_memory() {
  const FreeMemory memory = memory_now();
  if (!memory.known || memory.free >= memory.reserve / 2) return;
  const MutexLock lock(fill_mutex_);
  std::uint64_t returned = 0;
  while (memory.free + returned < memory.reserve) {
    const std::uint64_t bytes = drop_newest();
    if (bytes == 0) break;
    returned += bytes;
  }
  if (returned > 0)
    say(settings_.device, fmt::format("{} go back, as memory is short", format_bytes(returned)));
}

bool RowStore::give_back() {
  const MutexLock lock(fill_mutex_);
  const std::uint64_t bytes = drop_newest();
  if (bytes == 0) return false;
  say(settings_.device, fmt::format("{} go back, as an allocation failed", format_bytes(bytes)));
  return true;
}

// Returns the bytes of the block, 0 if there was none. Freeing them waits for the device.
std::uint64_t RowStore::drop_newest() {
  growing_ = false;
  room_ = 0;
  std::shared_ptr<Block> block;  // destroyed after the lock
  const MutexLock lock(mutex_);
  if (blocks_.empty()) return 0;
  block = std::move(blocks_.back());
  blocks_.pop_back();
  for (const std::int64_t sample : block->samples) places_.erase(sample);
  return block->num_bytes;
}

}  // namespace h5feed::gpu
