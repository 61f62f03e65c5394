// SPDX-License-Identifier: Apache-2.0
#include "cuda/memory/row_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/byte_units.hpp"
#include "cuda/memory/row_store_list.hpp"
#include "cuda/runtime/handles.hpp"
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

// Kept samples that are asked for with one batch, at least; other threads wait meanwhile.
constexpr std::size_t kMostLookedAt = 1024;

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

void warn(int device, std::string_view what) {
  log(LogLevel::warning, fmt::format("gpu_cache_bytes: {} on cuda:{}", what, device));
}

void warn_gone(int device, std::uint64_t bytes, std::string_view why) {
  warn(device, fmt::format("{} go back and are not taken again, as {}", format_bytes(bytes), why));
}

// Begins to free at half the reserve, so that blocks do not go because of a few bytes.
bool enough(const FreeMemory& memory) noexcept { return !memory.known || memory.free >= memory.reserve / 2; }

}  // namespace

RowStore::RowStore(const Settings& settings, std::shared_ptr<MemoryLedger> ledger)
    : settings_(settings),
      ledger_(std::move(ledger)),
      pitch_((std::max<std::size_t>(settings.row_bytes, 1) + kRowAlignment - 1) / kRowAlignment *
             kRowAlignment),
      rows_left_(settings.samples) {
  if (!settings_.size.automatic()) {
    const MutexLock lock(fill_mutex_);
    if (settings_.size.bytes() < pitch_) {
      warn(settings_.device, fmt::format("{} do not hold one sample of {}, so none is kept",
                                         format_bytes(settings_.size.bytes()), format_bytes(pitch_)));
    } else {
      open(settings_.size.bytes());
    }
  }
  list_row_store(settings_.device, *this);  // last: the destructor of a store that failed does not run
}

RowStore::~RowStore() { unlist_row_store(settings_.device, *this); }

// Permits the store to take so many bytes.
void RowStore::open(std::uint64_t bytes) {
  left_ = bytes;
  const std::uint64_t useful = std::min(bytes / pitch_, rows_left_) * pitch_;
  block_bytes_ =
      std::max<std::uint64_t>(std::min(kMostBlockBytes, useful / kBlocks), aligned_for_device(pitch_));
  growing_ = true;
}

std::shared_ptr<RowStore::Rows> RowStore::find(std::span<const std::int64_t> samples) const {
  std::shared_ptr<Rows> rows;
  const MutexLock lock(mutex_);
  if (table_.num_samples() == 0) return nullptr;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    KeptRow row = table_.find(samples[i]);
    if (!row) continue;
    if (!rows) rows = std::make_shared<Rows>(samples.size());
    (*rows)[i] = std::move(row);
  }
  return rows;
}

bool RowStore::holds(std::int64_t sample) const {
  const MutexLock lock(mutex_);
  return table_.contains(sample);
}

std::uint64_t RowStore::bytes() const {
  const MutexLock lock(mutex_);
  return table_.bytes();
}

void RowStore::read_on(cudaStream_t stream, const CallPlace& place) {
  const MutexLock lock(readers_mutex_);
  readers_.read_on(stream, place);
}

// Returns the samples that are not kept, each sample once.
std::vector<RowStore::Newcomer> RowStore::not_kept(std::span<const std::int64_t> samples) const {
  std::vector<Newcomer> newcomers;
  std::unordered_set<std::int64_t> seen;
  const MutexLock lock(mutex_);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (!table_.contains(samples[i]) && seen.insert(samples[i]).second) newcomers.push_back({i});
  }
  return newcomers;
}

// Notes which kept samples are due at turn `after` or later.
void RowStore::mark(std::span<const std::int64_t> samples, std::uint64_t after) {
  if (samples.empty()) return;
  const Foreseen now = settings_.foresee(samples, after);
  const MutexLock lock(mutex_);
  for (std::size_t i = 0; i < samples.size(); ++i) table_.mark(samples[i], now.due[i]);
}

