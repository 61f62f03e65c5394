// SPDX-License-Identifier: Apache-2.0
#include "flow/faults/bad_data.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"
#include "h5feed/log.hpp"

namespace h5feed {
namespace {

struct Fault {
  std::string text;
  bool lasting = false;  // the stored bytes themselves are wrong
};

Fault fault_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ChunkError& corrupt) {
    return {corrupt.what(), true};
  } catch (const std::exception& other) {
    return {other.what(), false};
  }
}

// Returns the entry of a value of variable length, which belongs to no chunk. `place`: "train.h5:/boxes".
BadChunk entry_of_value(std::string_view place, std::uint64_t row, std::string_view error) {
  const std::string described = fmt::format("{}: sample {} ", place, row);
  if (error.starts_with(described)) error.remove_prefix(described.size());
  const std::size_t end_of_file = std::min(place.rfind(":/"), place.size());
  return {.place = {.file = std::string(place.substr(0, end_of_file)),
                    .path = std::string(place.substr(std::min(end_of_file + 1, place.size()))),
                    .coordinates = {row},
                    .first_row = row,
                    .end_row = row + 1},
          .reason = std::string(error)};
}

}  // namespace

BadData::BadData(const DatasetState& dataset, OnError on_error, const std::filesystem::path& list,
                 Counters& counters)
    : dataset_(dataset), on_error_(on_error), counters_(counters), fields_(dataset.num_fields()) {
  if (!list.empty()) list_.emplace(list, "bad_list");
}

bool BadData::is_of_data(const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const NoDescriptorError&) {
    return false;
  } catch (const FileError&) {
    return true;
  } catch (const ChunkError&) {
    return true;
  } catch (...) {
    return false;
  }
}

void BadData::add_chunk(ChunkKey key, std::uint64_t epoch, const std::exception_ptr& error) {
  note(&OfField::chunks, key, epoch, error, key);
}

void BadData::add_row(std::uint32_t field, std::uint64_t row, std::uint64_t epoch,
                      const std::exception_ptr& error) {
  const Field* const rows = dataset_.field(field);
  note(&OfField::rows, {field, row}, epoch, error,
       {field, rows == nullptr ? row : rows->map.chunk_of(row, 0)});
}

void BadData::note(std::map<std::uint64_t, Found> OfField::*kind, ChunkKey key, std::uint64_t epoch,
                   const std::exception_ptr& error, ChunkKey named) {
  Fault fault = fault_of(error);
  {
    const MutexLock lock(mutex_);
    Found& found = (fields_[key.field].*kind)[key.chunk];
    found.lasting = found.lasting || fault.lasting;
    found.epoch = epoch;
    last_fault_ = fault.text;
    empty_.store(false, std::memory_order_release);
    if (!named_.emplace(named.field, named.chunk).second) return;
  }
  name(named, fault.text);
}

void BadData::name(ChunkKey key, const std::string& error) {
  Counters::add(counters_.bad_chunks, 1);
  const BadChunk entry = entry_of(key, error);
  const std::string address =
      entry.place.address ? fmt::format("address {}", format_count(*entry.place.address)) : "address unknown";
  log(LogLevel::warning,
      fmt::format("{} [{}, {}; on_error = {}: samples that need it are {}]", error, address,
                  entry.place.filters.empty() ? "no filter" : entry.place.filters, name_of(on_error_),
                  on_error_ == OnError::skip ? "left out" : "replaced"));
  if (list_) list_->add(entry);
}

BadChunk BadData::entry_of(ChunkKey key, const std::string& error) const {
  if (const Field* const rows = dataset_.field(key.field)) return bad_chunk(*rows->reader, key.chunk, error);
  const RaggedField& values = *dataset_.fields[key.field - kFirstNamed].ragged;
  return entry_of_value(values.place_of(key.chunk), key.chunk, error);
}

bool BadData::has_chunk(ChunkKey key, std::uint64_t epoch) const {
  if (empty()) return false;
  const MutexLock lock(mutex_);
  const auto& chunks = fields_[key.field].chunks;
  const auto found = chunks.find(key.chunk);
  return found != chunks.end() && found->second.holds_in(epoch);
}

bool BadData::was_found(ChunkKey key) const {
  if (empty()) return false;
  const MutexLock lock(mutex_);
  return fields_[key.field].chunks.contains(key.chunk);
}

std::vector<bool> BadData::spoiled(std::span<const std::int64_t> samples, const EpochKey& key) const {
  std::vector<bool> result(samples.size());
  if (empty()) return result;
  std::vector<std::uint64_t> pieces;
  const MutexLock lock(mutex_);
  for (std::size_t field = 0; field < fields_.size(); ++field) {
    const OfField& bad = fields_[field];
    if (bad.chunks.empty() && bad.rows.empty()) continue;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (!result[i]) result[i] = spoils(bad, field, static_cast<std::uint64_t>(samples[i]), key, pieces);
    }
  }
  return result;
}

// Returns whether the sample needs one of the chunks or rows. `pieces` is memory for reuse.
bool BadData::spoils(const OfField& bad, std::size_t field, std::uint64_t sample, const EpochKey& key,
                     std::vector<std::uint64_t>& pieces) const {
  const Field* const rows = dataset_.field(field);
  std::vector<std::uint64_t> needed;
  const SampleRows& belonging =
      rows != nullptr ? rows->belonging : dataset_.fields[field - kFirstNamed].belonging;
  belonging.append(sample, key, needed);
  return std::ranges::any_of(needed, [&](std::uint64_t row) {
    return row != SampleRows::kMissing && spoils_row(bad, rows, row, key, pieces);
  });
}

// Returns whether a row needs one of the chunks or rows. `rows` is null for a ragged field.
bool BadData::spoils_row(const OfField& bad, const Field* rows, std::uint64_t row, const EpochKey& key,
                         std::vector<std::uint64_t>& pieces) {
  const auto bad_row = bad.rows.find(row);
  if (bad_row != bad.rows.end() && bad_row->second.holds_in(key.epoch)) return true;
  if (bad.chunks.empty()) return false;
  const std::uint64_t first = rows->map.chunk_of(row, 0);
  const auto begin = bad.chunks.lower_bound(first);
  const auto end = bad.chunks.lower_bound(first + rows->map.pieces());
  if (begin == end) return false;
  pieces.clear();
  if (rows->map.tiled()) rows->map.append_pieces(row, key, pieces);
  return std::any_of(begin, end, [&](const auto& chunk) {
    const bool touched = !rows->map.tiled() || std::ranges::find(pieces, chunk.first - first) != pieces.end();
    return touched && chunk.second.holds_in(key.epoch);
  });
}

std::string BadData::last_fault() const {
  const MutexLock lock(mutex_);
  return last_fault_;
}

}  // namespace h5feed
