// SPDX-License-Identifier: Apache-2.0
// Options of a data loader. Names and rules of exclusion follow PyTorch (torch.utils.data.DataLoader) for the
// options that PyTorch has.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "h5feed/augment.hpp"
#include "h5feed/device.hpp"
#include "h5feed/dtype.hpp"
#include "h5feed/export.hpp"
#include "h5feed/field.hpp"
#include "h5feed/gpu_probe.hpp"
#include "h5feed/sampler.hpp"
#include "h5feed/trace.hpp"

namespace h5feed {

/// Order of the samples of an epoch.
///
/// `sequential` follows the file. `full` permutes all samples. `chunk:K` permutes the chunks, then the
/// samples within windows of K chunks, so that each chunk is decoded once if the cache holds K chunks; K is
/// at most the number of chunks. Chunks that hold parts of the same samples count as one: with tiles, those
/// of an image. With windows, K counts groups of chunks (`PlanReport::chunks_per_group`). Converts implicitly
/// from `false`, `true` (= full), "sequential", "full" and "chunk:16".
class H5FEED_EXPORT Shuffle {
 public:
  /// Shuffle mode. `chunk` stands for `chunk:K`.
  enum class Kind : std::uint8_t { sequential, full, chunk };

  /// Creates a sequential order.
  Shuffle() = default;
  /// Parses "sequential", "false", "full", "true" or "chunk:K" with K at least 1. Throws OptionError, which
  /// names the accepted forms.
  // NOLINTNEXTLINE(google-explicit-constructor)
  Shuffle(std::string_view text);
  /// Parses the text as `Shuffle(std::string_view)` does.
  // NOLINTNEXTLINE(google-explicit-constructor)
  Shuffle(const char* text) : Shuffle(std::string_view(text)) {}
  /// Parses the text as `Shuffle(std::string_view)` does.
  // NOLINTNEXTLINE(google-explicit-constructor)
  Shuffle(const std::string& text) : Shuffle(std::string_view(text)) {}
  /// Creates a full shuffle if `full`, else a sequential order.
  // NOLINTNEXTLINE(google-explicit-constructor)
  Shuffle(bool full) : kind_(full ? Kind::full : Kind::sequential) {}

  /// Returns the shuffle mode.
  Kind kind() const noexcept { return kind_; }
  /// Returns K of `chunk:K`, in chunks; 0 for the other modes.
  std::uint64_t window_chunks() const noexcept { return window_chunks_; }
  /// Returns "sequential", "full" or "chunk:K".
  std::string to_string() const;

 private:
  Kind kind_ = Kind::sequential;
  std::uint64_t window_chunks_ = 0;
};

/// Memory layout of delivered images; the shape is (B,C,H,W) in both. `nchw`: row-major. `channels_last`:
/// PyTorch's memory format of that name, in which the strides place the channels of a pixel next to each
/// other.
enum class OutputLayout : std::uint8_t { nchw, channels_last };

/// Data echoing (Choi, Passos, Shallue, Dahl: "Faster Neural Network Training with Data Echoing", arXiv
/// 1907.05550), for training that waits for reading and decoding: each batch is delivered several times in a
/// row. Crops and flips of `augment` are drawn again for each repeat; a GPU applies them to the batch it
/// already holds. An epoch delivers every sample `factor` times, and `DataLoader::size()` counts all
/// deliveries. A batch that fails is reported once and not repeated.
struct Echo {
  /// Deliveries of each batch, 1 to 1024. 1: no echo.
  std::int64_t factor = 1;
};

/// Whether rows of uncompressed data bypass the chunk cache and are read directly into the batch. `never`:
/// all data goes through the cache. `always`: throws OptionError if rows cannot be read in one piece, and
/// with `CachePolicy::clairvoyant`. `automatic`: rows bypass the cache in a full shuffle if the decoded data
/// exceeds the cache and reading the rows is predicted to cost less than reading their chunks again after
/// each miss.
enum class RowReads : std::uint8_t { automatic, always, never };

/// Value of `DataLoaderOptions::num_workers`: the loader chooses the number of workers and adapts it.
inline constexpr std::int64_t kAuto = -1;

/// Treatment of samples that cannot be read or decoded. `fail`: `next()` throws for their batch. `skip`:
/// the batch is delivered without them, empty if none is left; positions and numbers of batches stay, on all
/// ranks alike. `replace`: each chunk that cannot be used is replaced by another chunk, drawn from (seed,
/// epoch, chunk, attempt), so that the batch keeps its size. `Batch::indices` names the samples delivered in
/// all cases.
enum class OnError : std::uint8_t { fail, skip, replace };

/// Returns "fail", "skip" or "replace".
H5FEED_EXPORT std::string_view name_of(OnError on_error) noexcept;

struct Batch;

/// Owner of the memory that GPU batches are delivered in. `ring`: a few reused buffers of the loader;
/// conversion runs ahead of the consumer on a stream of the loader. `consumer`: memory given to `next_into`,
/// such as tensors of LibTorch's allocator; conversion runs on the consumer's stream. Both allow `next()` and
/// `next_into()`; the chosen kind is preallocated.
enum class OutputMemory : std::uint8_t { ring, consumer };

/// Size of the cache of samples in GPU memory: a number of bytes, 0 for no cache, or "auto". Converts
/// implicitly from integers and from "auto".
class H5FEED_EXPORT GpuCacheBytes {
 public:
  /// Creates the size 0.
  GpuCacheBytes() = default;
  /// Creates a size in bytes. Throws OptionError if `bytes` is negative.
  template <std::integral Integer>
  // NOLINTNEXTLINE(google-explicit-constructor)
  requires(!std::same_as<Integer, bool>) GpuCacheBytes(Integer bytes)
      : bytes_(static_cast<std::uint64_t>(bytes)) {
    if (std::cmp_less(bytes, 0)) refuse_negative();
  }
  /// Accepts "auto". Throws OptionError for any other text.
  // NOLINTNEXTLINE(google-explicit-constructor)
  GpuCacheBytes(std::string_view text);
  /// Accepts "auto". Throws OptionError for any other text.
  // NOLINTNEXTLINE(google-explicit-constructor)
  GpuCacheBytes(const char* text) : GpuCacheBytes(std::string_view(text)) {}
  /// Accepts "auto". Throws OptionError for any other text.
  // NOLINTNEXTLINE(google-explicit-constructor)
  GpuCacheBytes(const std::string& text) : GpuCacheBytes(std::string_view(text)) {}

