// SPDX-License-Identifier: Apache-2.0
// One benchmark per stage of the loader, on one thread: the cost of each stage alone.
//
//   build/release/benchmarks/stage_benchmark --benchmark_repetitions=5
//
// Bytes per second count decoded (stored) bytes, unless the name says otherwise.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <utility>
#include <variant>
#include <vector>

#include "batch/row_kernel.hpp"
#include "cache/chunk_cache.hpp"
#include "h5feed/data_loader.hpp"
#include "plan/epoch_plan.hpp"
#include "store/filters/codecs.hpp"
#include "store/filters/filters.hpp"
#include "store/filters/shuffle_bits.hpp"
#include "store/write/h5_writer.hpp"

namespace h5feed {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

// Returns smooth data with noise in the low bits, which compresses about like photographs.
std::vector<std::byte> image_like(std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  std::uint64_t noise = 1;
  for (std::size_t i = 0; i < bytes; ++i) {
    noise = noise * 6364136223846793005ull + 1442695040888963407ull;
    data[i] = static_cast<std::byte>((i / 64 % 128) + (noise >> 59));
  }
  return data;
}

// Returns data that repeats with exceptions, like labels and drawings; compressors without entropy coding
// find nothing in image_like().
std::vector<std::byte> drawing_like(std::size_t bytes) {
  constexpr std::size_t kRowBytes = 1024;
  std::vector<std::byte> data = image_like(bytes);
  for (std::size_t i = kRowBytes; i < bytes; ++i) {
    if (data[i] != std::byte{64}) data[i] = data[i - kRowBytes];
  }
  return data;
}

using MakeChunk = std::vector<std::byte> (*)(std::size_t bytes);

void decode(benchmark::State& state, const char* filters, std::size_t element_bytes,
            MakeChunk make_chunk = image_like) {
  const FilterPipeline pipeline(parse_filters(filters, element_bytes), kChunkBytes, element_bytes);
  const std::vector<std::byte> stored = pipeline.encode(make_chunk(kChunkBytes));
  std::vector<std::byte> chunk(kChunkBytes);
  DecodeScratch scratch;
  for (auto _ : state) {
    pipeline.decode(stored, 0, chunk, scratch);
    benchmark::DoNotOptimize(chunk.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kChunkBytes));
  state.counters["ratio"] = static_cast<double>(kChunkBytes) / static_cast<double>(stored.size());
}
BENCHMARK_CAPTURE(decode, gzip_4, "gzip:4", 1);
BENCHMARK_CAPTURE(decode, shuffle_gzip_4_of_4_bytes, "shuffle+gzip:4", 4);
BENCHMARK_CAPTURE(decode, gzip_4_fletcher32, "gzip:4+fletcher32", 1);
BENCHMARK_CAPTURE(decode, lz4, "lz4", 1, drawing_like);
BENCHMARK_CAPTURE(decode, zstd_3, "zstd:3", 1);
BENCHMARK_CAPTURE(decode, lzf, "lzf", 1, drawing_like);
BENCHMARK_CAPTURE(decode, bzip2_9, "bzip2:9", 1);
BENCHMARK_CAPTURE(decode, blosc_lz4_of_4_bytes, "blosc:lz4:5", 4, drawing_like);
BENCHMARK_CAPTURE(decode, blosc_zstd_of_4_bytes, "blosc:zstd:5", 4);
BENCHMARK_CAPTURE(decode, bitshuffle_lz4_of_2_bytes, "bitshuffle:lz4", 2, drawing_like);
BENCHMARK_CAPTURE(decode, bitshuffle_zstd_of_2_bytes, "bitshuffle:zstd:3", 2);
BENCHMARK_CAPTURE(decode, shuffle_lz4_of_4_bytes, "shuffle+lz4", 4, drawing_like);

// Decodes the same bytes with the codec's own call: the difference is the pipeline's overhead.
void zstd_alone(benchmark::State& state) {
  const std::vector<std::byte> stored = encode_zstd(image_like(kChunkBytes), 3);
  std::vector<std::byte> chunk(kChunkBytes);
  ZstdDecoder decoder;
  for (auto _ : state) benchmark::DoNotOptimize(decoder.decode(stored, chunk));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kChunkBytes));
}
BENCHMARK(zstd_alone);
void lz4_alone(benchmark::State& state) {
  const std::vector<std::byte> stored = encode_lz4(drawing_like(kChunkBytes), std::size_t{1} << 30);
  std::vector<std::byte> chunk(kChunkBytes);
  for (auto _ : state) benchmark::DoNotOptimize(decode_lz4(stored, chunk));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kChunkBytes));
}
BENCHMARK(lz4_alone);
void deflate_alone(benchmark::State& state) {
  const std::vector<std::byte> stored = encode_deflate(image_like(kChunkBytes), 4);
  std::vector<std::byte> chunk(kChunkBytes);
  DeflateDecoder decoder;
  for (auto _ : state) benchmark::DoNotOptimize(decoder.decode(stored, chunk));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kChunkBytes));
}
BENCHMARK(deflate_alone);

