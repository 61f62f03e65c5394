// SPDX-License-Identifier: Apache-2.0
// The GPU benchmarks: their settings and the list of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "gpu/rows.hpp"
#include "h5feed/data_loader.hpp"

namespace h5feed::bench {

/// Sizes of the benchmarks' work. The defaults are for a data-centre GPU and finish within minutes; `tiny` is
/// for tests.
struct Sizes {
  int repetitions = 7;
  // Copies.
  std::uint64_t copy_bytes = std::uint64_t{16} << 20;   ///< bytes of one batch
  std::uint64_t copied_bytes = std::uint64_t{8} << 30;  ///< bytes copied in one repetition
  // Kernels; the outputs take 256 MiB or more.
  std::int64_t kernel_samples = 1024;
  std::int64_t kernel_side = 224;
  int launches = 200;
  std::chrono::milliseconds spin_time{
      500};  ///< work before the first launch, for the GPU to leave its idle clock
  // Image files of shape (samples, 3, side, side).
  std::uint64_t samples = 64000;
  std::uint64_t overlap_samples = 32000;
  std::uint64_t side = 128;
  std::uint64_t chunk_samples = 32;
  std::uint64_t window_chunks = 16;  ///< chunks in the shuffle window
  std::int64_t batch_size = 128;
  int epoch_repetitions = 3;
  /// Epochs timed on end. Up to 32 batches are ready before the clock starts: more epochs, a smaller share.
  int epochs_on_end = 4;
  std::chrono::milliseconds cached_step{2};    ///< work for each batch of samples that stay on the GPU
  std::chrono::milliseconds limit_time{2000};  ///< least time of a run that only decodes
  // Soak.
  std::uint64_t soak_batches = 100'000;
  std::uint64_t soak_samples = 65536;
  std::uint64_t soak_sample_bytes = 4096;
  std::int64_t soak_batch_size = 256;
  // Training with LibTorch.
  std::uint64_t train_samples = 12800;
  std::uint64_t train_side = 224;
  std::int64_t train_batch_size = 256;
  int train_steps = 200;  ///< steps in one repetition: four epochs
  int train_repetitions = 3;
  std::chrono::milliseconds use_time{32000};

  /// Returns sizes for tests.
  static Sizes tiny();
};

/// Settings, files and sizes of one run; created once. For one thread.
class Bench {
 public:
  /// Place and lifetime of the files: `removed` has a new folder below `folder`, which the destructor
  /// removes; `kept` writes to `folder` itself and uses what an earlier run has left there.
  enum class Files { removed, kept };

  /// `workers` is the number of decoding threads for "all workers". Throws std::system_error if `folder`
  /// cannot be written.
  Bench(const Sizes& sizes, const std::filesystem::path& folder, int workers, int device,
        Files files = Files::removed);
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench();

  Sizes sizes;
  int workers;
  int device;

  /// Describes a file of images and labels; `file` writes it unless it is there.
  struct FileSpec {
    std::string filter = "gzip:4";
    std::uint64_t samples = 0;
    std::uint64_t side = 0;
  };
  std::filesystem::path file(const FileSpec& spec);
  /// Returns the image file with `filter` for benchmarks without training; writes it unless it is there.
  std::filesystem::path images(const std::string& filter);
  /// Folder for other files.
  const std::filesystem::path& folder() const noexcept { return folder_; }

  /// Returns options for `workers` threads that decode everything they deliver: nothing is kept for reuse.
  /// The memory budget is fixed, since a virtual machine may report less free memory than it can get.
  DataLoaderOptions decoding_options(std::int64_t batch_size) const;
  /// Returns the shuffle "chunk:K", which decodes each chunk once.
  Shuffle window() const;

 private:
  std::filesystem::path folder_;
  Files kept_;
};

/// One benchmark: measures one or more rows of the list in docs/results.md.
struct Benchmark {
  std::vector<std::string> names;
  std::function<std::vector<Row>(Bench&)> run;
};

std::vector<Row> measure_h2d_idle(Bench& bench);
std::vector<Row> measure_h2d_loaded(Bench& bench);
std::vector<Row> measure_u8_against_f32(Bench& bench);
std::vector<Row> measure_overlap(Bench& bench);
std::vector<Row> measure_cached_epoch(Bench& bench);
std::vector<Row> measure_threads(Bench& bench);
std::vector<Row> measure_soak(Bench& bench);

/// Returns one benchmark for each variant of the normalize kernel; first the three of docs/results.md.
std::vector<Benchmark> normalize_benchmarks();

/// Returns the benchmarks that need no LibTorch.
std::vector<Benchmark> plain_benchmarks();

/// Runs the program: --list; --only NAME[,NAME…], --out FILE, --folder DIR, --keep, --workers N, --device N,
/// --tiny. --list prints a line for each benchmark: its names, joined by commas.
/// A benchmark that throws becomes a row with its message, and the others continue. Returns 0 if all
/// requested ones ran, 1 if one failed, 2 for wrong usage.
int run_benchmarks(const std::vector<std::string>& arguments, const std::vector<Benchmark>& benchmarks);

/// Stopwatch that starts at construction.
class Seconds {
 public:
  double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace h5feed::bench
