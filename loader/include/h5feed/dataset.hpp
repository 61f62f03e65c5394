// A dataset: which HDF5 datasets hold the samples and targets, and what one sample looks like.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "h5feed/dtype.hpp"
#include "h5feed/export.hpp"

namespace h5feed {

/// How the stored dimensions are to be read. Images are delivered as (N,C,H,W) whatever the file has.
/// `automatic`: a 3-D uint8 dataset is NHW, a 4-D dataset with exactly one of axes 1 and −1 in
/// {1,3,4} is NCHW or NHWC; anything else must be stated. `none` delivers dimensions as stored.
enum class InputLayout : std::uint8_t { automatic, nchw, nhwc, nhw, none };

/// What to open.
struct DatasetOptions {
  /// One HDF5 file.
  std::vector<std::filesystem::path> files;
  /// Path of the samples within the file, (N,…). Empty: the only dataset that looks like images.
  std::string data;
  /// Path of the targets, (N) or (N,…). Empty: no target.
  std::string target;
  InputLayout input_layout = InputLayout::automatic;
};

struct DatasetAccess;
struct DatasetState;
class SampleSubset;

/// An opened dataset: metadata, the address of every chunk, and small fields (labels) in memory; or some of
/// its samples. A cheap handle on immutable shared state: copy it freely, use it from any thread. Loaders
/// of one opened dataset, and of its subsets, share the index and the chunk cache.
class H5FEED_EXPORT Dataset {
 public:
  /// Blocks for the metadata and for small fields (at most 64 MiB decoded), which are read whole.
  /// Throws FileError, DatasetError, ChunkError, OptionError.
  static Dataset open(const DatasetOptions& options);

  /// Copies share the state. Moving copies too, so that a moved-from handle stays usable.
  Dataset(const Dataset&) = default;
  Dataset& operator=(const Dataset&) = default;

  /// Number of samples at the time of opening; of the subset, where this is one.
  std::int64_t size() const noexcept;

  /// The samples with these numbers (from 0 to `size()` − 1), in this order when read sequentially. A batch's
  /// `indices` remain sample numbers of the file. 8 bytes a sample. Throws OptionError for a number outside,
  /// or one that comes twice (use a sampler for repeats), or an empty list.
  Dataset subset(std::span<const std::int64_t> samples) const;

  /// Disjoint random parts, in file order when read sequentially; a function of `seed` alone. `fractions`
  /// are above 0 and sum to 1; part i gets ⌊n · fractions[i]⌋ samples, and what is left over goes one each
  /// to the first parts, as in PyTorch's `random_split`. Throws OptionError, also for a part without samples.
  std::vector<Dataset> split(std::span<const double> fractions, std::uint64_t seed) const;
  std::vector<Dataset> split(std::initializer_list<double> fractions, std::uint64_t seed) const {
    return split(std::span<const double>(fractions.begin(), fractions.size()), seed);
  }

  /// Shape of one sample as delivered: (C,H,W) for images, as stored with `InputLayout::none`.
  const std::vector<std::int64_t>& sample_shape() const noexcept;
  /// Stored element type of the data.
  DType dtype() const noexcept;
  bool has_target() const noexcept;

  /// The state, for h5feed's own parts; not a stable interface.
  const std::shared_ptr<const DatasetState>& state() const noexcept { return state_; }
  /// Null: all samples.
  const std::shared_ptr<const SampleSubset>& chosen() const noexcept { return chosen_; }

 private:
  friend struct DatasetAccess;
  explicit Dataset(std::shared_ptr<const DatasetState> state) : state_(std::move(state)) {}
  std::shared_ptr<const DatasetState> state_;
  std::shared_ptr<const SampleSubset> chosen_;
};

}  // namespace h5feed