// Runs a shuffle filter by instruction set: 0 portable, 1 SSE2, 2 AVX2.
template <auto kUndo>
void unshuffle(benchmark::State& state) {
  const auto element_bytes = static_cast<std::size_t>(state.range(0));
  const auto level = static_cast<SimdLevel>(state.range(1));
  if (level > simd_level()) {
    state.SkipWithError("this CPU lacks the instruction set");
    return;
  }
  const std::vector<std::byte> in = image_like(kChunkBytes);
  std::vector<std::byte> out(kChunkBytes);
  std::vector<std::byte> work(kChunkBytes);
  for (auto _ : state) {
    kUndo(in, element_bytes, out, work, level);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kChunkBytes));
}
void unshuffle_bytes_of(std::span<const std::byte> in, std::size_t element_bytes, std::span<std::byte> out,
                        std::span<std::byte>, SimdLevel level) {
  unshuffle_bytes(in, element_bytes, out, level);
}
// Works in blocks of 8 KiB, as bitshuffle stores them.
void unshuffle_bits_of(std::span<const std::byte> in, std::size_t element_bytes, std::span<std::byte> out,
                       std::span<std::byte> work, SimdLevel level) {
  constexpr std::size_t kBlockBytes = 8192;
  for (std::size_t at = 0; at < in.size(); at += kBlockBytes) {
    unshuffle_bits(in.subspan(at, kBlockBytes), element_bytes, out.subspan(at, kBlockBytes),
                   work.first(kBlockBytes), level);
  }
}
BENCHMARK(unshuffle<unshuffle_bytes_of>)->ArgNames({"bytes", "simd"})->ArgsProduct({{2, 4, 8}, {0, 1, 2}});
BENCHMARK(unshuffle<unshuffle_bits_of>)->ArgNames({"bytes", "simd"})->ArgsProduct({{1, 2, 4}, {0, 1, 2}});

// Gathers samples of one image size from a chunk into a batch.
void gather(benchmark::State& state, const RowKernelSpec& spec) {
  const auto kernel = make_row_kernel(spec);
  const std::size_t from_bytes = spec.channels * spec.pixels * size_of(spec.from);
  const std::size_t to_bytes = spec.channels * spec.pixels * size_of(spec.to);
  constexpr std::size_t kRows = 64;
  const std::vector<std::byte> chunk = image_like(from_bytes * kRows);
  std::vector<std::byte> batch(to_bytes * kRows);
  for (auto _ : state) {
    for (std::size_t i = 0; i < kRows; ++i) {
      // An odd step visits all rows in an order other than the file's.
      kernel->run(chunk.data() + i * 37 % kRows * from_bytes, batch.data() + i * to_bytes);
    }
    benchmark::DoNotOptimize(batch.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(from_bytes * kRows));
}

RowKernelSpec image(bool normalize, bool channels_last, bool to_channels_last = false) {
  RowKernelSpec spec{.channels = 3,
                     .pixels = 128 * 128,
                     .channels_last = channels_last,
                     .to_channels_last = to_channels_last};
  if (normalize) {
    spec.to = DType::f32;
    spec.normalize =
        resolve_normalize({.mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}}, DType::u8, 3);
  }
  return spec;
}
BENCHMARK_CAPTURE(gather, copy, image(false, false));
BENCHMARK_CAPTURE(gather, nhwc_to_nchw, image(false, true));
BENCHMARK_CAPTURE(gather, normalize, image(true, false));
BENCHMARK_CAPTURE(gather, normalize_nhwc_to_nchw, image(true, true));
BENCHMARK_CAPTURE(gather, normalize_nhwc, image(true, true, true));

