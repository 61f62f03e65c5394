// SPDX-License-Identifier: Apache-2.0
#include "dataset/tile_labels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/byte_units.hpp"
#include "base/interrupt.hpp"
#include "base/option_spelling.hpp"
#include "base/system_limits.hpp"
#include "base/threads/share_out.hpp"
#include "base/with_type.hpp"
#include "dataset/tiles/foreground_places.hpp"
#include "h5feed/error.hpp"
#include "h5feed/log.hpp"
#include "plan/permutation.hpp"
#include "plan/sample_subset.hpp"
#include "plan/streams.hpp"
#include "store/format/chunk_geometry.hpp"

namespace h5feed {
namespace {

// Each tile takes 8 bytes while they are counted.
constexpr std::uint64_t kMostCountedTiles = std::uint64_t{1} << 32;
// Classes of all images together, each of which takes about 100 bytes.
constexpr std::uint64_t kMostClasses = std::uint64_t{1} << 20;
// Places of all classes together, of 8 bytes each.
constexpr std::uint64_t kMostPlaces = std::uint64_t{1} << 22;

// The labels of one image that are in one chunk.
struct LabelBlock {
  const std::byte* labels = nullptr;  // of the first pixel
  std::uint64_t image = 0;            // number among all images
  const TileRun& run;                 // of the image
  PerAxis<std::uint64_t> begin = {};  // first pixel in the image
  PerAxis<std::uint64_t> count = {};  // pixels in the block
  PerAxis<std::uint64_t> step = {};   // distance of neighbours, in elements
};

// Calls `take` for the labels of all images, chunk by chunk, from several threads.
class LabelScan {
 public:
  using Take = std::function<void(const LabelBlock&)>;

  LabelScan(const Field& labels, const Tiling& tiling, Take take)
      : labels_(labels), tiling_(tiling), take_(std::move(take)) {}

  void run() const {
    share_out(labels_.reader->num_chunks(), system_limits().cpus, [this] {
      return [this, scratch = ReadScratch{}, decoded = ByteBuffer{}](std::uint64_t chunk) mutable {
        check_interrupt();
        if (labels_.map.in_use(chunk)) read(chunk, scratch, decoded);
      };
    });
  }

 private:
  void read(std::uint64_t chunk, ReadScratch& scratch, ByteBuffer& decoded) const {
    decoded.resize_discard(labels_.reader->chunk_bytes());
    labels_.reader->read_chunk(chunk, decoded.span(), scratch);
    const RowLayout::Rows tiles = labels_.map.rows().rows_of(chunk / labels_.map.pieces());
    const TileRun& run = tiling_.run_of(tiles.first);
    LabelBlock block{.run = run};
    block.count = {1, 1, 1};
    const std::vector<std::uint64_t> cell = chunk_coordinates(chunk % labels_.map.pieces(), run.grid);
    for (std::size_t axis = 0; axis < kTileAxes; ++axis) {
      if (tiling_.dimensions()[axis] == 0) continue;
      const std::size_t d = tiling_.dimensions()[axis] - 1;
      block.begin[axis] = cell[d] * run.chunk_shape[d];
      block.count[axis] = std::min(run.chunk_shape[d], run.image_shape[d] - block.begin[axis]);
      block.step[axis] = 1;
      for (std::size_t inner = d + 1; inner < run.chunk_shape.size(); ++inner)
        block.step[axis] *= run.chunk_shape[inner];
    }
    for (std::uint64_t tile = tiles.first; tile < tiles.end; tile += run.per_image) {
      block.labels = labels_.map.row_in_chunk(decoded.data(), tile);
      block.image = tiling_.image_of(tile);
      take_(block);
    }
  }