  /// Returns whether the size is "auto".
  bool automatic() const noexcept { return automatic_; }
  /// Returns the size in bytes; 0 if it is "auto".
  std::uint64_t bytes() const noexcept { return bytes_; }
  /// Returns whether there is a cache.
  bool enabled() const noexcept { return automatic_ || bytes_ > 0; }

 private:
  [[noreturn]] static void refuse_negative();

  bool automatic_ = false;
  std::uint64_t bytes_ = 0;
};

/// How the samples of an epoch are sharded across the ranks of data parallel training.
///
/// `strided`: rank r takes every world_size-th sample of the global order, so that the batches of all ranks
/// together equal the batches of a single process. `contiguous`: each rank takes a contiguous range of the
/// global order. `by_chunk`: each rank takes whole chunks, at least one, so that together the ranks read each
/// chunk once; chunks change ranks every epoch, and the shuffle works within the chunks of a rank.
enum class Shard : std::uint8_t { strided, contiguous, by_chunk };

/// How shards of different sizes are handled. The number of batches is the same on every rank in all modes.
/// `exact`: every sample is delivered once; some ranks deliver smaller, even empty, last batches (weight
/// gradients by batch size). `pad`: shards are filled up with samples from the beginning of the order.
/// `drop`: shards are cut to equal size.
enum class Uneven : std::uint8_t { exact, pad, drop };

/// Which data stays in memory if the decoded data exceeds `cache_bytes`.
///
/// `lru`: the most recently used chunks. `clairvoyant`: caches rows instead of chunks. The order of this
/// epoch and the next is known, so the loader keeps the rows that will be needed soonest and evicts those
/// needed latest (Belady, IBM Systems Journal 5(2), 1966). Needs far fewer decodes in a full shuffle, but
/// memory for one more chunk per concurrent decode and about 80 bytes per row. `keep_first`: keeps the first
/// chunks that fill the cache, less room for the chunks being decoded, and decodes all others at each use
/// (MinIO, arXiv 2007.06775).
enum class CachePolicy : std::uint8_t { lru, clairvoyant, keep_first };

/// Returns "lru", "clairvoyant" or "keep_first".
H5FEED_EXPORT std::string_view name_of(CachePolicy policy) noexcept;

/// Options of `DataLoader`: an aggregate for designated initializers. The constructor of the loader validates
/// all fields and throws OptionError for a wrong or contradictory value.
struct DataLoaderOptions {
  // Batch

