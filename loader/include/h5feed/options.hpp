// What a user may set on a data loader. Names and rules of exclusion are PyTorch's where PyTorch has
// the option (torch.utils.data.DataLoader).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "h5feed/device.hpp"
#include "h5feed/dtype.hpp"
#include "h5feed/export.hpp"
#include "h5feed/field.hpp"
#include "h5feed/gpu_probe.hpp"
#include "h5feed/sampler.hpp"
#include "h5feed/trace.hpp"

namespace h5feed {

/// Order of an epoch's samples.
///
/// `sequential` follows the file. `full` permutes all samples. `chunk:K` permutes the chunks and then
/// the samples within windows of K chunks, so that each chunk is decoded once while the cache holds K
/// of them. Converts from the literals users write: `false`, `true` (= full), "sequential", "full",
/// "chunk:16".
class H5FEED_EXPORT Shuffle {
 public:
  enum class Kind : std::uint8_t { sequential, full, chunk };

  Shuffle() = default;
  /// Throws OptionError, naming the accepted forms.
  Shuffle(std::string_view text);                                 // NOLINT(google-explicit-constructor)
  Shuffle(const char* text) : Shuffle(std::string_view(text)) {}  // NOLINT(google-explicit-constructor)
  Shuffle(const std::string& text)
      : Shuffle(std::string_view(text)) {}                             // NOLINT(google-explicit-constructor)
  Shuffle(bool full) : kind_(full ? Kind::full : Kind::sequential) {}  // NOLINT(google-explicit-constructor)

  Kind kind() const noexcept { return kind_; }
  /// K of `chunk:K`, in chunks; 0 for the other kinds.
  std::uint64_t window_chunks() const noexcept { return window_chunks_; }
  /// "sequential", "full" or "chunk:K".
  std::string to_string() const;

