// SPDX-License-Identifier: Apache-2.0
// Measures the time and memory of listing the chunks of a dataset, for every index of the HDF5 format.
//
//   build/release/benchmarks/index_benchmark
//
// Counters: chunks per second; peak_mib, the peak increase of resident memory since before the file was
// opened, including libhdf5's caches and the finished index; index_mib, the index alone. The files are
// created on first use, in a temporary directory.
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "store/filters/filters.hpp"
#include "store/hdf5/h5_file.hpp"
#include "store/index/chunk_index.hpp"
#include "store/read/chunk_reader.hpp"
#include "store/read/reader_factories.hpp"
#include "support/files/h5_test_file.hpp"
#include "support/files/temp_dir.hpp"

namespace h5feed {
namespace {

constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};
constexpr double kMiB = 1024.0 * 1024.0;

enum class Kind { version_1_b_tree, implicit, fixed_array, extensible_array, version_2_b_tree };

// Which chunks of a dataset are stored: all, filtered or not, or only the last one.
enum class Stored { filtered, unfiltered, last };

// Creates a file of `chunks` chunks of 8 bytes in a two-dimensional grid, as photographs have.
void create(const std::filesystem::path& path, Kind kind, std::uint64_t chunks, Stored stored) {
  constexpr std::uint64_t kRow = 8;
  test::TestDataset dataset{.path = "x", .shape = {chunks, kRow}, .chunk = {1, kRow}};
  dataset.max_shape = dataset.shape;
  if (kind == Kind::extensible_array) dataset.max_shape = {kUnlimited, kRow};
  if (kind == Kind::version_2_b_tree) dataset.max_shape = {kUnlimited, kUnlimited};
  if (stored == Stored::filtered) dataset.filters = parse_filters("fletcher32", 1);
  // All chunks are allocated at creation, without a call per chunk.
  dataset.early_allocation = stored != Stored::last;
  test::H5TestFile file(path, {.latest = kind != Kind::version_1_b_tree});
  file.create(dataset);
  if (stored == Stored::last) {
    const std::uint64_t offset[] = {chunks - 1, 0};
    file.write_chunk("x", offset, test::patterned_bytes(kRow));
  }
}

// Returns a file, created on first use; files are removed at exit.
std::filesystem::path file_of(Kind kind, std::uint64_t chunks, Stored stored) {
  static const test::TempDir dir;
  const std::filesystem::path path =
      dir / (std::to_string(static_cast<int>(kind)) + "_" + std::to_string(chunks) + "_" +
             std::to_string(static_cast<int>(stored)) + ".h5");
  if (!std::filesystem::exists(path)) create(path, kind, chunks, stored);
  return path;
}

// Returns a line of /proc/self/status in bytes (proc(5) gives kB).
std::uint64_t status_bytes(std::string_view key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return std::stoull(line.substr(key.size())) * 1024;
  }
  return 0;
}

// Measures how far resident memory rises during its lifetime. Returns freed memory to the system first, so
// that it does not hide new allocations.
class PeakMemory {
 public:
  PeakMemory() {
    ::malloc_trim(0);
    std::ofstream("/proc/self/clear_refs") << "5";  // proc(5): resets VmHWM
    before_ = status_bytes("VmRSS:");
  }
  double mib() const {
    const std::uint64_t peak = status_bytes("VmHWM:");
    return static_cast<double>(peak - std::min(before_, peak)) / kMiB;
  }

 private:
  std::uint64_t before_ = 0;
};

void list_chunks(benchmark::State& state, Kind kind, Stored stored) {
  const auto chunks = static_cast<std::uint64_t>(state.range(0));
  const std::filesystem::path path = file_of(kind, chunks, stored);
  double peak_mib = 0;
  double index_mib = 0;
  for (auto _ : state) {
    state.PauseTiming();
    const PeakMemory memory;
    state.ResumeTiming();
    const auto file = H5File::open(path);
    const ChunkIndex index = build_chunk_index(*file, file->describe("x"));
    state.PauseTiming();
    peak_mib = std::max(peak_mib, memory.mib());
    index_mib = static_cast<double>(index.locations.size() * sizeof(ChunkLocation)) / kMiB;
    const auto found = static_cast<std::uint64_t>(
        std::ranges::count_if(index.locations, [](const ChunkLocation& c) { return c.allocated(); }));
    if (found != (stored == Stored::last ? 1 : chunks)) state.SkipWithError("a stored chunk was not listed");
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(chunks));
  state.counters["peak_mib"] = peak_mib;
  state.counters["index_mib"] = index_mib;
}

void sizes(benchmark::internal::Benchmark* list) {
  list->ArgName("chunks")->Arg(65'536)->Arg(1'000'000)->Unit(benchmark::kMillisecond);
}
BENCHMARK_CAPTURE(list_chunks, version_1_b_tree, Kind::version_1_b_tree, Stored::filtered)->Apply(sizes);
BENCHMARK_CAPTURE(list_chunks, fixed_array, Kind::fixed_array, Stored::filtered)->Apply(sizes);
BENCHMARK_CAPTURE(list_chunks, extensible_array, Kind::extensible_array, Stored::filtered)->Apply(sizes);
BENCHMARK_CAPTURE(list_chunks, version_2_b_tree, Kind::version_2_b_tree, Stored::filtered)->Apply(sizes);
BENCHMARK_CAPTURE(list_chunks, implicit, Kind::implicit, Stored::unfiltered)->Apply(sizes);
BENCHMARK_CAPTURE(list_chunks, version_1_b_tree_last_chunk_only, Kind::version_1_b_tree, Stored::last)
    ->Apply(sizes);
BENCHMARK_CAPTURE(list_chunks, fixed_array_last_chunk_only, Kind::fixed_array, Stored::last)->Apply(sizes);

// Opens a file of 16 chunks, from its name to a reader.
void open_small_file(benchmark::State& state, Kind kind) {
  const std::filesystem::path path = file_of(kind, 16, Stored::filtered);
  for (auto _ : state) {
    const auto file = H5File::open(path);
    benchmark::DoNotOptimize(open_chunk_reader(file, file->describe("x")));
  }
}
BENCHMARK_CAPTURE(open_small_file, version_1_b_tree, Kind::version_1_b_tree)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(open_small_file, fixed_array, Kind::fixed_array)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace h5feed