  /// Samples per batch, 1 to 2³¹. `std::nullopt` delivers single samples without a batch dimension.
  std::optional<std::int64_t> batch_size = 1;
  /// Drops the last batch of an epoch if it is smaller than `batch_size`.
  bool drop_last = false;
  /// Batches of each epoch. Excludes `batch_size`, `shuffle`, `sampler` and `drop_last`.
  std::shared_ptr<const BatchSampler> batch_sampler = {};
  /// Last step of assembling a batch. May modify `data` and `target` or replace them by other tensors, whose
  /// memory is outside `memory_budget_bytes`. Called once per batch, also for batches that are never
  /// delivered, for several batches concurrently, on a thread of the loader that need not be a worker, so
  /// `worker_init_fn` may not have run there (with `num_workers = 0` on the caller's thread). An exception
  /// from it is thrown by the `next()` of its batch. Needs batches on the CPU. Default: the gathered samples
  /// are delivered unchanged.
  std::function<void(Batch&)> collate_fn = {};
  /// Whether batches are delivered in the order of the epoch. `false`: as they become ready, among the
  /// prefetched ones.
  bool in_order = true;
  /// Longest wait in `next()`, above 0; `next()` throws TimeoutError after it. Needs workers (`num_workers`
  /// not 0). Default: no limit.
  std::optional<std::chrono::milliseconds> timeout = {};
  /// Data echoing: repeated delivery of each batch. On the CPU, a factor above 1 adds memory for the repeats
  /// to every batch in preparation.
  Echo echo = {};

  // Order

  /// Order of the samples of an epoch. Default: sequential.
  Shuffle shuffle = {};
  /// Samples of each epoch and their order. Excludes `shuffle` and `batch_sampler`.
  std::shared_ptr<const Sampler> sampler = {};
  /// Determines the order, together with the epoch number. Default: 0; `make_data_loader` of
  /// <h5feed/torch.hpp> draws an unset seed from Torch's default generator instead. Must be set to the same
  /// value on every rank if `world_size` is above 1.
  std::optional<std::uint64_t> seed = {};

  // Workers

  /// Threads that read, decode and gather, 0 to 1024. They live as long as the loader, over all epochs. 0:
  /// the thread that calls `next()` does the work. `kAuto` (−1): the loader measures how fast batches are
  /// taken and made, and adapts the number of active workers, of prefetched batches and of reads in flight,
  /// within `memory_budget_bytes` and `cpu_limit`; it logs its choice. `prefetch_factor`, `prefetch_bytes`
  /// and `io_depth` bound what it may choose. The delivered batches do not depend on it.
  std::int64_t num_workers = 0;
  /// CPUs that the threads of the loader may use on average with `num_workers = kAuto`, above 0. The time
  /// that they wait for storage does not count. One worker always stays active. Default: the CPUs that this
  /// process may use (affinity, quota of the container), divided by `local_world_size` unless the affinity
  /// gives each process its own. Needs `num_workers = kAuto`.
  std::optional<double> cpu_limit = {};
  /// Batches prefetched per worker, 1 to 1024; with `kAuto` the most per active worker. Default: 2; with
  /// `kAuto` the loader chooses. Needs workers (`num_workers` not 0).
  std::optional<std::int64_t> prefetch_factor = {};
  /// Upper bound of the bytes of prefetched batches, regardless of `prefetch_factor`. Needs workers
  /// (`num_workers` not 0). Throws OptionError if it is smaller than one batch. Default: no bound.
  std::optional<std::uint64_t> prefetch_bytes = {};
  /// Stored chunks read ahead of decoding at once, 0 to 1024; with `kAuto` the most. Default: 2 per worker,
  /// with `kAuto` 4. Reading ahead starts when reads have to wait for storage, on at most 8 threads of its
  /// own, with `kAuto` 64. Fewer chunks are read ahead if `memory_budget_bytes` has no room for them. Needs
  /// workers (`num_workers` not 0).
  std::optional<std::int64_t> io_depth = {};
  /// Called once on each worker thread before its first task, with the worker's number, 0 … num_workers−1.
  /// `next()` waits for all of these calls; with `kAuto` only for those of the workers that it starts with.
  /// An exception from one is thrown by the first `next()` after it and by every later one.
  std::function<void(std::int64_t)> worker_init_fn = {};

  // Ranks

  /// Rank of this process in data parallel training, 0 … world_size − 1.
  std::int64_t rank = 0;
  /// Number of processes that train together, 1 to 2²⁰.
  std::int64_t world_size = 1;
  /// Number of processes that train together on this host, 0 to 2²⁰. They share it: the available memory from
  /// which the defaults of `cache_bytes` and `memory_budget_bytes` are computed, and the default of
  /// `cpu_limit`, are divided by it. 0: from the environment (LOCAL_WORLD_SIZE of torchrun,
  /// OMPI_COMM_WORLD_LOCAL_SIZE, MPI_LOCALNRANKS, SLURM_STEP_TASKS_PER_NODE, SLURM_NTASKS_PER_NODE), else 1.
  std::int64_t local_world_size = 0;
  /// How the samples are sharded across the ranks.
  Shard shard = Shard::strided;
  /// How shards of different sizes are handled.
  Uneven uneven = Uneven::exact;

