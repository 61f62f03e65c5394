// SPDX-License-Identifier: Apache-2.0
#include "tools/repack/dataset.hpp"

#include <fmt/format.h>
#include <tbb/parallel_pipeline.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"
#include "plan/permutation.hpp"
#include "store/filters/filters.hpp"
#include "store/format/byte_order.hpp"
#include "store/format/chunk_geometry.hpp"
#include "store/index/chunk_index.hpp"
#include "store/read/reader_factories.hpp"
#include "store/read/stored_chunks.hpp"
#include "tools/program/interrupt.hpp"
#include "tools/program/sha256.hpp"
#include "tools/repack/recut.hpp"
#include "tools/repack/scratch.hpp"
#include "tools/storage/chunk_walk.hpp"

namespace h5feed::cli {
namespace {

// A dataset of at most this share (1/4) of the memory is shuffled in memory.
constexpr std::uint64_t kSortShare = 4;

std::array<std::byte, 32> digest_of(std::span<const std::byte> values) {
  Sha256 sha256;
  sha256.update(values);
  return sha256.digest();
}

std::uint64_t product(const std::vector<std::uint64_t>& extents) {
  return std::accumulate(extents.begin(), extents.end(), std::uint64_t{1}, std::multiplies<>());
}

ChunkSeals unsealed(std::uint64_t chunks) {
  return {std::vector<std::array<std::byte, 32>>(chunks), std::vector<std::uint8_t>(chunks)};
}

// Returns the stored values of a chunk: contiguous data ends where the dataset does; chunks are whole.
std::span<const std::byte> stored_values(const RepackJob& job, const ChunkBox& box,
                                         std::span<const std::byte> values) {
  if (!job.storage.chunk_shape.empty()) return values;
  return values.first(static_cast<std::size_t>(elements_of(box) * size_of(job.info().dtype)));
}

std::uint64_t free_bytes(const RepackSettings& settings) noexcept {
  return settings.memory_bytes - std::min(settings.memory_bytes, settings.held_bytes);
}

std::vector<std::uint64_t> place_in_copy(const RepackJob& job, const ChunkBox& box) {
  std::vector<std::uint64_t> place = box.start;
  place.front() += job.first_row;
  return place;
}

// One chunk in flight in `in_chunk_order`.
struct Visit {
  std::uint64_t chunk = 0;
  ByteBuffer raw;
  ByteBuffer values;
  ReadScratch scratch;
};

// Runs `work` on chunks in parallel and `finish` in chunk order, with at most `visits` chunks in flight.
void in_chunk_order(std::uint64_t chunks, unsigned jobs, std::size_t visits,
                    const std::function<void(Visit&)>& work, const std::function<void(Visit&)>& finish) {
  std::vector<Visit> ring(visits);
  std::uint64_t next = 0;
  tbb::task_arena arena(static_cast<int>(jobs));
  arena.execute([&] {
    using tbb::filter_mode;
    tbb::parallel_pipeline(visits, tbb::make_filter<void, Visit*>(filter_mode::serial_in_order,
                                                                  [&](tbb::flow_control& control) -> Visit* {
                                                                    check_interrupted();
                                                                    if (next == chunks) {
                                                                      control.stop();
                                                                      return nullptr;
                                                                    }
                                                                    // Chunks leave in order, so the next slot
                                                                    // of the ring is free.
                                                                    Visit& visit = ring[next % ring.size()];
                                                                    visit.chunk = next++;
                                                                    return &visit;
                                                                  }) &
                                       tbb::make_filter<Visit*, Visit*>(filter_mode::parallel,
                                                                        [&](Visit* visit) {
                                                                          work(*visit);
                                                                          return visit;
                                                                        }) &
                                       tbb::make_filter<Visit*, void>(filter_mode::serial_in_order,
                                                                      [&](Visit* visit) { finish(*visit); }));
  });
}

std::size_t visits_within(const ChunkReader& reader, const RepackSettings& settings) {
  const std::uint64_t each = reader.chunk_bytes() + reader.max_stored_bytes() + reader.scratch_bytes();
  const std::uint64_t fit = free_bytes(settings) / 2 / std::max<std::uint64_t>(1, each);
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(fit, 1, 2 * std::uint64_t{settings.jobs}));
}

ChunkSeals copy_chunks(RepackJob& job, H5Writer& writer, const RepackSettings& settings,
                       const Advance& advance) {
  const ChunkReader& reader = *job.reader;
  const StoredChunks& stored = StoredChunks::of(reader);
  ChunkSeals seals = unsealed(settings.verify ? reader.num_chunks() : 0);
  const auto fetch = [&](Visit& visit) {
    if (!stored.written(visit.chunk)) return;
    const auto bytes = static_cast<std::size_t>(reader.stored_bytes(visit.chunk));
    visit.raw.resize_discard(bytes);
    reader.fetch_chunk(visit.chunk, visit.raw.span().first(bytes));
    // Decoding here finds and names a chunk that cannot be decoded.
    if (!settings.verify && bytes > 0) return;
    visit.values.resize_discard(static_cast<std::size_t>(reader.chunk_bytes()));
    const auto values = visit.values.span().first(static_cast<std::size_t>(reader.chunk_bytes()));
    reader.read_chunk(visit.chunk, values, visit.scratch);
    if (!settings.verify) return;
    seals.digests[visit.chunk] = digest_of(values);
    seals.written[visit.chunk] = 1;
  };
  const auto write = [&](Visit& visit) {
    const ChunkBox box = box_of_chunk(visit.chunk, reader.chunk_shape(), reader.info().shape);
    if (stored.written(visit.chunk)) {
      const std::uint64_t bytes = reader.stored_bytes(visit.chunk);
      writer.write_chunk(job.info().path, place_in_copy(job, box),
                         visit.raw.span().first(static_cast<std::size_t>(bytes)),
                         stored.filter_mask(visit.chunk));
      job.stored_bytes += bytes;
    }
    advance(elements_of(box) * size_of(job.info().dtype));
  };
  in_chunk_order(reader.num_chunks(), settings.jobs, visits_within(reader, settings), fetch, write);
  return seals;
}

// Holds decoded rows in memory: small datasets need no scratch file.
class RowMemory final : public ByteSource {
 public:
  explicit RowMemory(std::uint64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {}
  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
  }
  std::uint64_t size() const noexcept override { return bytes_.size(); }
  std::byte* at(std::uint64_t offset) noexcept { return bytes_.data() + offset; }