  const Field& labels_;
  const Tiling& tiling_;
  const Take take_;
};

// The part of a block between two places of the image along each axis.
struct Part {
  PerAxis<std::uint64_t> begin = {};
  PerAxis<std::uint64_t> end = {};
};

// Calls `labelled(place in the image, label)` for each labelled pixel of a part of the block, in order.
template <typename T, typename Labelled>
void for_each_labelled(const LabelBlock& block, const Part& part, const Labelled& labelled) {
  const T* const labels = reinterpret_cast<const T*>(block.labels);
  for (std::uint64_t z = part.begin[0]; z < part.end[0]; ++z) {
    for (std::uint64_t y = part.begin[1]; y < part.end[1]; ++y) {
      const T* const row =
          labels + (z - block.begin[0]) * block.step[0] + (y - block.begin[1]) * block.step[1];
      for (std::uint64_t x = part.begin[2]; x < part.end[2]; ++x) {
        const T label = row[(x - block.begin[2]) * block.step[2]];
        if (label > T{0}) labelled(PerAxis<std::uint64_t>{z, y, x}, label);
      }
    }
  }
}

Part whole_block(const LabelBlock& block) {
  Part part{.begin = block.begin};
  for (std::size_t axis = 0; axis < kTileAxes; ++axis) part.end[axis] = block.begin[axis] + block.count[axis];
  return part;
}

// Calls `f` with a value of the type of the labels, which are integers.
template <typename F>
void with_label_type(DType dtype, const F& f) {
  with_type_of(dtype, [&](auto value) {
    if constexpr (std::is_integral_v<decltype(value)>) f(value);
  });
}

// Counts the labelled pixels of each tile of a grid.
std::vector<std::uint64_t> count_labelled(const Field& labels, const Tiling& tiling) {
  if (tiling.num_tiles() > kMostCountedTiles) {
    throw DatasetError(fmt::format("{}: {} tiles are too many to be chosen by {}; use a larger {}",
                                   labels.info().place(), format_count(tiling.num_tiles()),
                                   spelled("tiles.min_foreground"), spelled("tiles.stride")));
  }
  std::vector<std::uint64_t> counts(tiling.num_tiles());
  const auto take = [&](const LabelBlock& block) {
    const auto& axes = block.run.axes;
    const Part all = whole_block(block);
    PerAxis<TileAxis::Run> touching;
    for (std::size_t axis = 0; axis < kTileAxes; ++axis)
      touching[axis] = axes[axis].touching(all.begin[axis], all.end[axis]);
    const std::uint64_t first_tile = tiling.first_tile_of(block.image);
    for (std::uint64_t z = touching[0].first; z < touching[0].end; ++z) {
      for (std::uint64_t y = touching[1].first; y < touching[1].end; ++y) {
        for (std::uint64_t x = touching[2].first; x < touching[2].end; ++x) {
          Part part;
          const PerAxis<std::uint64_t> place = {z, y, x};
          for (std::size_t axis = 0; axis < kTileAxes; ++axis) {
            const TileWindow window = axes[axis].window(place[axis]);
            part.begin[axis] = std::max(all.begin[axis], window.begin);
            part.end[axis] = std::min(all.end[axis], window.end);
          }
          std::uint64_t labelled = 0;
          with_label_type(labels.info().dtype, [&](auto type) {
            for_each_labelled<decltype(type)>(block, part, [&](const auto&, auto) { ++labelled; });
          });
          const std::uint64_t tile = first_tile + (z * axes[1].count + y) * axes[2].count + x;
          std::atomic_ref(counts[tile]).fetch_add(labelled, std::memory_order_relaxed);
        }
      }
    }
  };
  LabelScan(labels, tiling, take).run();
  return counts;
}

// Pixels drawn evenly from all that are added: those with the smallest random keys, so that the result does
// not depend on the order of adding.
class DrawnPixels {
 public:
  void add(std::uint64_t key, std::uint64_t pixel, std::uint64_t most) {
    if (kept_.size() >= most && key >= limit_) return;
    kept_.emplace_back(key, pixel);
    if (kept_.size() >= 2 * most) keep(most);
  }
  void add(const DrawnPixels& others, std::uint64_t most) {
    for (const auto& [key, pixel] : others.kept_) add(key, pixel, most);
  }
  /// Drops all but `most` pixels.
  void keep(std::uint64_t most) {
    if (kept_.size() <= most) return;
    const auto end = kept_.begin() + static_cast<std::ptrdiff_t>(most);
    std::ranges::nth_element(kept_, end - 1);
    limit_ = (end - 1)->first;
    kept_.erase(end, kept_.end());
  }
  std::uint64_t size() const noexcept { return kept_.size(); }
  ForegroundPlaces::OfClass pixels() {
    std::ranges::sort(kept_);
    ForegroundPlaces::OfClass pixels;
    pixels.reserve(kept_.size());
    for (const auto& [key, pixel] : kept_) pixels.push_back(pixel);
    return pixels;
  }