  // Memory

  /// Bytes of decoded chunks, or of their rows, kept for reuse. Default: the least of 1 GiB, 25 % of the
  /// available memory, and the rest of `memory_budget_bytes`, of encoded images half of that rest. Loaders of
  /// one opened dataset with the policy
  /// `lru` share a cache: the largest value given applies and is the default of loaders made later; a loader
  /// that gives another value logs a warning.
  std::optional<std::uint64_t> cache_bytes = {};
  /// Which data stays in memory if the decoded data exceeds `cache_bytes`. `clairvoyant` excludes
  /// `RowReads::always` and sparse data. Unless all data fits the cache, it also throws OptionError for
  /// tiles, windows, mixtures, samplers, and the sequential order of a subset that is not in file order.
  CachePolicy cache_policy = CachePolicy::lru;
  /// Upper bound of all memory that the loaders of one opened dataset allocate together: cache, chunks being
  /// read and decoded, and batches being prepared. The largest value given applies; a loader that gives a
  /// different value logs a warning. Batches held by the consumer are not included. Encoded images that are
  /// larger than the samples wait for room in it; one that it cannot hold throws ChunkError. Default: 50 % of
  /// the available memory.
  std::optional<std::uint64_t> memory_budget_bytes = {};
  /// Loads all chunks into the cache when the loader is constructed, on as many threads as may decode
  /// concurrently (`num_workers`, fewer in a small budget). If they do not fit, none are loaded and a warning
  /// names the `cache_bytes` needed. If rows bypass the cache, none are loaded and a warning says so. A chunk
  /// that cannot be read is skipped; the batch that needs it throws.
  bool preload = false;
  /// Whether rows of uncompressed data bypass the chunk cache and are read directly into the batch.
  RowReads row_reads = RowReads::automatic;

  // Faults in the data

  /// Treatment of samples that cannot be read or decoded. Each fault is logged as a warning with file,
  /// dataset, chunk, address, filter and number of samples. Errors of options, of the consumer's own
  /// functions and of a device always fail.
  OnError on_error = OnError::fail;
  /// Largest share of the samples of an epoch of this rank that `on_error` may skip or replace, 0 … 1; the
  /// batch that exceeds it throws ChunkError. Each epoch, and each restored state, begins to count at 0.
  double max_bad_share = 0.01;
  /// File to which a line is appended for each fault, as tab-separated values with a header; `h5feed check
  /// --bad-list` writes the same. Default: none. Needs `on_error` other than `fail`. If there is no
  /// space for the header, the constructor of the loader throws FileError.
  std::filesystem::path bad_list = {};

  // Values

  /// Changes each sample in place, before `augment`, `normalize` and conversion. Type and shape stay. Called
  /// on the workers for several samples concurrently, once for each delivery of a sample (with
  /// `num_workers = 0` on the caller's thread), and again if bad data makes `on_error` prepare a batch again.
  /// If it is a pure function of its arguments, so are the delivered values, for any number of workers. An
  /// exception from it is thrown by the `next()` of its batch. Throws OptionError with `gpu_cache_bytes`, and
  /// with `echo` on a GPU, which repeat the sample as it is on the GPU.
  std::function<void(const SampleView&, const SampleKey&)> transform = {};
  /// Normalization of the data. Default: none. With it, batches are float32 unless `output_dtype` is set.
  /// With `DatasetOptions::unit_range`, mean and std apply to values in 0 … 1.
  std::optional<Normalize> normalize = {};
  /// Element type of the data: f32, f16, bf16 or f64. Without `normalize` the values are cast; values too
  /// large for the type become infinite. uint8 data yields the same bytes on every device. f64 is always
  /// computed on the CPU. Default: float32 with `normalize`, or with `DatasetOptions::unit_range` of
  /// integers; else the stored type.
  std::optional<DType> output_dtype = {};
  /// Memory layout of the delivered images. For images only.
  OutputLayout output_layout = OutputLayout::nchw;
  /// Random crops and flips. For images only. Unset: no augmentation.
  std::optional<Augment> augment = {};
  /// Element type of the targets. Default: int64 for integers, else the stored type. If an integer type
  /// cannot hold a value, targets that are read at open (at most 64 MiB) throw; larger ones convert as C++
  /// does. Floats round to nearest, and values too large for the type become infinite. f16 and bf16 only if
  /// the targets are stored so.
  std::optional<DType> target_dtype = {};