 private:
  ByteBuffer bytes_;
};

bool sorts_in_memory(const RepackJob& job, const RepackSettings& settings) {
  return job.info().total_bytes() <= free_bytes(settings) / kSortShare;
}

void check_encoders(const RepackJob& job) {
  for (const FilterSpec& filter : job.storage.filters) {
    if (FilterPipeline::encodes(filter)) continue;
    throw OptionError(fmt::format(
        "{}: h5feed cannot write its filter {} ({}); choose another, such as --filter shuffle+gzip:4",
        job.info().place(), filter.id, filter.name.empty() ? "unknown" : filter.name));
  }
}

// Returns a reader of the source's values with rows in their new order.
std::shared_ptr<const ChunkReader> shuffled_rows(const RepackJob& job, const RepackSettings& settings) {
  DatasetInfo info = job.info();
  const std::uint64_t row_bytes = info.row_bytes();
  const Permutation order(info.rows(), *job.shuffle_key);
  std::shared_ptr<RowMemory> memory;
  std::shared_ptr<ScratchFile> scratch;
  if (sorts_in_memory(job, settings)) {
    memory = std::make_shared<RowMemory>(info.total_bytes());
  } else {
    scratch = std::make_shared<ScratchFile>(settings.out, info.total_bytes());
  }
  const auto put = [&](TargetChunk& chunk) {
    for (std::uint64_t i = 0; i < chunk.box.count.front(); ++i) {
      const std::uint64_t to = order.position_of(chunk.box.start.front() + i) * row_bytes;
      const auto row = chunk.values.span().subspan(static_cast<std::size_t>(i * row_bytes),
                                                   static_cast<std::size_t>(row_bytes));
      if (memory != nullptr) {
        std::memcpy(memory->at(to), row.data(), row.size());
      } else {
        scratch->write(to, row);
      }
    }
  };
  const RecutTarget target{.every_chunk = true, .encode = put, .write = [](TargetChunk&) {}};
  const RecutShapes to_rows{info.shape, job.reader->chunk_shape(), rows_as_chunks(info), size_of(info.dtype)};
  recut(*job.reader, to_rows, *job.sort_plan, settings.out, target, [](std::uint64_t) {});
  info.byte_swapped = false;
  info.filters.clear();
  info.chunk_shape.clear();
  info.layout = StorageLayout::contiguous;
  std::shared_ptr<const ByteSource> rows = scratch;
  if (memory != nullptr) rows = memory;
  return make_flat_reader(std::move(info), 0, std::move(rows));
}

ChunkSeals write_recut(RepackJob& job, H5Writer& writer, const RepackSettings& settings,
                       const Advance& advance) {
  const DatasetInfo& info = job.info();
  const bool chunked = !job.storage.chunk_shape.empty();
  const std::uint64_t chunk_bytes = product(job.shapes.target_chunk) * job.shapes.element_bytes;
  const FilterPipeline filters(job.storage.filters, static_cast<std::size_t>(chunk_bytes),
                               job.shapes.element_bytes);
  ChunkSeals seals =
      unsealed(settings.verify ? product(chunk_grid(job.shapes.shape, job.shapes.target_chunk)) : 0);
  const StoredChunks& stored = StoredChunks::of(*job.reader);
  bool any_written = false;
  for (std::uint64_t chunk = 0; chunk < job.reader->num_chunks() && !any_written; ++chunk) {
    any_written = stored.written(chunk);
  }
  const auto reader = job.shuffle_key ? shuffled_rows(job, settings) : job.reader;
  const RecutTarget target{
      // Space of contiguous data is allocated for all of it or for none.
      .every_chunk = !chunked && any_written,
      .encode =
          [&](TargetChunk& chunk) {
            if (settings.verify) {
              seals.digests[chunk.number] = digest_of(stored_values(job, chunk.box, chunk.values.span()));
              seals.written[chunk.number] = 1;
            }
            if (!chunked) return;
            if (job.byte_swapped) swap_byte_order(chunk.values.span(), job.shapes.element_bytes);
            if (!filters.empty()) chunk.encoded = filters.encode(chunk.values.span());
          },
      .write =
          [&](TargetChunk& chunk) {
            const std::span<const std::byte> bytes = filters.empty()
                                                         ? stored_values(job, chunk.box, chunk.values.span())
                                                         : std::span(chunk.encoded);
            job.stored_bytes += bytes.size();
            if (chunked) {
              writer.write_chunk(info.path, place_in_copy(job, chunk.box), bytes);
            } else {
              writer.write_rows(info.path, place_in_copy(job, chunk.box).front(), chunk.box.count.front(),
                                bytes);
            }
          }};
  recut(*reader, job.shapes, *job.plan, settings.out, target, advance);
  return seals;
}

}  // namespace

