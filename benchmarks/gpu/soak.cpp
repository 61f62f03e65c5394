// SPDX-License-Identifier: Apache-2.0
// Very many small batches, and a consumer that does everything that is allowed: uses several streams, some of
// them slow, and keeps and releases batches in any order. Every batch is compared on the GPU.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <random>
#include <stdexcept>
#include <utility>

#include "cuda/runtime/handles.hpp"
#include "gpu/bench.hpp"
#include "gpu/kernels.hpp"
#include "h5feed/device.hpp"
#include "h5feed/gpu.hpp"
#include "store/filters/filters.hpp"
#include "store/write/h5_writer.hpp"
#include "tools/program/progress.hpp"
#include "tools/storage/parallel_write.hpp"

namespace h5feed::bench {
namespace {

using gpu::check;

constexpr std::size_t kStreams = 4;
constexpr std::size_t kMostKept = 5;
constexpr std::uint64_t kSlowNs = 300'000;

std::filesystem::path write_soak_file(Bench& bench) {
  const std::filesystem::path path = bench.folder() / "soak.h5";
  const std::uint64_t bytes = bench.sizes.soak_sample_bytes;
  const NewDataset data{.path = "/rows",
                        .dtype = DType::u8,
                        .shape = {bench.sizes.soak_samples, bytes},
                        .chunk_shape = {std::min<std::uint64_t>(bench.sizes.soak_samples, 256), bytes},
                        .filters = parse_filters("lz4", 1)};
  H5Writer writer(path, true);
  cli::Progress progress("", cli::ProgressUnit::bytes, 1);
  cli::write_rows_in_parallel(
      writer, data, cli::Production::parallel,
      [&](std::uint64_t first, std::uint64_t count, std::span<std::byte> out) {
        for (std::uint64_t i = 0; i < count * bytes; ++i) {
          out[i] = static_cast<std::byte>(soak_byte(static_cast<std::uint32_t>(first + i / bytes),
                                                    static_cast<std::uint32_t>(i % bytes)));
        }
      },
      progress);
  writer.commit();
  return path;
}

double resident_bytes() {
  std::ifstream in("/proc/self/statm");
  double pages = 0, resident = 0;
  in >> pages >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

double device_bytes_used() {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo", {});
  return static_cast<double>(total - free);
}

struct Memory {
  double device = device_bytes_used();
  double host = resident_bytes();
};

class AdversarialConsumer {
 public:
  explicit AdversarialConsumer(int device) : guard_(device), device_(device) {
    for (std::size_t i = 0; i < kStreams; ++i) streams_.push_back(gpu::make_stream(device));
    wrong_ = gpu::make_device_memory(sizeof(std::uint32_t), device);
    forget_wrong_samples();
  }

  /// Proves that the check detects wrong samples, by expecting a wrong sample number. Throws
  /// std::runtime_error if it does not.
  void prove_that_it_notices(const Batch& batch) {
    SoakCheck what = check_of(batch);
    what.expected[what.samples / 2] += 1;
    batch.gpu->use_on(streams_[0].get());
    check(launch_soak_check(what, streams_[0].get()), "check", {device_});
    if (const std::uint32_t wrong = wrong_samples(); wrong != 1) {
      throw std::runtime_error(fmt::format("the check found {} wrong samples where 1 was planted", wrong));
    }
    forget_wrong_samples();
  }

  void take(Batch batch) {
    const SoakCheck what = check_of(batch);
    const std::size_t uses = 1 + below(3);
    for (std::size_t i = 0; i < uses; ++i) {
      const cudaStream_t stream = streams_[below(kStreams)].get();
      batch.gpu->use_on(stream);
      // A slow stream: the memory must not be overwritten before the check that is queued behind the delay
      // has run.
      if (below(64) == 0) check(launch_spin(kSlowNs, 1, stream), "spin", {device_});
      check(launch_soak_check(what, stream), "check", {device_});
    }
    samples_checked_ += what.samples * uses;
    kept_.push_back(std::move(batch));
    while (kept_.size() > below(kMostKept + 1)) {
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(below(kept_.size())));
    }
  }

  void wait() {
    for (const gpu::Stream& stream : streams_) {
      check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize", {device_});
    }
  }
  std::uint32_t wrong_samples() {
    wait();
    std::uint32_t wrong = 0;
    check(cudaMemcpyAsync(&wrong, wrong_.get(), sizeof wrong, cudaMemcpyDeviceToHost, streams_[0].get()),
          "cudaMemcpyAsync", {device_});
    wait();
    return wrong;
  }
  std::uint64_t samples_checked() const noexcept { return samples_checked_; }
  void let_all_go() { kept_.clear(); }

 private:
  SoakCheck check_of(const Batch& batch) const {
    SoakCheck what;
    const DeviceTensor& data = batch.gpu->data();
    what.data = static_cast<const std::uint8_t*>(data.data);
    what.samples = static_cast<std::uint32_t>(batch.size());
    what.sample_bytes = static_cast<std::uint32_t>(data.shape.at(1));
    if (what.samples > kSoakSamples) throw std::logic_error("a check takes at most 256 samples");
    for (std::uint32_t i = 0; i < what.samples; ++i) {
      what.expected[i] = static_cast<std::uint32_t>(batch.indices[i]);
    }
    what.wrong_samples = static_cast<std::uint32_t*>(wrong_.get());
    return what;
  }
  void forget_wrong_samples() {
    check(cudaMemsetAsync(wrong_.get(), 0, sizeof(std::uint32_t), streams_[0].get()), "cudaMemsetAsync",
          {device_});
    wait();
  }
  std::size_t below(std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_);
  }

