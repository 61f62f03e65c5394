// SPDX-License-Identifier: Apache-2.0
#include "tools/check/estimate.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/byte_buffer.hpp"
#include "base/byte_units.hpp"
#include "base/clock.hpp"
#include "h5feed/error.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/mapped_reader.hpp"
#include "store/read/reader_factories.hpp"
#include "tools/program/interrupt.hpp"
#include "tools/program/output.hpp"
#include "tools/program/sha256.hpp"
#include "tools/storage/chunk_walk.hpp"

namespace h5feed::cli {
namespace {

// Datasets below both bounds take too little time to matter.
constexpr std::uint64_t kLarge = 64 * kMiB;
constexpr std::uint64_t kManyChunks = 65'536;

double hash_seconds_per_byte() {
  ByteBuffer values(kMiB);
  std::fill(values.span().begin(), values.span().end(), std::byte{1});
  const Clock::time_point begin = Clock::now();
  Sha256().update(values.span());
  return seconds_since(begin) / static_cast<double>(values.size());
}

// Predicts the seconds for one dataset that is large enough to matter; nullopt if the time was over before
// its first chunk.
std::optional<double> measured_seconds(const std::shared_ptr<H5File>& file, const DatasetInfo& info,
                                       const CheckSettings& settings, double hash_s_per_byte) {
  constexpr double kAmple = 0.03;
  const Clock::time_point begin = Clock::now();
  std::shared_ptr<const ChunkReader> reader;
  {
    const ScopedLogSink quiet(ignore_log);
    reader = on_grid(open_chunk_reader(file, info));
  }
  const double open_s = seconds_since(begin);
  const auto chunks = static_cast<double>(reader->num_chunks());
  PieceTimer timer(reader->num_chunks(), kAmple);
  while (timer.next() > 0) {
    CheckSettings few = settings;
    few.sample = static_cast<double>(timer.next()) / chunks;
    // A share of 1 would also hash all chunks.
    if (few.sample >= 1) few.sample = std::nextafter(1.0, 0.0);
    const Clock::time_point round = Clock::now();
    const CheckResult result = check_dataset(*file, *reader, few, [](std::uint64_t) {});
    timer.add(seconds_since(round), result.visited);
  }
  if (chunks > 0 && timer.seconds_each() == 0) return std::nullopt;
  if (settings.sample < 1) return open_s + timer.seconds_each() * chunks * settings.sample;
  // If rows of chunks exceed the memory, their chunks are visited several times.
  const auto visits = static_cast<double>(ChunkWalk(*reader, settings.memory_bytes / 4).visits());
  return open_s +
         std::max(timer.seconds_each() * visits, hash_s_per_byte * static_cast<double>(info.total_bytes()));
}

}  // namespace

void PieceTimer::add(double seconds, std::uint64_t done) noexcept {
  if (done > 0) seconds_each_ = seconds / static_cast<double>(done);
  if (done < next_) {
    next_ = 0;
    return;
  }
  const bool first = rounds_++ == 0;
  // If a single piece takes a second, one-time costs do not matter.
  const bool enough = seconds >= (first ? 1.0 : ample_s_) || (!first && next_ == pieces_);
  next_ = enough ? 0 : first ? 1 : std::min(pieces_, next_ * kGrowth);
}

CheckEstimate estimate_check(CheckedFiles& files, const std::vector<CheckEntry>& entries,
                             const CheckSettings& settings, std::chrono::nanoseconds limit) {
  Clock::time_point end = Clock::now() + limit;
  if (settings.deadline) end = std::min(end, *settings.deadline);
  const double hash_s_per_byte = hash_seconds_per_byte();
  std::vector<double> seconds(entries.size(), -1);
  double measured_s = 0, measured_bytes = 0;
  bool large = false;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const CheckEntry& entry = entries[i];
    if (!entry.info || !entry.problem.empty() || entry.images) continue;
    if (entry.info->total_bytes() < kLarge && entry.chunks < kManyChunks) continue;
    large = true;
    if (Clock::now() >= end) continue;
    check_interrupted();
    try {
      const std::optional<double> measured =
          measured_seconds(files.open(entry.file), *entry.info, settings, hash_s_per_byte);
      if (!measured) continue;
      seconds[i] = *measured;
    } catch (const Error&) {
      continue;  // the check itself will report it
    }
    measured_s += seconds[i];
    measured_bytes += static_cast<double>(entry.info->total_bytes());
  }
  const double otherwise =
      measured_bytes > 0 ? measured_s / measured_bytes : hash_s_per_byte * settings.sample;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (seconds[i] >= 0) continue;
    const bool counts = entries[i].info && entries[i].problem.empty();
    seconds[i] = counts ? otherwise * static_cast<double>(entries[i].info->total_bytes()) : 0;
  }
  return {.seconds = std::move(seconds), .measured = !large || measured_bytes > 0};
}

std::optional<double> TimeForecast::revise(double done, double elapsed_s) noexcept {
  constexpr double kSettled = 5, kFactor = 2;
  if (elapsed_s < kSettled || done <= 0) return std::nullopt;
  const double all_s = elapsed_s / done;
  if (all_s <= kFactor * said_s_ && all_s >= said_s_ / kFactor) return std::nullopt;
  said_s_ = all_s;
  return all_s;
}

}  // namespace h5feed::cli