std::vector<std::uint64_t> target_chunk_shape(const DatasetInfo& info, const CopiedStorage& storage) {
  return storage.chunk_shape.empty() ? rows_as_chunks(info) : storage.chunk_shape;
}

std::uint64_t bytes_of_chunk_tables(const std::vector<RepackJob>& jobs, bool verify) {
  std::uint64_t bytes = 0;
  for (const RepackJob& job : jobs) {
    const DatasetInfo& info = job.info();
    const bool verified = verify && info.total_bytes() > 0;
    bytes += chunk_table_bytes(
        info.layout == StorageLayout::chunked ? job.reader->num_chunks() : 0,
        verified ? product(chunk_grid(info.shape, target_chunk_shape(info, job.storage))) : 0);
  }
  return bytes;
}

RepackSettings settings_for(const std::vector<RepackJob>& jobs, RepackSettings settings) {
  settings.held_bytes = bytes_of_chunk_tables(jobs, settings.verify);
  if (holds_chunk_tables(settings.memory_bytes, settings.held_bytes)) return settings;
  throw OptionError(fmt::format("--memory {} cannot hold the places of all chunks ({}); give at least {}",
                                format_bytes(settings.memory_bytes), format_bytes(settings.held_bytes),
                                format_bytes_ceil(memory_for_chunk_tables(settings.held_bytes))));
}

void plan_job(RepackJob& job, const RepackSettings& settings) {
  require_grid(*job.reader);
  const DatasetInfo& info = job.info();
  job.plan.reset();
  job.shapes = {info.shape, job.reader->chunk_shape(), target_chunk_shape(info, job.storage),
                size_of(info.dtype)};
  const bool same = info.layout == StorageLayout::chunked && info.chunk_shape == job.storage.chunk_shape &&
                    info.unfiltered_edge_chunks == job.storage.unfiltered_edge_chunks &&
                    std::equal(info.filters.begin(), info.filters.end(), job.storage.filters.begin(),
                               job.storage.filters.end(), [](const FilterSpec& a, const FilterSpec& b) {
                                 return a.id == b.id && a.params == b.params;
                               });
  if ((same && job.reader->direct() && !job.shuffle_key) || info.total_bytes() == 0) return;
  check_encoders(job);
  const std::uint64_t target_bytes = product(job.shapes.target_chunk) * job.shapes.element_bytes;
  const FilterPipeline filters(job.storage.filters, static_cast<std::size_t>(target_bytes),
                               job.shapes.element_bytes);
  // Encoding holds the values, a copy, and the output of a stage.
  const std::uint64_t encode_bytes =
      filters.empty() ? target_bytes : 2 * target_bytes + 2 * filters.max_encoded_bytes();
  RecutLimits limits{.memory_bytes = settings.memory_bytes,
                     .held_bytes = settings.held_bytes,
                     .jobs = settings.jobs,
                     .decode_bytes = job.reader->chunk_bytes() + job.reader->scratch_bytes(),
                     .encode_bytes = encode_bytes};
  if (!job.shuffle_key) {
    job.plan = plan_recut(job.shapes, limits, info.place());
    return;
  }
  if (sorts_in_memory(job, settings)) limits.held_bytes += info.total_bytes();
  const std::vector<std::uint64_t> rows = rows_as_chunks(info);
  const std::uint64_t rows_bytes = product(rows) * job.shapes.element_bytes;
  RecutShapes to_rows = job.shapes;
  to_rows.target_chunk = rows;
  limits.encode_bytes = rows_bytes;
  job.sort_plan = plan_recut(to_rows, limits, info.place());
  job.shapes.source_chunk = rows;
  limits.decode_bytes = rows_bytes;
  limits.encode_bytes = encode_bytes;
  job.plan = plan_recut(job.shapes, limits, info.place());
}