 private:
  Kind kind_ = Kind::sequential;
  std::uint64_t window_chunks_ = 0;
};

/// How the delivered images lie in memory. Shapes are (B,C,H,W) in both; `channels_last` is what PyTorch
/// calls by that name: the strides say that the channels of a pixel are neighbours.
enum class OutputLayout : std::uint8_t { nchw, channels_last };

/// Random changes of training images, drawn for every sample anew in every epoch. A pure function of (seed,
/// epoch, sample number), and with `echo` of the number of the repeat: the same for any number of workers,
/// world size and device. Applied before `normalize`. `Batch::transforms` says what was done.
struct Augment {
  /// A window at a random place of the image.
  struct RandomCrop {
    std::int64_t height = 0;   ///< in pixels; 0: that of the image
    std::int64_t width = 0;    ///< likewise
    std::int64_t padding = 0;  ///< pixels of value 0 added on each of the four sides before
  };
  /// Probability with which a sample is mirrored left to right, 0 … 1.
  double horizontal_flip = 0;
  /// Unset: the whole image.
  std::optional<RandomCrop> random_crop = {};
};

/// What is served again. `batch`: each batch, right after itself.
enum class EchoPoint : std::uint8_t { batch, example, chunk };

/// Data echoing (Choi, Passos, Shallue, Dahl: "Faster Neural Network Training with Data Echoing", arXiv
/// 1907.05550): where reading and decoding are slower than training, what was decoded is served several
/// times. Crops and flips of `augment` are drawn anew for each repeat; a GPU makes them from the batch that
/// is there already. An epoch delivers every sample `factor` times, and `DataLoader::size()` counts them all.
/// A batch that fails is reported once and not repeated.
struct Echo {
  std::int64_t factor = 1;  ///< at least 1: no echo
  /// Only `batch` works so far; the other points are refused.
  EchoPoint point = EchoPoint::batch;
};

/// When rows of uncompressed data bypass the chunk cache and are read straight into the batch.
/// `automatic`: in full shuffle where the decoded data does not fit the cache and a read of each row costs
/// less than reading its chunk as often as the cache will lose it; small rows and files that are not in
/// the page cache weigh against it.
enum class RowReads : std::uint8_t { automatic, always, never };

class DeviceBackend;
struct Batch;

/// Whose memory a GPU's batches are delivered in. `ring`: the loader's own, a few buffers that are used
/// again; conversion runs ahead of the consumer, on a stream of the loader. `consumer`: what `next_into` is
/// given, such as tensors from LibTorch's allocator; conversion runs on the consumer's stream. Either takes
/// `next()` and `next_into()`; what is said here is allocated beforehand.
enum class OutputMemory : std::uint8_t { ring, consumer };

/// How the samples of an epoch are dealt to the ranks of data parallel training.
///
/// `strided`: rank r takes every world_size-th sample of the global order, so that the batches of all ranks
/// together are the batches of a single process. `contiguous`: each rank takes a run of the global order.
/// `by_chunk`: each rank takes whole chunks, so that together the ranks read each chunk once; chunks change
/// hands every epoch, and the shuffle works within a rank's own.
enum class Shard : std::uint8_t { strided, contiguous, by_chunk };

/// What happens where the ranks' shares differ. The number of batches is the same on every rank in any case.
/// `exact`: every sample once; ranks deliver smaller, even empty, last batches (weight gradients by the
/// batch's size). `pad`: shares are filled up with samples from the beginning. `drop`: shares are cut.
enum class Uneven : std::uint8_t { exact, pad, drop };

/// What stays in memory when the decoded data does not fit `cache_bytes`.
///
/// `lru`: the chunks used last. `clairvoyant`: rows instead of chunks. The order of this epoch and of the
/// next is known, so of every decoded chunk those rows are kept that will be needed soonest, and a row that
/// was served makes room (Belady: "A study of replacement algorithms", IBM Systems Journal 5(2), 1966, by
/// rows). Far fewer decodes in a full shuffle; needs memory for one more chunk per concurrent decode, and
/// about 80 bytes a row. `never`: the first chunks that fill the cache stay for good, less those being
/// decoded; all others are decoded at each use (MinIO, arXiv 2007.06775).
enum class CachePolicy : std::uint8_t { lru, clairvoyant, never };

/// "lru", "clairvoyant" or "never".
H5FEED_EXPORT std::string_view name_of(CachePolicy policy) noexcept;

/// Options of `DataLoader`. An aggregate: name the fields you set. Everything is validated when the
/// loader is constructed; a wrong or contradictory value throws OptionError there.
struct DataLoaderOptions {
  /// Samples per batch, at least 1. `std::nullopt` delivers single samples without a batch dimension.
  std::optional<std::int64_t> batch_size = 1;
  Shuffle shuffle = {};
  /// The samples of each epoch and their order; excludes `shuffle`.
  std::shared_ptr<const Sampler> sampler = {};
  /// The batches of each epoch; excludes `batch_size`, `shuffle`, `sampler` and `drop_last`.
  std::shared_ptr<const BatchSampler> batch_sampler = {};
  /// Threads that read, decode and gather. 0 does the same work on the thread that calls `next()`.
  std::int64_t num_workers = 0;
  /// The last step of making a batch, on the worker that gathered it (with `num_workers = 0` on the caller's
  /// thread): may change the values of `data` and `target`, or put other tensors in their place, which take
  /// memory outside `memory_budget_bytes`. Called for several batches at once from different threads, once a
  /// batch, also for those that are never delivered; one call takes one worker for its time. What it throws
  /// arrives at the `next()` of its batch. Needs batches on the CPU. Default: the gathered samples.
  std::function<void(Batch&)> collate_fn = {};
  /// Batches prepared ahead, per worker, at least 1; default 2. Needs `num_workers > 0`.
  std::optional<std::int64_t> prefetch_factor = {};
  /// Bytes of batches prepared ahead at most, whatever `prefetch_factor` says; at least one batch. Needs
  /// `num_workers > 0`. Default: no such bound.
  std::optional<std::uint64_t> prefetch_bytes = {};
  /// Leave out the last batch of an epoch when it would be smaller than `batch_size`.
  bool drop_last = false;
  /// Longest wait in `next()`; needs `num_workers > 0`. Default: none.
  std::optional<std::chrono::milliseconds> timeout = {};
  /// Called once on each worker thread before its first task, with 0 … num_workers−1. `next()`
  /// waits for all of them. An exception from it arrives at the first `next()` and at every later one.
  std::function<void(int)> worker_init_fn = {};
  /// Workers always outlive the epoch; `false` is accepted and noted once.
  bool persistent_workers = true;
  /// `false` delivers batches as they become ready, within the prefetched ones.
  bool in_order = true;
  /// Where batches are delivered: "cpu"; with a `device_backend` also "cuda" (= "cuda:0") and "cuda:N", N as
  /// CUDA counts in this process. "auto" is the program's current CUDA device where it has set one, else the
  /// GPU with most free memory; where no GPU can be used, or without a backend, the CPU, with a warning. The
  /// loader's `report()` names the device.
  std::string device = "cpu";
  /// Several GPUs of this process, {"cuda:0", "cuda:1"}: each batch is divided among them, `Batch::parts`.
  /// Excludes `device`. (One loader a GPU over a shared `Dataset` works as well.)
  std::vector<std::string> devices = {};
  /// What knows GPUs: `h5feed::gpu::backend()` of <h5feed/gpu.hpp>. Unset: there are none.
  std::shared_ptr<const DeviceBackend> device_backend = {};
  /// Batches copied to a GPU ahead of the consumer, at least 1; default 2. Each takes its bytes as stored, in
  /// pinned host memory and on the GPU, and with `OutputMemory::ring` also as delivered.
  std::optional<std::int64_t> copy_depth = {};
  /// Where `next()` delivers what goes to a GPU, as `next_into()`; may be called from `next()` alone. Unset:
  /// in the loader's ring. The loader of <h5feed/torch.hpp> gives tensors of LibTorch's allocator.
  ProvideOutput provide_output = {};
  /// Default: consumer where `provide_output` is set, else ring.
  std::optional<OutputMemory> output_memory = {};
  /// Governs the order together with the epoch number. Default 0; to be set where `world_size` is above 1,
  /// the same on every rank.
  std::optional<std::uint64_t> seed = {};
  /// This process among those that train together, 0 … world_size − 1.
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  Shard shard = Shard::strided;
  Uneven uneven = Uneven::exact;
  /// Bytes of decoded chunks, or of their rows, kept for reuse. Default: the least of 1 GiB, 25 % of the
  /// available memory, and what `memory_budget_bytes` leaves. Loaders of one opened dataset with the policy
  /// `lru` share a cache: the largest figure counts, and is the default of those that join; a warning tells
  /// a loader that gives another figure.
  std::optional<std::uint64_t> cache_bytes = {};
  /// With `clairvoyant`, `row_reads` must not be `always`.
  CachePolicy cache_policy = CachePolicy::lru;
  /// Load all chunks into the cache when the loader is constructed, on as many threads as may decode at once
  /// (`num_workers`, fewer in a small budget). Where they do not fit, the constructor says from which
  /// `cache_bytes` they would, and loads none.
  bool preload = false;
  /// Bound of all memory the loader allocates: cache, chunks being read and decoded, batches being
  /// prepared; of all loaders of one opened dataset together, where the largest figure counts; a warning
  /// tells a loader that gives another figure. Batches the consumer holds are outside. Default: 50 % of the
  /// available memory.
  std::optional<std::uint64_t> memory_budget_bytes = {};
  /// Stored chunks that are read ahead of decoding at once, 0 or more; default 2 a worker. Reading ahead
  /// begins when reads have to wait for the storage, and has threads of its own, at most 8. Fewer are
  /// read ahead where `memory_budget_bytes` has no room for them. Needs `num_workers > 0`.
  std::optional<std::int64_t> io_depth = {};
  /// Unset: batches have the stored type, or `output_dtype`. Set: float32, or `output_dtype`.
  std::optional<Normalize> normalize = {};
  /// Type of the data: f32, f16, bf16 or f64; without `normalize` the values are cast, those too large for
  /// the type to infinity. uint8 data gives the same bytes on every device. Default: float32 with
  /// `normalize`, else as stored. A GPU does not make f64: the CPU does then.
  std::optional<DType> output_dtype = {};
  /// For images only.
  OutputLayout output_layout = OutputLayout::nchw;
  /// For images only. Unset: none.
  std::optional<Augment> augment = {};
  /// With a factor above 1 on the CPU, memory for the repeats is part of every batch in preparation.
  Echo echo = {};
  /// Type of the targets; default int64 for integers, else as stored. A target that an integer type cannot
  /// hold is refused for targets that are read at open (64 MiB and less); larger ones convert as C++ does.
  /// Floats round to the nearest, those too large for the type to infinity.
  std::optional<DType> target_dtype = {};
  /// `Batch::origins`: file, dataset and row of each sample, and of a tile its place in the image. Costs the
  /// workers two strings a sample.
  bool provenance = false;
  RowReads row_reads = RowReads::automatic;
  /// Receives begin and end of every stage on every thread; unset costs nothing.
  std::shared_ptr<TraceSink> trace = {};
  /// Looks at the GPU that is fed, for `stats()` and the verdict of `report()`; several loaders may share it.
  std::shared_ptr<const GpuProbe> gpu_probe = {};
};

}  // namespace h5feed