 private:
  std::vector<std::pair<std::uint64_t, std::uint64_t>> kept_;
  std::uint64_t limit_ = UINT64_MAX;  // keys from here on are not among the smallest
};

// The pixels drawn from each class of each image, within a bound on their number. Thread-safe.
class Classes {
 public:
  using OfImage = std::map<std::uint64_t, DrawnPixels>;  // by class

  Classes(std::uint64_t images, std::string place) : images_(images), place_(std::move(place)) {}

  void add(std::uint64_t image, const OfImage& found) H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    for (const auto& [label, pixels] : found) {
      const auto [at, added] = images_[image].try_emplace(label);
      classes_ += added ? 1 : 0;
      const std::uint64_t before = std::min(at->second.size(), most_);
      at->second.add(pixels, most_);
      places_ += std::min(at->second.size(), most_) - before;
    }
    if (classes_ > kMostClasses) {
      throw DatasetError(
          fmt::format("{}: more than {} classes in all images together; the values seem to number objects; "
                      "{} needs labels "
                      "that name classes",
                      place_, format_count(kMostClasses), spelled("tiles.foreground")));
    }
    while (places_ > kMostPlaces) halve();
  }

  ForegroundPlaces take() H5FEED_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    std::vector<std::vector<ForegroundPlaces::OfClass>> all(images_.size());
    for (std::size_t image = 0; image < all.size(); ++image) {
      for (auto& [label, pixels] : images_[image]) {
        pixels.keep(most_);
        all[image].push_back(pixels.pixels());
      }
    }
    return ForegroundPlaces(all);
  }

 private:
  // The number of halvings depends on all pixels, not on their order: it only grows while they are added.
  void halve() H5FEED_REQUIRES(mutex_) {
    most_ = std::max<std::uint64_t>(1, most_ / 2);
    places_ = 0;
    for (OfImage& classes : images_) {
      for (auto& [label, pixels] : classes) {
        pixels.keep(most_);
        places_ += pixels.size();
      }
    }
  }

  Mutex mutex_;
  std::vector<OfImage> images_ H5FEED_GUARDED_BY(mutex_);
  std::uint64_t most_ H5FEED_GUARDED_BY(mutex_) = ForegroundPlaces::kMostPerClass;
  std::uint64_t classes_ H5FEED_GUARDED_BY(mutex_) = 0;
  std::uint64_t places_ H5FEED_GUARDED_BY(mutex_) = 0;
  const std::string place_;
};

ForegroundPlaces draw_places(const Field& labels, const Tiling& tiling) {
  Classes classes(tiling.num_images(), labels.info().place());
  const auto take = [&](const LabelBlock& block) {
    Classes::OfImage found;
    DrawnPixels* pixels = nullptr;  // of `last`
    std::uint64_t last = 0;
    const auto& axes = block.run.axes;
    with_label_type(labels.info().dtype, [&](auto type) {
      for_each_labelled<decltype(type)>(block, whole_block(block), [&](const auto& place, auto label) {
        const auto number = static_cast<std::uint64_t>(label);
        if (pixels == nullptr || number != last) pixels = &found[last = number];
        const std::uint64_t pixel = (place[0] * axes[1].extent + place[1]) * axes[2].extent + place[2];
        pixels->add(mix_key(block.image, kLabelPixel, pixel), pixel, ForegroundPlaces::kMostPerClass);
      });
    });
    classes.add(block.image, found);
  };
  LabelScan(labels, tiling, take).run();
  return classes.take();
}