std::uint64_t memory_bytes_of(const RepackJob& job, const RepackSettings& settings) {
  std::uint64_t bytes = job.plan ? job.plan->memory_bytes : settings.held_bytes;
  if (job.sort_plan) bytes = std::max(bytes, job.sort_plan->memory_bytes);
  return bytes;
}

std::uint64_t scratch_bytes_of(const RepackJob& job, const RepackSettings& settings) {
  const std::uint64_t bytes = job.info().total_bytes();
  std::uint64_t scratch = job.plan && job.plan->scratch ? bytes : 0;
  if (job.shuffle_key && !sorts_in_memory(job, settings)) scratch += bytes;
  return job.sort_plan && job.sort_plan->scratch ? std::max(scratch, 2 * bytes) : scratch;
}

ChunkSeals write_job(RepackJob& job, H5Writer& writer, const RepackSettings& settings,
                     const Advance& advance) {
  if (job.info().total_bytes() == 0) return {};
  return job.plan ? write_recut(job, writer, settings, advance) : copy_chunks(job, writer, settings, advance);
}

namespace {

std::array<std::byte, 32> digest_of_chunk(const RepackJob& job, const ChunkReader& copy, Visit& visit) {
  const ChunkBox box = box_of_chunk(visit.chunk, copy.chunk_shape(), copy.info().shape);
  visit.values.resize_discard(static_cast<std::size_t>(copy.chunk_bytes()));
  const auto values = visit.values.span().first(static_cast<std::size_t>(copy.chunk_bytes()));
  copy.read_chunk(visit.chunk, values, visit.scratch);
  return digest_of(stored_values(job, box, values));
}

// Calls `work` for each chunk of the copy, in parallel, and `advance` in turn.
void visit_copy(const ChunkReader& copy, const RepackSettings& settings, const Advance& advance,
                const std::function<void(Visit&)>& work) {
  const auto account = [&](Visit& visit) {
    advance(elements_of(box_of_chunk(visit.chunk, copy.chunk_shape(), copy.info().shape)) *
            size_of(copy.info().dtype));
  };
  in_chunk_order(copy.num_chunks(), settings.jobs, visits_within(copy, settings), work, account);
}

}  // namespace

ChunkSeals seals_of(const RepackJob& job, const ChunkReader& copy, const RepackSettings& settings,
                    const Advance& advance) {
  if (job.info().total_bytes() == 0) return {};
  ChunkSeals seals = unsealed(copy.num_chunks());
  const StoredChunks& stored = StoredChunks::of(copy);
  visit_copy(copy, settings, advance, [&](Visit& visit) {
    if (!stored.written(visit.chunk)) return;
    seals.digests[visit.chunk] = digest_of_chunk(job, copy, visit);
    seals.written[visit.chunk] = 1;
  });
  return seals;
}

void verify_job(const RepackJob& job, const ChunkReader& copy, const ChunkSeals& seals,
                const RepackSettings& settings, const Advance& advance) {
  if (job.info().total_bytes() == 0) return;
  const auto fail = [&](std::uint64_t chunk) {
    throw ChunkError(
        fmt::format("{}: its values differ from the source's; check memory and storage, then repeat",
                    copy.describe_chunk(chunk)));
  };
  if (copy.num_chunks() != seals.digests.size()) fail(0);
  const StoredChunks& stored = StoredChunks::of(copy);
  visit_copy(copy, settings, advance, [&](Visit& visit) {
    // All rows of contiguous data exist as soon as any was written.
    if (seals.written[visit.chunk] == 0) {
      if (stored.written(visit.chunk)) fail(visit.chunk);
      return;
    }
    if (!stored.written(visit.chunk)) fail(visit.chunk);
    if (digest_of_chunk(job, copy, visit) != seals.digests[visit.chunk]) fail(visit.chunk);
  });
}

}  // namespace h5feed::cli
