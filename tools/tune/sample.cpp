// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/sample.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <limits>
#include <system_error>
#include <utility>

#include "base/byte_units.hpp"
#include "base/clock.hpp"
#include "base/system_limits.hpp"
#include "dataset/dataset_state.hpp"
#include "h5feed/data_loader.hpp"
#include "h5feed/dataset.hpp"
#include "store/filters/filters.hpp"
#include "store/format/chunk_geometry.hpp"
#include "store/write/h5_writer.hpp"
#include "tools/measure/page_cache.hpp"
#include "tools/program/interrupt.hpp"
#include "tools/program/output.hpp"
#include "tools/program/progress.hpp"
#include "tools/program/resources.hpp"
#include "tools/program/table.hpp"
#include "tools/storage/chunk_walk.hpp"
#include "tools/storage/isolated.hpp"
#include "tools/storage/new_file.hpp"
#include "tools/storage/parallel_write.hpp"
#include "tools/storage/recut_plan.hpp"

namespace h5feed::cli {
namespace {

constexpr const char* kDataset = "/samples";

// Reads rows [first, first + count) into `out`, one source chunk after the other.
void read_rows_of(const ChunkReader& reader, std::uint64_t first, std::uint64_t count,
                  std::span<std::byte> out, ByteBuffer& chunk_values, ReadScratch& scratch) {
  const DatasetInfo& info = reader.info();
  const std::size_t element_bytes = size_of(info.dtype);
  ChunkBox rows;
  rows.start.assign(info.shape.size(), 0);
  rows.count = info.shape;
  rows.start.front() = first;
  rows.count.front() = count;
  chunk_values.resize_discard(static_cast<std::size_t>(reader.chunk_bytes()));
  for (const std::uint64_t chunk : chunks_touching(rows, reader.chunk_shape(), info.shape)) {
    check_interrupted();
    reader.read_chunk(chunk, chunk_values.span().first(static_cast<std::size_t>(reader.chunk_bytes())),
                      scratch);
    ChunkBox whole = box_of_chunk(chunk, reader.chunk_shape(), info.shape);
    const ChunkBox part = intersection(whole, rows);
    whole.count = reader.chunk_shape();
    copy_box({part.count, whole.count, rows.count, element_bytes},
             chunk_values.data() + offset_within(whole, part) * element_bytes,
             out.data() + offset_within(rows, part) * element_bytes);
  }
}

// Returns options for a file of `chunks` chunks; a loader refuses windows with more chunks.
// Returns the options of the loader; K of "chunk:K" is limited to the chunks, or groups of chunks, of the
// data.
DataLoaderOptions options_for(const LoaderUse& use, const Dataset& dataset, std::uint64_t number) {
  const std::uint64_t chunks = DatasetAccess::state(dataset)->sample_layout().num_chunks();
  DataLoaderOptions options;
  options.batch_size = static_cast<std::int64_t>(use.batch_size);
  options.shuffle = use.shuffle;
  if (use.shuffle.window_chunks() > chunks) options.shuffle = Shuffle(fmt::format("chunk:{}", chunks));
  options.num_workers = use.num_workers;
  options.cache_bytes = use.cache_bytes;
  options.memory_budget_bytes = use.memory_budget_bytes;
  options.seed = number;
  return options;
}

// Returns the number of threads that can work at once.
double threads_of(const LoaderUse& use) {
  return std::clamp<double>(static_cast<double>(use.num_workers), 1, system_limits().cpus);
}

void run_epoch(DataLoader& loader) {
  for (const Batch& batch : loader) {
    static_cast<void>(batch);
    check_interrupted();
  }
}

// Returns the CPU seconds of the process since `before`, divided among `threads`.
double worked_since(const ResourceUsage& before, double threads) {
  const ResourceUsage used = resource_usage() - before;
  return (used.user_s + used.system_s) / threads;
}

// Returns the seconds of a loader's life, with what `work` does with it: elapsed, or CPU time divided among
// `threads`. While a thread runs, the kernel knows its CPU time only up to the last tick, milliseconds ago;
// hence the whole life.
template <typename Work>
double loader_seconds(const Dataset& dataset, const DataLoaderOptions& options, double threads, bool by_clock,
                      const Work& work) {
  const Clock::time_point begin = Clock::now();
  const ResourceUsage before = resource_usage();
  double elapsed = 0;
  {
    DataLoader loader(dataset, options);
    work(loader);
    elapsed = seconds_since(begin);
  }
  return by_clock ? elapsed : worked_since(before, threads);
}

NewDataset new_dataset(const DatasetInfo& info, const Candidate& candidate) {
  NewDataset dataset{.path = kDataset, .dtype = info.dtype, .shape = info.shape};
  dataset.chunk_shape = dataset.shape;
  dataset.chunk_shape.front() = std::min(candidate.chunk_rows, info.rows());
  dataset.filters = parse_filters(candidate.filter, size_of(dataset.dtype));
  return dataset;
}

// Returns the CPU seconds of this thread.
double worked_seconds() {
  timespec now = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

void refuse_untunable(const DatasetInfo& info) {
  constexpr std::uint64_t kLargestRow = 64 * kMiB;
  const std::string name = fmt::format("{}:{}", printable(info.file), printable(info.path));
  // What `repack` does not cut anew has no candidates.
  if (open_isolated(info.file)->describe_vlen(info.path)) {
    throw DatasetError(
        fmt::format("{}: its values are of variable length, whose chunks and filters repack keeps; tune "
                    "works with arrays of numbers",
                    name));
  }
  if (info.rows() < 2)
    throw DatasetError(fmt::format("{}: it has one sample, which fits one chunk only", name));
  if (info.row_bytes() > kLargestRow) {
    throw DatasetError(fmt::format("{}: one sample takes {}; tune works with samples of up to {}", name,
                                   format_bytes(info.row_bytes()), format_bytes(kLargestRow)));
  }
}

RowSample sample_rows(const ChunkReader& reader, std::uint64_t rows, Clock::time_point deadline) {
  require_grid(reader);
  constexpr std::uint64_t kRuns = 8;
  RowSample sample{.info = reader.info()};
  const std::uint64_t all = sample.info.rows(), row_bytes = sample.info.row_bytes();
  rows = std::clamp<std::uint64_t>(rows, 1, all);
  // Some rows of a band of chunks cost as much as the whole band, so runs are as long as bands.
  const std::uint64_t run =
      rows == all
          ? all
          : std::max<std::uint64_t>((rows + kRuns - 1) / kRuns, std::min(rows, reader.chunk_shape().front()));
  const std::uint64_t runs = (rows + run - 1) / run;
  sample.values = ByteBuffer(static_cast<std::size_t>(rows * row_bytes));
  ByteBuffer chunk_values;
  ReadScratch scratch;
  std::uint64_t done = 0;
  for (std::uint64_t i = 0; i < runs && (done == 0 || Clock::now() < deadline); ++i) {
    const std::uint64_t begin = runs == 1 ? 0
                                          : (all - run) / (runs - 1) * i / reader.chunk_shape().front() *
                                                reader.chunk_shape().front();
    const std::uint64_t count = std::min({run, rows - done, all - begin});
    read_rows_of(reader, begin, count,
                 sample.values.span().subspan(static_cast<std::size_t>(done * row_bytes)), chunk_values,
                 scratch);
    done += count;
  }
  sample.info.shape.front() = done;
  sample.info.byte_swapped = false;
  sample.info.bits = {};
  return sample;
}

CandidateCosts measure_costs(const RowSample& sample, const Candidate& candidate, std::uint64_t bytes) {
  constexpr int kPasses = 3;
  const std::uint64_t chunk_bytes = candidate.chunk_rows * sample.info.row_bytes();
  const std::uint64_t most = std::max<std::uint64_t>(1, sample.rows() / candidate.chunk_rows);
  const std::uint64_t chunks =
      std::clamp<std::uint64_t>(bytes / chunk_bytes, 1, std::min<std::uint64_t>(most, 64));
  const std::size_t element_bytes = size_of(sample.info.dtype);
  const FilterPipeline filters(parse_filters(candidate.filter, element_bytes),
                               static_cast<std::size_t>(chunk_bytes), element_bytes);
  const auto chunk = [&](std::uint64_t i) {
    // Positions are spread over the sample.
    const std::uint64_t first = (most / chunks * i) * chunk_bytes;
    return sample.values.span().subspan(static_cast<std::size_t>(first),
                                        static_cast<std::size_t>(chunk_bytes));
  };
  const auto count = static_cast<double>(chunks);
  std::vector<std::vector<std::byte>> encoded;
  std::uint64_t stored = 0;
  const double encoding = worked_seconds();
  for (std::uint64_t i = 0; i < chunks; ++i) {
    encoded.push_back(filters.empty() ? std::vector<std::byte>(chunk(i).begin(), chunk(i).end())
                                      : filters.encode(chunk(i)));
    stored += encoded.back().size();
  }
  CandidateCosts costs{
      .decode_s = std::numeric_limits<double>::infinity(),
      .encode_s = (worked_seconds() - encoding) / count,
      .stored_share = static_cast<double>(stored) / (count * static_cast<double>(chunk_bytes))};
  ByteBuffer values(static_cast<std::size_t>(chunk_bytes));
  DecodeScratch scratch;
  for (int pass = 0; pass < kPasses; ++pass) {
    check_interrupted();
    const double begin = worked_seconds();
    for (const std::vector<std::byte>& one : encoded) {
      if (filters.empty()) {
        std::memcpy(values.data(), one.data(), one.size());
      } else {
        filters.decode(one, 0, values.span(), scratch);
      }
    }
    costs.decode_s = std::min(costs.decode_s, (worked_seconds() - begin) / count);
  }
  return costs;
}

FilterSpeed filter_speed(const RowSample& sample, const std::string& filter) {
  constexpr std::size_t kBytes = 128 * kKiB;
  const std::size_t element_bytes = size_of(sample.info.dtype);
  const std::size_t bytes =
      std::min(kBytes, static_cast<std::size_t>(sample.rows() * sample.info.row_bytes())) / element_bytes *
      element_bytes;
  const FilterPipeline filters(parse_filters(filter, element_bytes), bytes, element_bytes);
  if (filters.empty()) return {};
  const double begin = worked_seconds();
  const std::vector<std::byte> encoded = filters.encode(sample.values.span().first(bytes));
  const double between = worked_seconds();
  ByteBuffer values(bytes);
  DecodeScratch scratch;
  filters.decode(encoded, 0, values.span(), scratch);
  const auto count = static_cast<double>(bytes);
  return {(between - begin) / count, (worked_seconds() - between) / count};
}

CandidateFile::CandidateFile(const RowSample& sample, const Candidate& candidate, std::filesystem::path path)
    : path_(std::move(path)) {
  const NewDataset dataset = new_dataset(sample.info, candidate);
  const std::uint64_t row_bytes = sample.info.row_bytes();
  H5Writer writer(path_, true);
  Progress quiet("", ProgressUnit::bytes, 0);
  stored_bytes_ = write_rows_in_parallel(
      writer, dataset, Production::parallel,
      [&](std::uint64_t first, std::uint64_t, std::span<std::byte> out) {
        std::memcpy(out.data(), sample.values.data() + first * row_bytes, out.size());
      },
      quiet);
  writer.commit();
}

CandidateFile::CandidateFile(const DatasetInfo& info, std::uint64_t chunk_rows, std::filesystem::path path)
    : path_(std::move(path)) {
  const NewDataset dataset = new_dataset(info, {chunk_rows, "none"});
  H5Writer writer(path_, true);
  writer.create_dataset(dataset);
  writer.commit();
}

CandidateFile::~CandidateFile() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

Dataset CandidateFile::open(const LoaderUse& use) const {
  DatasetOptions options{.files = {path_}, .data = kDataset, .input_layout = use.layout};
  if (!use.window.empty()) {
    // Every row has a sample, as without windows.
    options.episodes = EpisodeOptions{.missing_before = -1, .missing_after = -1};
    options.window = use.window;
  }
  return Dataset::open(options);
}

double CandidateFile::measure(const LoaderUse& use, std::chrono::nanoseconds duration, bool cold) const {
  constexpr std::uint64_t kLeastEpochs = 2;
  const ScopedLogSink quiet(ignore_log);
  const Clock::time_point start = Clock::now();
  const double threads = threads_of(use);
  const bool by_clock = cold;
  double fastest = std::numeric_limits<double>::infinity();
  std::int64_t samples = 0;
  for (std::uint64_t epoch = 0; epoch < kLeastEpochs || Clock::now() - start < duration; ++epoch) {
    if (cold) drop_pages(path_);
    const Dataset dataset = open(use);
    samples = dataset.size();
    fastest = std::min(
        fastest, loader_seconds(dataset, options_for(use, dataset, epoch), threads, by_clock, run_epoch));
  }
  // So short an epoch may count as no work at all.
  return static_cast<double>(samples) / std::max(fastest, 1e-9);
}

void CandidateFile::check(const LoaderUse& use) const {
  const ScopedLogSink quiet(ignore_log);
  const Dataset dataset = open(use);
  const DataLoader loader(dataset, options_for(use, dataset, 0));
}

double CandidateFile::measure_start(const LoaderUse& use, std::chrono::nanoseconds duration) const {
  constexpr int kStarts = 10, kLeastStarts = 2;
  const ScopedLogSink quiet(ignore_log);
  const Clock::time_point start = Clock::now();
  double fastest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kStarts && (i < kLeastStarts || Clock::now() - start < duration); ++i) {
    const Dataset dataset = open(use);
    DataLoaderOptions options = options_for(use, dataset, 0);
    options.batch_size = 1;
    fastest = std::min(fastest, loader_seconds(dataset, options, threads_of(use), false,
                                               [](DataLoader& loader) { loader.next(); }));
  }
  return fastest;
}

double CandidateFile::measure_cached(const LoaderUse& use, std::chrono::nanoseconds duration) const {
  constexpr std::uint64_t kLeastEpochs = 2;
  const ScopedLogSink quiet(ignore_log);
  const Clock::time_point start = Clock::now();
  const Dataset dataset = open(use);
  DataLoaderOptions options = options_for(use, dataset, 0);
  options.row_reads = RowReads::never;
  DataLoader loader(dataset, options);
  run_epoch(loader);
  // Measures all epochs together: the kernel's CPU time of a single one is incomplete.
  const ResourceUsage before = resource_usage();
  std::uint64_t epochs = 0;
  for (; epochs < kLeastEpochs || Clock::now() - start < duration; ++epochs) run_epoch(loader);
  return static_cast<double>(dataset.size()) * static_cast<double>(epochs) /
         std::max(worked_since(before, threads_of(use)), 1e-9);
}

}  // namespace h5feed::cli