// Returns whether a sample has as many elements as pixels.
bool one_label_per_pixel(const Field& labels) {
  std::uint64_t pixels = 1;
  for (const std::uint64_t extent : labels.map.tiling()->rule().size) pixels *= extent;
  return labels.info().row_elements() == pixels;
}

// Returns the field with the labels. Throws OptionError if there is none, DatasetError if it cannot tell the
// class of each pixel.
Field& labels_of(DatasetState& state, const char* option) {
  const std::string& name = state.options.tiles->labels;
  Field* labels = nullptr;
  if (name.empty()) {
    if (!state.target) {
      throw OptionError(
          fmt::format("{} needs labels: name their dataset as {}, or as a field and that with {}",
                      spelled(option), spelled("target"), spelled("tiles.labels")));
    }
    labels = &*state.target;
  } else {
    const auto named = std::ranges::find_if(
        state.fields, [&](const NamedField& field) { return field.options.name == name; });
    if (named == state.fields.end()) {
      throw OptionError(
          fmt::format("{} names no field: there is no \"{}\"; add it to the fields, or leave it "
                      "unset to use the target",
                      spelled("tiles.labels"), name));
    }
    if (named->rows) labels = &*named->rows;
  }
  if (labels != nullptr && labels->map.tiled() && one_label_per_pixel(*labels) &&
      is_integer(labels->info().dtype))
    return *labels;
  throw DatasetError(
      fmt::format("{}: {} needs an integer for each pixel of an image, of one channel and with the extents "
                  "of the images{}",
                  labels == nullptr ? "field \"" + name + "\"" : labels->info().place(), spelled(option),
                  labels == nullptr ? "" : "; it is " + labels->info().shape_text()));
}

void keep_labelled(DatasetState& state, const Field& labels, double least) {
  const Tiling& tiling = *labels.map.tiling();
  const std::vector<std::uint64_t> counts = count_labelled(labels, tiling);
  double pixels = 1;
  for (const std::uint64_t extent : tiling.rule().size) pixels *= static_cast<double>(extent);
  std::vector<std::uint64_t> kept;
  for (std::uint64_t tile = 0; tile < counts.size(); ++tile) {
    if (static_cast<double>(counts[tile]) >= least * pixels) kept.push_back(tile);
  }
  if (kept.empty()) {
    throw DatasetError(fmt::format("{}: none of {} tiles has a share of {} labelled pixels; use a smaller {}",
                                   labels.info().place(), format_count(counts.size()), least,
                                   spelled("tiles.min_foreground")));
  }
  log(LogLevel::info,
      fmt::format("{}: {} of {} tiles have a smaller share of labelled pixels than {} and are left out",
                  labels.info().place(), format_count(counts.size() - kept.size()),
                  format_count(counts.size()), least));
  if (kept.size() < counts.size()) state.kept = std::make_shared<const SampleSubset>(std::move(kept));
}

}  // namespace

void apply_labels(DatasetState& state) {
  const TileOptions& options = *state.options.tiles;
  if (options.min_foreground > 0)
    keep_labelled(state, labels_of(state, "tiles.min_foreground"), options.min_foreground);
  if (options.foreground == 0) return;
  const Field& labels = labels_of(state, "tiles.foreground");
  const auto places = std::make_shared<const ForegroundPlaces>(draw_places(labels, *labels.map.tiling()));
  state.tiling = state.tiling->with_foreground(places);
  const auto set = [&](Field& field) {
    if (field.map.tiled()) field.map.set_foreground(places);
  };
  set(state.data);
  if (state.target) set(*state.target);
  for (NamedField& field : state.fields) {
    if (field.rows) set(*field.rows);
  }
}

}  // namespace h5feed