// Plans a batch of 256 indices, as a worker does.
void plan(benchmark::State& state, const char* shuffle) {
  const EpochPlan epoch(
      {.num_samples = 1'281'167, .rows_per_chunk = 100, .shuffle = shuffle, .seed = 1, .batch_size = 256}, 0);
  std::uint64_t number = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(epoch.batch(number++ % epoch.num_batches()));
  }
  state.SetItemsProcessed(state.iterations() * 256);
}
BENCHMARK_CAPTURE(plan, sequential, "sequential");
BENCHMARK_CAPTURE(plan, full, "full");
BENCHMARK_CAPTURE(plan, chunk_16, "chunk:16");

// Computes one index of an epoch of 10^9 samples.
void plan_of_a_billion(benchmark::State& state, const char* shuffle) {
  const EpochPlan epoch(
      {.num_samples = 1'000'000'000, .rows_per_chunk = 100, .shuffle = shuffle, .seed = 1, .batch_size = 1},
      0);
  std::uint64_t number = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(epoch.batch(number));
    number = (number + 7'919) % epoch.num_batches();
  }
}
BENCHMARK_CAPTURE(plan_of_a_billion, full, "full");
BENCHMARK_CAPTURE(plan_of_a_billion, chunk_16, "chunk:16");

// Resumes an epoch of 10^6 samples from its saved position to the next batch; the argument is the position in
// percent.
void resume(benchmark::State& state) {
  constexpr std::uint64_t kSamples = 1'000'000;
  constexpr std::uint64_t kBytes = 8;  // bytes per sample
  const std::filesystem::path file = std::filesystem::temp_directory_path() / "h5feed_resume_benchmark.h5";
  {
    H5Writer writer(file, true);
    writer.create_dataset(
        {.path = "/data", .dtype = DType::u8, .shape = {kSamples, kBytes}, .chunk_shape = {1000, kBytes}});
    writer.write_rows("/data", 0, kSamples, image_like(kSamples * kBytes));
    writer.commit();
  }
  const Dataset dataset = Dataset::open({.files = {file}, .data = "data", .input_layout = InputLayout::none});
  std::filesystem::remove(file);
  DataLoader loader(dataset, {.batch_size = 256, .shuffle = true, .seed = 1});
  LoaderState saved = loader.state();
  saved.position = kSamples / 100 * static_cast<std::uint64_t>(state.range(0));
  for (auto _ : state) {
    loader.restore(saved);
    benchmark::DoNotOptimize(loader.next());
  }
}
BENCHMARK(resume)->Arg(0)->Arg(50)->Arg(90);

// Visits the cache, with a hit and with a miss that first has to evict.
void cache_visit(benchmark::State& state) {
  const bool fits = state.range(0) != 0;
  constexpr std::uint64_t kChunks = 64;
  constexpr std::size_t kBytes = 4096;
  ChunkCache cache(fits ? kChunks * kBytes : kChunks / 2 * kBytes);
  const ChunkCache::Wake nobody_waits = [] {};
  std::uint64_t chunk = 0;
  for (auto _ : state) {
    auto found = cache.lookup({0, chunk++ % kChunks}, kBytes, nobody_waits);
    if (auto* load = std::get_if<ChunkCache::Load>(&found)) {
      load->buffer();
      benchmark::DoNotOptimize(std::move(*load).publish().bytes().data());
    }
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(cache_visit)->ArgName("fits")->Arg(1)->Arg(0);

}  // namespace
}  // namespace h5feed