  // GPU

  /// Device that batches are delivered to: "cpu", or `h5feed::gpu::device(name)` of <h5feed/gpu.hpp> with the
  /// name "cuda" (= "cuda:0"), "cuda:N" with the CUDA ordinal N of this process, or "auto". "auto" selects
  /// the program's current CUDA device if it has set one, else the GPU with most free memory; without a
  /// usable GPU it selects the CPU, with a warning. With the loader of <h5feed/torch.hpp>, if h5feed and
  /// LibTorch are built with CUDA, the name alone suffices. The `report()` of the loader names the device.
  /// For several GPUs in one process, make one loader per GPU over one `Dataset`.
  LoaderDevice device = {};
  /// Whether CPU batches are assembled in pinned memory, so that the program's own copies of data and target
  /// to a GPU are asynchronous. Batches for a GPU are always assembled in pinned memory. Needs the backend of
  /// `h5feed::gpu::device("cpu")`; the loader of <h5feed/torch.hpp> adds it. Creates a CUDA context on the
  /// program's current device. Without backend or GPU, and if the driver refuses to pin, a warning is logged
  /// and batches are in pageable memory. A batch must be kept until the copies from it are done; tensors of
  /// <h5feed/torch.hpp> may be released at once, because LibTorch delays the reuse of its pinned memory.
  bool pin_memory = false;
  /// Batches copied to a GPU ahead of the consumer, 1 to 64. Default: 2. Each takes its stored bytes in
  /// pinned host memory and on the GPU, and with `OutputMemory::ring` also its delivered bytes on the GPU.
  std::optional<std::int64_t> copy_depth = {};
  /// Owner of the memory of GPU batches. Default: `ring`; `consumer` with the loader of <h5feed/torch.hpp>,
  /// whose GPU batches are tensors of LibTorch's allocator.
  std::optional<OutputMemory> output_memory = {};
  /// GPU memory for samples that stay there: a sample that was copied once is not read, decoded or copied
  /// again, and its crops, flips and normalization are made on the GPU from its stored bytes. What does not
  /// fit is read, decoded and copied in every epoch. Delivered values are the same with and without it. At
  /// most this many bytes, taken in blocks as samples come. "auto": what is free after the first 16 batches.
  /// A sixteenth of the GPU's memory stays free in both cases; if less than half of that is free, or an
  /// allocation of the loader or, with <h5feed/torch.hpp>, of LibTorch fails, blocks go back. Takes 60 to 110
  /// bytes of host memory per sample. No effect on the CPU, or below the size of one sample. Throws
  /// OptionError with `transform`, with windows, with tiles whose places or turns are drawn in each epoch,
  /// and with `augment` if the CPU has to crop, because the GPU does not convert to the type.
  GpuCacheBytes gpu_cache_bytes = {};

  // Observing

  /// Fills `Batch::origins`: file, dataset and row of each sample, and of a tile its position in the image.
  /// Allocates two strings per sample on the workers.
  bool provenance = false;
  /// Sink that is told when each stage begins and ends, on every thread. Default: no tracing, at no cost.
  std::shared_ptr<TraceSink> trace = {};
  /// File that gets a timeline of the stages on every thread when the loader is destroyed, in the JSON format
  /// of Chrome's trace viewer, which Perfetto (ui.perfetto.dev) shows. Holds the newest 262,144 stages, for
  /// which the loader takes 8 MiB. With `world_size` above 1 the rank is added to the name: "run.rank3.json".
  /// The file appears complete, and replaces one of that name; if it cannot be written then, a warning is
  /// logged. Throws OptionError if its folder cannot be written to, or if the file exists and does not begin
  /// as JSON does. Default: none.
  std::filesystem::path trace_path = {};
  /// Probe of the GPU in use, for `stats()` and the diagnosis of `report()`. Several loaders may share one
  /// probe.
  std::shared_ptr<const GpuProbe> gpu_probe = {};
  /// File to which a line of JSON is appended at the end of each epoch: `Verdict::to_json`. It is created if
  /// it does not exist; several loaders and ranks may append to one file. Default: none. A path that cannot
  /// be written, or a file that does not begin as JSON does, throws OptionError.
  std::filesystem::path epoch_log = {};
  /// For measurements: from the second batch on, the loader delivers its first batch again and again,
  /// without reading or decoding, in as many batches as an epoch has. The training then shows the speed that
  /// a perfect loader would give it. On the CPU these batches share one memory; `batch.indices` are those of
  /// the first. `state()` throws OptionError.
  bool headroom = false;
};

}  // namespace h5feed
