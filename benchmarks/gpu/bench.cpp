// SPDX-License-Identifier: Apache-2.0
#include "gpu/bench.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <span>
#include <system_error>

#include "base/byte_units.hpp"
#include "base/system_limits.hpp"
#include "store/filters/filters.hpp"
#include "store/write/h5_writer.hpp"
#include "tools/program/progress.hpp"
#include "tools/storage/parallel_write.hpp"
#include "tools/storage/synthetic.hpp"

namespace h5feed::bench {
namespace {

constexpr std::uint64_t kSeed = 1, kClasses = 1000;
constexpr double kRatio = 1.5;  // decoded / stored bytes under gzip:4, as for photographs

void write_file(const std::filesystem::path& path, const Bench::FileSpec& spec, std::uint64_t chunk_samples) {
  const std::vector<std::uint64_t> sample_shape = {3, spec.side, spec.side};
  NewDataset images{.path = "/images",
                    .dtype = DType::u8,
                    .shape = {spec.samples, 3, spec.side, spec.side},
                    .chunk_shape = {std::min(chunk_samples, spec.samples), 3, spec.side, spec.side},
                    .filters = parse_filters(spec.filter, 1)};
  if (images.filters.empty()) images.chunk_shape.clear();
  const NewDataset labels{
      .path = "/labels", .dtype = DType::u16, .shape = {spec.samples}, .chunk_shape = {}, .filters = {}};
  const cli::SyntheticImages content(kSeed, sample_shape, DType::u8, kClasses, kRatio);
  const std::size_t bytes = 3 * spec.side * spec.side;

  H5Writer writer(path, false);
  cli::Progress progress("", cli::ProgressUnit::bytes, static_cast<double>(bytes * spec.samples));
  cli::write_rows_in_parallel(
      writer, images, cli::Production::parallel,
      [&](std::uint64_t first, std::uint64_t count, std::span<std::byte> out) {
        for (std::uint64_t i = 0; i < count; ++i) content.fill(first + i, out.subspan(i * bytes, bytes));
      },
      progress);
  cli::write_rows_in_parallel(
      writer, labels, cli::Production::parallel,
      [&](std::uint64_t first, std::uint64_t count, std::span<std::byte> out) {
        for (std::uint64_t i = 0; i < count; ++i) {
          const auto label = static_cast<std::uint16_t>(cli::synthetic_label(kSeed, first + i, kClasses));
          out[2 * i] = static_cast<std::byte>(label & 0xFFU);
          out[2 * i + 1] = static_cast<std::byte>(label >> 8U);
        }
      },
      progress);
  writer.commit();
}

}  // namespace

Sizes Sizes::tiny() {
  Sizes sizes;
  sizes.repetitions = sizes.epoch_repetitions = sizes.train_repetitions = sizes.epochs_on_end = 2;
  sizes.copy_bytes = 4096;
  sizes.copied_bytes = 10 * 4096;
  sizes.kernel_samples = 2;
  sizes.kernel_side = 16;
  sizes.launches = 2;
  sizes.spin_time = std::chrono::milliseconds(1);
  sizes.samples = sizes.overlap_samples = 60;
  sizes.side = 16;
  sizes.chunk_samples = 8;
  sizes.window_chunks = 2;
  sizes.batch_size = 8;
  sizes.cached_step = std::chrono::milliseconds(1);
  sizes.limit_time = std::chrono::milliseconds(5);
  sizes.soak_batches = 60;
  sizes.soak_samples = 64;
  sizes.soak_sample_bytes = 64;
  sizes.soak_batch_size = 8;
  sizes.train_samples = 16;
  sizes.train_side = 32;
  sizes.train_batch_size = 4;
  sizes.train_steps = 3;
  sizes.use_time = std::chrono::milliseconds(300);
  return sizes;
}

Bench::Bench(const Sizes& of, const std::filesystem::path& folder, int with_workers, int on_device,
             Files files)
    : sizes(of), workers(with_workers), device(on_device), folder_(folder), kept_(files) {
  if (kept_ == Files::kept) return;
  std::string name = (folder / "h5feed-gpu-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(),
                            name + " cannot be made; choose another --folder");
  }
  folder_ = name;
}

Bench::~Bench() {
  if (kept_ == Files::kept) return;
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

std::filesystem::path Bench::file(const FileSpec& spec) {
  const std::string key = fmt::format("{}-{}-{}.h5", spec.filter, spec.samples, spec.side);
  std::filesystem::path path = folder_ / key;
  if (!std::filesystem::exists(path)) write_file(path, spec, sizes.chunk_samples);
  return path;
}

std::filesystem::path Bench::images(const std::string& filter) {
  return file({.filter = filter, .samples = sizes.samples, .side = sizes.side});
}

DataLoaderOptions Bench::decoding_options(std::int64_t batch_size) const {
  DataLoaderOptions options{.batch_size = batch_size, .seed = kSeed, .num_workers = workers};
  options.cache_bytes = 0;
  options.memory_budget_bytes = 16 * kGiB;
  return options;
}

Shuffle Bench::window() const { return Shuffle(fmt::format("chunk:{}", sizes.window_chunks)); }

std::vector<Benchmark> plain_benchmarks() {
  const std::vector<Benchmark> normalize = normalize_benchmarks();
  std::vector<Benchmark> all = {{{"h2d_idle"}, measure_h2d_idle},
                                {{"h2d_loaded"}, measure_h2d_loaded},
                                {{"u8_vs_f32_h2d"}, measure_u8_against_f32},
                                normalize[0],
                                normalize[1],
                                normalize[2],
                                {{"overlap_worst"}, measure_overlap},
                                {{"epoch_cached"}, measure_cached_epoch},
                                {{"threads_16"}, measure_threads},
                                {{"soak", "soak_device_growth", "soak_host_growth"}, measure_soak}};
  all.insert(all.end(), normalize.begin() + 3, normalize.end());
  return all;
}

}  // namespace h5feed::bench