// Fills in which newcomers are due. Where there are not enough rows, asks for kept samples, too: for those
// that the batch was served, and in every epoch for all, a part of them with each batch.
void RowStore::foresee(std::span<const std::int64_t> samples, std::span<const std::int64_t> served,
                       std::uint64_t end_turn, std::vector<Newcomer>& newcomers) {
  if (!settings_.foresee) return;
  std::vector<std::int64_t> asked;
  for (const Newcomer& newcomer : newcomers) asked.push_back(samples[newcomer.number]);
  const Foreseen now = settings_.foresee(asked, end_turn);
  for (std::size_t i = 0; i < newcomers.size(); ++i) newcomers[i].due = now.due[i];
  const std::size_t most = std::max(kMostLookedAt, 4 * (samples.size() + served.size()));
  {
    const MutexLock lock(mutex_);
    if (table_.num_free() >= newcomers.size()) return;
    if (std::exchange(foreseen_end_, now.end) != now.end) table_.begin_tour();
    asked = table_.next_of_tour(most);
  }
  mark(asked, 0);
  mark(served, end_turn);
}

// Claims rows for newcomers, first for those that are due, and removes those without a row from the list.
RowTable::Claim RowStore::claim(std::vector<Newcomer>& newcomers) {
  const auto others =
      std::stable_partition(newcomers.begin(), newcomers.end(), [](const Newcomer& one) { return one.due; });
  const auto due = static_cast<std::size_t>(others - newcomers.begin());
  RowTable::Claim claim;
  {
    const MutexLock lock(mutex_);
    claim = table_.claim(newcomers.size(), due);
  }
  newcomers.resize(claim.places.size());
  // Neighbours in the batch become neighbours in the block, so that they travel together.
  std::ranges::sort(newcomers, {}, &Newcomer::number);
  std::ranges::sort(claim.places);
  return claim;
}

// Takes blocks until so many rows are free; returns whether there are any rows.
bool RowStore::make_room(std::size_t rows, const CallPlace& place) {
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (table_.num_free() >= rows) return true;
    }
    if (grow(place)) continue;
    const MutexLock lock(mutex_);
    return table_.has_blocks();
  }
}

// Takes a block; returns false if the store is full.
bool RowStore::grow(const CallPlace& place) {
  if (!growing_) return false;
  const std::uint64_t rows =
      std::min(std::min(block_bytes_, left_) / kDeviceAlignment * kDeviceAlignment / pitch_, rows_left_);
  const std::uint64_t bytes = aligned_for_device(rows * pitch_);
  if (rows == 0) {
    growing_ = false;
    return false;
  }
  const FreeMemory memory = memory_now();
  if (!memory.known) return false;  // until the next batch
  if (memory.free < bytes + memory.reserve) {
    growing_ = false;
    say(settings_.device, fmt::format("no further block of {}, to leave {} free", format_bytes(bytes),
                                      format_bytes(memory.reserve)));
    return false;
  }
  std::shared_ptr<RowBlock> block;
  try {
    block = std::make_shared<RowBlock>(rows, pitch_, place, ledger_);
  } catch (const CudaError& error) {
    if (error.code() != cudaErrorMemoryAllocation) throw;
    growing_ = false;
    say(settings_.device,
        fmt::format("no further block of {}, which cannot be allocated", format_bytes(bytes)));
    return false;
  }
  {
    const MutexLock lock(mutex_);
    table_.add(std::move(block));
  }
  left_ -= bytes;
  rows_left_ -= rows;
  return true;
}

// Enqueues the copies of the newcomers to the rows claimed for them: neighbours at once.
void RowStore::write(const RowTable::Claim& claim, std::span<const Newcomer> newcomers, const std::byte* rows,
                     const CallPlace& place) {
  must_wait_ = must_wait_ || claim.replaces;
  if (must_wait_) {
    const MutexLock lock(readers_mutex_);
    readers_.wait(settings_.copies, place);
    must_wait_ = false;
  }
  const std::size_t row_bytes = settings_.row_bytes;
  for (std::size_t i = 0; i < newcomers.size();) {
    const std::size_t number = newcomers[i].number;
    const RowTable::Place to = claim.places[i];
    std::size_t run = 1;
    while (i + run < newcomers.size() && newcomers[i + run].number == number + run &&
           claim.places[i + run].block == to.block && claim.places[i + run].row == to.row + run)
      ++run;
    std::byte* address = nullptr;
    {
      const MutexLock lock(mutex_);
      address = table_.address(to);
    }
    const std::byte* const from = rows + number * row_bytes;
    if (run == 1 || pitch_ == row_bytes) {  // rows of 2 GiB and more cannot be copied as a rectangle
      check(cudaMemcpyAsync(address, from, run * row_bytes, cudaMemcpyDeviceToDevice, settings_.copies),
            "cudaMemcpyAsync", place);
    } else {
      check(cudaMemcpy2DAsync(address, pitch_, from, row_bytes, row_bytes, run, cudaMemcpyDeviceToDevice,
                              settings_.copies),
            "cudaMemcpy2DAsync", place);
    }
    i += run;
  }
}

