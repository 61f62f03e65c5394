// SPDX-License-Identifier: Apache-2.0
#include "tools/repack/report.hpp"
#include "tools/repack/chunk_choice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <utility>

#include "base/byte_units.hpp"
#include "base/clock.hpp"
#include "store/filters/filters.hpp"
#include "store/format/chunk_geometry.hpp"
#include "store/read/stored_chunks.hpp"
#include "tools/measure/decode_speed.hpp"
#include "tools/program/interrupt.hpp"
#include "tools/program/sha256.hpp"
#include "tools/storage/free_space.hpp"
#include "tools/storage/hdf5plugin.hpp"

namespace h5feed::cli {
namespace {

// Throughput of storage for reading and writing at the same time. Assumed, since a measurement would cost too
// much; only the choice between the two ways of saving memory and the printed time depend on it.
constexpr double kStorageBytesPerSecond = 400e6;

constexpr std::size_t kSampleBytes = kMiB;
constexpr double kAmpleSampleBytes = 4.0 * kMiB;
constexpr std::uint64_t kMostSamples = 31, kSampleStride = 12;

// Seconds of one thread per decoded byte.
struct Costs {
  double decode = 0;
  double encode = 0;
  double digest = 0;
  double stored_share = 1;  // bytes stored / bytes decoded
};

// Measures chunks spread over the dataset: one large one, or several small ones.
Costs measure(const RepackJob& job) {
  const ChunkReader& reader = *job.reader;
  const std::size_t element_bytes = size_of(job.info().dtype);
  const auto chunk_bytes = static_cast<std::size_t>(reader.chunk_bytes());
  // A part of a large chunk is representative, and encoding takes a multiple of its memory.
  const std::size_t sample_bytes = std::min(chunk_bytes, kSampleBytes / element_bytes * element_bytes);
  const FilterPipeline filters(job.storage.filters, sample_bytes, element_bytes);
  ByteBuffer values(chunk_bytes);
  const StoredChunks& stored_chunks = StoredChunks::of(reader);
  ReadScratch scratch;
  double decoded = 0, sampled = 0, stored = 0;
  Costs sum;
  // The first one includes one-time costs.
  bool warm = false;
  for (std::uint64_t part = 0; part < kMostSamples && decoded < kAmpleSampleBytes; ++part) {
    // Starts in the middle and proceeds in strides, so that few samples are spread as well as many.
    const std::uint64_t place = (part * kSampleStride + kMostSamples / 2) % kMostSamples;
    const std::uint64_t chunk = reader.num_chunks() * (2 * place + 1) / (2 * kMostSamples);
    if (!stored_chunks.written(chunk)) continue;
    if (!std::exchange(warm, true)) reader.read_chunk(chunk, values.span(), scratch);
    check_interrupted();
    const Clock::time_point begin = Clock::now();
    reader.read_chunk(chunk, values.span(), scratch);
    sum.decode += seconds_since(begin);
    decoded += static_cast<double>(chunk_bytes);
    const auto sample = values.span().first(sample_bytes);
    const Clock::time_point encoding = Clock::now();
    stored +=
        static_cast<double>(filters.empty() || !job.plan ? sample.size() : filters.encode(sample).size());
    sum.encode += seconds_since(encoding);
    const Clock::time_point hashing = Clock::now();
    Sha256().update(sample);
    sum.digest += seconds_since(hashing);
    sampled += static_cast<double>(sample_bytes);
  }
  if (decoded == 0) return {};
  return {sum.decode / decoded, sum.encode / sampled, sum.digest / sampled, stored / sampled};
}

// Decides how the plan saves memory if it has to; returns the seconds that this takes.
double choose_way(RecutPlan& plan, double decoded_bytes, double decode_seconds_per_byte) {
  const double again = decoded_bytes * (plan.visits - 1) * decode_seconds_per_byte;
  const double by_scratch = 2 * decoded_bytes / kStorageBytesPerSecond;
  plan.scratch = plan.visits > 1.005 && by_scratch < again;
  return plan.scratch ? by_scratch : again;
}

// Returns the decoded bytes of chunks of which something is stored.
double written_bytes(const RepackJob& job) {
  return static_cast<double>(job.info().total_bytes()) * written_share(*job.reader);
}

// Returns the decoded bytes of the target chunks that will hold something: each chunk of a sparse source may
// touch a whole one.
double target_bytes(const RepackJob& job, double written) {
  const DatasetInfo& info = job.info();
  const auto all = static_cast<double>(info.total_bytes());
  if (written >= all || job.storage.chunk_shape.empty() || job.shuffle_key) return all;
  const std::vector<std::uint64_t>& source = job.reader->chunk_shape();
  const std::vector<std::uint64_t>& target = job.storage.chunk_shape;
  std::uint64_t target_chunks = 1, target_chunk_bytes = size_of(info.dtype);
  for (const std::uint64_t extent : chunk_grid(info.shape, target)) target_chunks *= extent;
  for (const std::uint64_t extent : target) target_chunk_bytes *= extent;
  const StoredChunks& stored = StoredChunks::of(*job.reader);
  std::vector<bool> touched(static_cast<std::size_t>(target_chunks));
  for (std::uint64_t chunk = 0; chunk < job.reader->num_chunks(); ++chunk) {
    if (!stored.written(chunk)) continue;
    for (const std::uint64_t part :
         chunks_touching(box_of_chunk(chunk, source, info.shape), target, info.shape))
      touched[static_cast<std::size_t>(part)] = true;
  }
  return static_cast<double>(std::count(touched.begin(), touched.end(), true)) *
         static_cast<double>(target_chunk_bytes);
}

std::string storage_text(const std::vector<std::uint64_t>& chunk, const std::vector<FilterSpec>& filters) {
  if (chunk.empty()) return "contiguous";
  return fmt::format("chunks {} {}", format_shape(chunk), format_filters(filters));
}

std::string source_text(const DatasetInfo& info) {
  const bool elsewhere =
      info.layout == StorageLayout::external || info.layout == StorageLayout::virtual_dataset;
  return elsewhere ? std::string(name_of(info.layout)) : storage_text(info.chunk_shape, info.filters);
}

std::string duration(double seconds) {
  return seconds < 1 ? std::string("below 1 s") : fmt::format("about {:.0f} s", std::ceil(seconds));
}

std::string way_text(const RepackJob& job) {
  if (job.shuffle_key) return "rows in a new order";
  if (!job.plan) return "chunks copied as they are";
  if (job.plan->scratch) {
    return fmt::format(
        "one row of source chunks does not fit --memory: each decoded once into a scratch file of {}",
        format_bytes(job.info().total_bytes()));
  }
  if (job.plan->visits > 1.005) {
    return fmt::format("each source chunk decoded {:.1f} times on average, to stay within --memory",
                       job.plan->visits);
  }
  return "each source chunk decoded once";
}

bool needs_plugin(const std::vector<RepackJob>& jobs) {
  return std::any_of(jobs.begin(), jobs.end(), [](const RepackJob& job) {
    return job.chosen && needs_hdf5plugin(job.storage.filters);
  });
}

}  // namespace

RepackEstimate estimate_repack(std::vector<RepackJob>& jobs, const std::string& in, double rehearsal_s,
                               const RepackSettings& settings) {
  // Of six files, with up to 50,000 datasets or 3,000,000 texts, copying took 1.1 to 5.5 times as long as the
  // rehearsal, and comparing both sides 1.5 to 3.5 times.
  constexpr double kRehearsals = 2;
  RepackEstimate estimate{.seconds = kRehearsals * rehearsal_s, .verify_seconds = kRehearsals * rehearsal_s};
  std::error_code error;
  estimate.bytes_in = std::filesystem::file_size(in, error);
  std::uint64_t jobs_in = 0;
  double jobs_out = 0;
  for (RepackJob& job : jobs) {
    const DatasetInfo& info = job.info();
    const auto decoded = written_bytes(job);
    jobs_in += info.stored_bytes;
    estimate.decoded_bytes += info.total_bytes();
    if (decoded == 0) continue;
    const double threads = job.plan ? job.plan->jobs : settings.jobs;
    if (!job.plan) {
      jobs_out += static_cast<double>(info.stored_bytes);
      estimate.seconds += static_cast<double>(info.stored_bytes) / kStorageBytesPerSecond;
      if (!job.chosen) continue;
    }
    const Costs costs = measure(job);
    estimate.verify_seconds += decoded * (2 * costs.digest + costs.decode) / threads;
    if (!job.plan) continue;
    if (job.sort_plan) {
      estimate.seconds += choose_way(*job.sort_plan, decoded, costs.decode / threads);
      // From this point on the rows come from a scratch file, or from memory.
      estimate.seconds += choose_way(*job.plan, decoded, 1 / kStorageBytesPerSecond);
      estimate.seconds += 2 * decoded / kStorageBytesPerSecond;
    } else {
      estimate.seconds += choose_way(*job.plan, decoded, costs.decode / threads);
    }
    estimate.scratch_bytes = std::max(estimate.scratch_bytes, scratch_bytes_of(job, settings));
    estimate.seconds += decoded * (costs.decode + costs.encode) / threads +
                        decoded * costs.stored_share / kStorageBytesPerSecond;
    jobs_out += target_bytes(job, decoded) * costs.stored_share;
    estimate.memory_bytes = std::max(estimate.memory_bytes, memory_bytes_of(job, settings));
  }
  estimate.other_bytes = estimate.bytes_in > jobs_in ? estimate.bytes_in - jobs_in : 0;
  estimate.bytes_out = static_cast<std::uint64_t>(jobs_out) + estimate.other_bytes;
  estimate.free_bytes = free_bytes_for(settings.out);
  return estimate;
}

void say_moved_links(const std::vector<std::string>& links) {
  if (links.empty()) return;
  say(fmt::format(
      "  {}{} looked up beside the file that holds {}: in the copy, which is in another folder, {} elsewhere",
      printable(links.front()),
      links.size() == 1 ? " is" : fmt::format(" and {} more links into other files are", links.size() - 1),
      links.size() == 1 ? "it" : "them", links.size() == 1 ? "it leads" : "they lead"));
}

std::string plan_text(const std::vector<RepackJob>& jobs, const RepackArguments& arguments,
                      const RepackEstimate& estimate) {
  std::string text = fmt::format("repacking {} into {}\n", printable(arguments.in), printable(arguments.out));
  std::size_t untouched = 0;
  for (const RepackJob& job : jobs) {
    if (!job.chosen) {
      ++untouched;
      continue;
    }
    const DatasetInfo& info = job.info();
    const bool chunked = !job.storage.chunk_shape.empty();
    text += fmt::format("  {} ({}): {} → {}, {} decoded; {}{}\n", printable(info.path), info.shape_text(),
                        source_text(info), storage_text(job.storage.chunk_shape, job.storage.filters),
                        format_bytes(info.total_bytes()), way_text(job),
                        chunked ? window_text(info, job.storage.chunk_shape.front(), arguments) : "");
  }
  if (untouched > 0) {
    text += fmt::format("  {} other numeric {} and everything else copied as they are\n", untouched,
                        untouched == 1 ? "dataset" : "datasets");
  }
  if (needs_plugin(jobs)) text += "  Python readers need the hdf5plugin package\n";
  return text +
         fmt::format("  reads {}, writes about {}{} ({} free), memory up to {}; {}, with --no-verify {}",
                     format_bytes(estimate.bytes_in), format_bytes(estimate.bytes_out),
                     estimate.scratch_bytes > 0
                         ? fmt::format(" and a scratch file of {}", format_bytes(estimate.scratch_bytes))
                         : "",
                     estimate.free_bytes ? format_bytes(*estimate.free_bytes) : "unknown what is",
                     format_bytes(estimate.memory_bytes),
                     duration(estimate.seconds + estimate.verify_seconds), duration(estimate.seconds));
}

std::string result_text(const std::vector<RepackJob>& jobs, const RepackArguments& arguments,
                        std::uint64_t file_bytes, double seconds) {
  std::string text;
  for (const RepackJob& job : jobs) {
    if (!job.chosen) continue;
    const DatasetInfo& info = job.info();
    text += fmt::format("{} ({}): {}; {} stored, was {}\n", printable(info.path), info.shape_text(),
                        storage_text(job.storage.chunk_shape, job.storage.filters),
                        format_bytes(job.stored_bytes), format_bytes(info.stored_bytes));
  }
  return text + fmt::format("wrote {} ({}) in {:.1f} s, {}\n", printable(arguments.out),
                            format_bytes(file_bytes), seconds,
                            arguments.no_verify ? "not verified" : "values verified (SHA-256 of both sides)");
}

Json repack_json(const std::vector<RepackJob>& jobs, const RepackArguments& arguments,
                 const RepackEstimate& estimate, std::uint64_t file_bytes, double seconds) {
  Json datasets = Json::array();
  for (const RepackJob& job : jobs) {
    const DatasetInfo& info = job.info();
    datasets.push_back({{"path", info.path},
                        {"shape", info.shape},
                        {"dtype", std::string(name_of(info.dtype))},
                        {"decoded_bytes", info.total_bytes()},
                        {"source",
                         {{"chunk", info.chunk_shape},
                          {"filter", format_filters(info.filters)},
                          {"stored_bytes", info.stored_bytes}}},
                        {"target",
                         {{"chunk", job.storage.chunk_shape},
                          {"filter", format_filters(job.storage.filters)},
                          {"stored_bytes", job.stored_bytes}}},
                        {"verbatim", !job.plan.has_value()},
                        {"decodes_per_chunk", !job.plan           ? 0.0
                                              : job.plan->scratch ? 1.0
                                                                  : job.plan->visits},
                        {"scratch_file", job.plan && job.plan->scratch}});
  }
  return {{"file", arguments.in},
          {"out", arguments.out},
          {"dry_run", arguments.dry_run},
          {"verified", !arguments.dry_run && !arguments.no_verify},
          {"datasets", std::move(datasets)},
          {"estimate",
           {{"bytes_in", estimate.bytes_in},
            {"bytes_out", estimate.bytes_out},
            {"memory_bytes", estimate.memory_bytes},
            {"scratch_bytes", estimate.scratch_bytes},
            {"free_bytes", estimate.free_bytes ? Json(*estimate.free_bytes) : Json()},
            {"seconds", estimate.seconds + estimate.verify_seconds},
            {"seconds_without_verification", estimate.seconds}}},
          {"file_bytes", file_bytes},
          {"seconds", seconds}};
}

}  // namespace h5feed::cli