  gpu::DeviceGuard guard_;
  int device_;
  std::vector<gpu::Stream> streams_;
  gpu::DeviceMemory wrong_;
  std::mt19937 random_{1};
  std::deque<Batch> kept_;
  std::uint64_t samples_checked_ = 0;
};

}  // namespace

std::vector<Row> measure_soak(Bench& bench) {
  const Dataset data =
      Dataset::open({.files = {write_soak_file(bench)}, .data = "rows", .input_layout = InputLayout::none});
  DataLoaderOptions options = bench.decoding_options(bench.sizes.soak_batch_size);
  options.shuffle = true;
  options.cache_bytes = std::uint64_t{4} << 30;  // holds the whole file, so that copies dominate the time
  options.device = gpu::device(fmt::format("cuda:{}", bench.device));
  AdversarialConsumer consumer(bench.device);
  DataLoader loader(data, options);

  const std::uint64_t warm_batches = bench.sizes.soak_batches / 5;
  Memory before, after;
  const Seconds clock;
  for (std::uint64_t taken = 0; taken < bench.sizes.soak_batches;) {
    std::optional<Batch> batch = loader.next();
    if (!batch) continue;  // end of an epoch: the next call starts another one
    if (taken == 0) consumer.prove_that_it_notices(*batch);
    consumer.take(std::move(*batch));
    if (++taken == warm_batches) before = Memory();
  }
  const std::uint32_t wrong = consumer.wrong_samples();
  after = Memory();
  const double seconds = clock.elapsed();
  consumer.let_all_go();

  const auto row = [](const char* name, const char* unit, double value, double ceiling, std::string note) {
    return Row{.name = name, .unit = unit, .pairs = {{value}, {ceiling}}, .note = std::move(note)};
  };
  return {row("soak", "wrong samples", wrong, static_cast<double>(consumer.samples_checked()),
              fmt::format("of the samples compared on the GPU, {} batches of {} in {:.1f} s",
                          bench.sizes.soak_batches, bench.sizes.soak_batch_size, seconds)),
          row("soak_device_growth", "B", after.device - before.device, before.device,
              "GPU memory in use after the last batch, less that after a fifth of them"),
          row("soak_host_growth", "B", after.host - before.host, before.host,
              "resident memory of the process, pinned slots included, likewise")};
}

}  // namespace h5feed::bench