void RowStore::keep(std::span<const std::int64_t> samples, std::span<const std::int64_t> served,
                    std::uint64_t end_turn, const std::byte* rows, const CallPlace& place) {
  const MutexLock filling(fill_mutex_);
  std::vector<Newcomer> newcomers = not_kept(samples);
  if (newcomers.empty() || !make_room(newcomers.size(), place)) return;
  foresee(samples, served, end_turn, newcomers);
  const RowTable::Claim claimed = claim(newcomers);
  std::size_t filed = 0;
  try {
    write(claimed, newcomers, rows, place);
    const MutexLock lock(mutex_);
    for (; filed < newcomers.size(); ++filed)
      table_.put(claimed.places[filed], samples[newcomers[filed].number], newcomers[filed].due);
  } catch (...) {
    const MutexLock lock(mutex_);
    for (; filed < newcomers.size(); ++filed) table_.release(claimed.places[filed]);
    throw;
  }
}

void RowStore::delivered(std::size_t served) noexcept {
  served_.fetch_add(served, std::memory_order_relaxed);
  const std::uint64_t deliveries = deliveries_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (deliveries % kFirstBatches != 0) return;
  if (deliveries == kFirstBatches && settings_.size.automatic()) {
    open_automatically();
  } else {
    keep_memory_free();
  }
}

// Permits the store to take all memory that is free but for the reserve.
void RowStore::open_automatically() noexcept {
  try {
    const FreeMemory memory = memory_now();
    const std::uint64_t bytes = memory.free > memory.reserve ? memory.free - memory.reserve : 0;
    const MutexLock lock(fill_mutex_);
    open(bytes);
    say(settings_.device, fmt::format("up to {} for samples", format_bytes(left_)));
  } catch (const std::exception&) {
    // The store stays as it is; the next batches meet an error of the device themselves.
  }
}

void RowStore::keep_memory_free() noexcept {
  try {
    const DeviceGuard guard(settings_.device);
    if (enough(memory_now())) return;
    const MutexLock lock(fill_mutex_);
    const FreeMemory memory = memory_now();  // another thread may have freed some meanwhile
    const std::uint64_t coming = retired_bytes();
    std::uint64_t returned = coming;
    if (enough({memory.free + coming, memory.reserve, memory.known})) return;
    while (memory.free + returned < memory.reserve) {
      std::uint64_t bytes = free_block();
      if (bytes == 0) bytes = retire_block();
      if (bytes == 0) break;
      returned += bytes;
    }
    if (returned > coming) warn_gone(settings_.device, returned - coming, "memory is short");
  } catch (const std::exception&) {
    // The store stays as it is; the next batches meet an error of the device themselves.
  }
}

bool RowStore::give_back() {
  const MutexLock lock(fill_mutex_);
  const std::uint64_t bytes = free_block();
  const std::uint64_t later = bytes > 0 ? 0 : retire_block();
  if (bytes + later > 0) warn_gone(settings_.device, bytes + later, "an allocation failed");
  return bytes > 0;
}

// Frees the newest block of those whose addresses no batch uses. Returns its bytes, 0 if there was none.
std::uint64_t RowStore::free_block() {
  growing_ = false;
  while (true) {
    std::shared_ptr<RowBlock> block;
    {
      const MutexLock lock(mutex_);
      block = table_.drop_newest_idle();
    }
    if (!block) return 0;
    // A batch that was planned with the block may use its addresses since: the block then goes with the
    // batch.
    if (block->free_memory(settings_.copies, {settings_.device})) return block->num_bytes;
    retired_.push_back(block);
  }
}

// Removes the newest block although batches use its addresses: it is freed with the last of them. Returns its
// bytes, 0 if there was none.
std::uint64_t RowStore::retire_block() {
  std::shared_ptr<RowBlock> block;  // destroyed after the lock
  const MutexLock lock(mutex_);
  block = table_.drop_newest();
  if (!block) return 0;
  retired_.push_back(block);
  return block->num_bytes;
}

// Returns the bytes of blocks that will be freed with the batches that use them.
std::uint64_t RowStore::retired_bytes() {
  std::erase_if(retired_, [](const auto& block) { return block.expired(); });
  std::uint64_t bytes = 0;
  for (const auto& block : retired_) {
    if (const auto alive = block.lock()) bytes += alive->num_bytes;
  }
  return bytes;
}

}  // namespace h5feed::gpu
