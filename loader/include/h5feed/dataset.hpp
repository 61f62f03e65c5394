// A dataset: which HDF5 datasets hold the samples and targets, and what one sample looks like.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
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

/// An opened dataset: metadata, the address of every chunk, and small fields (labels) in memory.
/// A cheap handle on immutable shared state: copy it freely, use it from any thread.
class H5FEED_EXPORT Dataset {
 public:
  /// Blocks for the metadata and for small fields (at most 64 MiB decoded), which are read whole.
  /// Throws FileError, DatasetError, ChunkError, OptionError.
  static Dataset open(const DatasetOptions& options);

  /// Copies share the state. Moving copies too, so that a moved-from handle stays usable.
  Dataset(const Dataset&) = default;
  Dataset& operator=(const Dataset&) = default;

  /// Number of samples at the time of opening.
  std::int64_t size() const noexcept;
  /// Shape of one sample as delivered: (C,H,W) for images, as stored with `InputLayout::none`.
  const std::vector<std::int64_t>& sample_shape() const noexcept;
  /// Stored element type of the data.
  DType dtype() const noexcept;
  bool has_target() const noexcept;

  /// The state, for h5feed's own parts; not a stable interface.
  const std::shared_ptr<const DatasetState>& state() const noexcept { return state_; }

 private:
  friend struct DatasetAccess;
  explicit Dataset(std::shared_ptr<const DatasetState> state) : state_(std::move(state)) {}
  std::shared_ptr<const DatasetState> state_;
};

}  // namespace h5feed
