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

#include "h5feed/dtype.hpp"
#include "h5feed/export.hpp"
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

/// out = (x · scale − mean) / std, per channel. Computed in float64 and rounded once to float32; for
/// uint8 by a table of 256 values a channel, hence correctly rounded for every input.
struct Normalize {
  /// Default: 1/255 for uint8 data, 1 for every other type.
  std::optional<double> scale;
  /// One value for all channels, or one a channel; empty = 0.
  std::vector<double> mean;
  /// As `mean`; empty = 1. Must not contain 0.
  std::vector<double> std;
};

/// When rows of uncompressed data bypass the chunk cache and are read straight into the batch.
/// `automatic`: in full shuffle where the decoded data does not fit the cache and a read of each row costs
/// less than reading its chunk as often as the cache will lose it; small rows and files that are not in
/// the page cache weigh against it.
enum class RowReads : std::uint8_t { automatic, always, never };

class DeviceBackend;

/// Options of `DataLoader`. An aggregate: name the fields you set. Everything is validated when the
/// loader is constructed; a wrong or contradictory value throws OptionError there.
struct DataLoaderOptions {
  /// Samples per batch, at least 1. `std::nullopt` delivers single samples without a batch dimension.
  std::optional<std::int64_t> batch_size = 1;
  Shuffle shuffle = {};
  /// Threads that read, decode and gather. 0 does the same work on the thread that calls `next()`.
  std::int64_t num_workers = 0;
  /// Batches prepared ahead, per worker, at least 1; default 2. Needs `num_workers > 0`.
  std::optional<std::int64_t> prefetch_factor = {};
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
  /// GPU with most free memory, else the CPU; without a backend the CPU.
  std::string device = "cpu";
  /// What knows GPUs: `h5feed::gpu::backend()` of <h5feed/gpu.hpp>. Unset: there are none.
  std::shared_ptr<const DeviceBackend> device_backend = {};
  /// Governs the order together with the epoch number. Default 0.
  std::optional<std::uint64_t> seed = {};
  /// Bytes of decoded chunks kept for reuse. Default: the least of 1 GiB, 25 % of the available
  /// memory, and what `memory_budget_bytes` leaves.
  std::optional<std::uint64_t> cache_bytes = {};
  /// Bound of all memory the loader allocates: cache, chunks being read and decoded, batches being
  /// prepared. Batches the consumer holds are outside. Default: 50 % of the available memory.
  std::optional<std::uint64_t> memory_budget_bytes = {};
  /// Stored chunks that are read ahead of decoding at once, 0 or more; default 2 a worker. Reading ahead
  /// begins when reads have to wait for the storage, and has threads of its own, at most 8. Fewer are
  /// read ahead where `memory_budget_bytes` has no room for them. Needs `num_workers > 0`.
  std::optional<std::int64_t> io_depth = {};
  /// Unset: batches have the stored type. Set: float32.
  std::optional<Normalize> normalize = {};
  /// Type of the targets; default int64 for integers, else as stored. A target that the type cannot hold is
  /// refused for targets that are read at open (64 MiB and less); larger ones convert as C++ does.
  std::optional<DType> target_dtype = {};
  RowReads row_reads = RowReads::automatic;
  /// Receives begin and end of every stage on every thread; unset costs nothing.
  std::shared_ptr<TraceSink> trace = {};
};

}  // namespace h5feed
