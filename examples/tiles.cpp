// SPDX-License-Identifier: Apache-2.0
// Reassembles the images or volumes of HDF5 files from their tiles, as one does with a network's output for
// each tile, and compares them with the originals. Where tiles overlap, a pixel is the average of the tiles'
// values, their average weighted by the nearness to the middle of each tile, or the last tile's value: with
// unchanged tiles, all reproduce the image. Images may differ in extent. Needs no LibTorch.
//
//   tiles slides.h5 --data images --size 512 --overlap 64 --edges shift --merge average
//   tiles scans.h5 --data raw --one-image --input-layout NDHW --size 64 --depth 64 --overlap 16 --merge
//   weighted
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <h5feed/data_loader.hpp>
#include <h5feed/sample_reader.hpp>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "examples/program.hpp"

namespace {

enum class Merge { average, weighted, last };

struct Settings {
  std::vector<std::string> files;
  std::string data;
  bool one_image = false;
  std::string input_layout = "auto";
  std::int64_t size = 512;
  std::int64_t depth = 0;
  std::int64_t overlap = 0;
  std::string edges = "shift";
  std::string merge = "average";
  std::int64_t images = 1;
  std::int64_t batch_size = 16;
  std::int64_t num_workers = 2;
};

using Extents = std::array<std::int64_t, 3>;  // depth, height and width; a depth of 1 in two dimensions

std::size_t index(std::int64_t place) { return static_cast<std::size_t>(place); }

/// Weights of the pixels of a tile along one axis: 1 in its middle, falling to the edges in a straight line.
std::vector<float> hat(std::int64_t size) {
  std::vector<float> weights(index(size));
  for (std::int64_t i = 0; i < size; ++i)
    weights[index(i)] = static_cast<float>(std::min(i + 1, size - i)) / static_cast<float>((size + 1) / 2);
  return weights;
}

/// An image assembled tile by tile, in the layout of the tiles: (C,D,H,W).
class Mosaic {
 public:
  Mosaic(std::int64_t channels, const Extents& image, const Extents& tile, Merge merge)
      : channels_(channels), image_(image), tile_(tile), merge_(merge) {
    sums_.resize(index(pixels() * channels));
    weights_.resize(index(pixels()));
    for (std::size_t axis = 0; axis < 3; ++axis) hats_[axis] = hat(tile[axis]);
  }

  /// Adds a tile that begins at `first`; ignores the part beyond the image.
  void add(std::span<const float> tile, const Extents& first) {
    for (std::int64_t z = 0; z < std::min(tile_[0], image_[0] - first[0]); ++z) {
      for (std::int64_t y = 0; y < std::min(tile_[1], image_[1] - first[1]); ++y) {
        for (std::int64_t x = 0; x < std::min(tile_[2], image_[2] - first[2]); ++x) {
          const float weight = weight_of(z, y, x);
          const std::int64_t pixel = ((first[0] + z) * image_[1] + first[1] + y) * image_[2] + first[2] + x;
          float& total = weights_[index(pixel)];
          total = merge_ == Merge::last ? 1 : total + weight;
          for (std::int64_t channel = 0; channel < channels_; ++channel) {
            const float value = tile[index(((channel * tile_[0] + z) * tile_[1] + y) * tile_[2] + x)];
            float& sum = sums_[index(channel * pixels() + pixel)];
            sum = merge_ == Merge::last ? value : sum + weight * value;
          }
        }
      }
    }
  }

  struct Comparison {
    std::int64_t different = 0;  ///< values that differ from the image's
    std::int64_t uncovered = 0;  ///< pixels that no tile covers
  };

  /// Compares with the image, which is at the beginning of an array of extents `stored`.
  Comparison compare(std::span<const float> image, const Extents& stored) const {
    Comparison found;
    for (std::int64_t z = 0; z < image_[0]; ++z) {
      for (std::int64_t y = 0; y < image_[1]; ++y) {
        for (std::int64_t x = 0; x < image_[2]; ++x) {
          const std::int64_t pixel = (z * image_[1] + y) * image_[2] + x;
          const float weight = weights_[index(pixel)];
          if (weight == 0) {
            ++found.uncovered;
            continue;
          }
          for (std::int64_t channel = 0; channel < channels_; ++channel) {
            const float value = sums_[index(channel * pixels() + pixel)] / weight;
            const float expected = image[index(((channel * stored[0] + z) * stored[1] + y) * stored[2] + x)];
            found.different += std::abs(value - expected) <= 1e-5F * std::abs(expected) ? 0 : 1;
          }
        }
      }
    }
    return found;
  }

  std::size_t bytes() const { return (sums_.size() + weights_.size()) * sizeof(float); }

 private:
  std::int64_t pixels() const { return image_[0] * image_[1] * image_[2]; }
  float weight_of(std::int64_t z, std::int64_t y, std::int64_t x) const {
    return merge_ == Merge::weighted ? hats_[0][index(z)] * hats_[1][index(y)] * hats_[2][index(x)] : 1;
  }

  std::int64_t channels_;
  Extents image_;
  Extents tile_;
  Merge merge_;
  std::array<std::vector<float>, 3> hats_;
  std::vector<float> sums_;     // of weight and value
  std::vector<float> weights_;  // sum of the weights for each pixel
};

h5feed::TileEdges edges_of(const std::string& name) {
  const std::map<std::string, h5feed::TileEdges> edges = {{"drop", h5feed::TileEdges::drop},
                                                          {"pad", h5feed::TileEdges::pad},
                                                          {"shift", h5feed::TileEdges::shift}};
  return edges.at(name);
}

Merge merge_of(const std::string& name) {
  const std::map<std::string, Merge> merges = {
      {"average", Merge::average}, {"weighted", Merge::weighted}, {"last", Merge::last}};
  return merges.at(name);
}

h5feed::InputLayout layout_of(const std::string& name) {
  using h5feed::InputLayout;
  const std::map<std::string, InputLayout> layouts = {
      {"auto", InputLayout::automatic}, {"NCHW", InputLayout::nchw},   {"NHWC", InputLayout::nhwc},
      {"NHW", InputLayout::nhw},        {"NCDHW", InputLayout::ncdhw}, {"NDHWC", InputLayout::ndhwc},
      {"NDHW", InputLayout::ndhw}};
  return layouts.at(name);
}

/// Replaces the library's option names by this program's.
std::string with_option_names(std::string text) {
  const std::vector<std::pair<std::string, std::string>> names = {
      {"tiles.edges = ", "--edges "},         {"tiles.size", "--size"},
      {"tiles.overlap", "--overlap"},         {"open it with sample = dataset", "add --one-image"},
      {"input_layout = ", "--input-layout "}, {", NHW, or none to deliver it as stored", " or NHW"}};
  for (const auto& [from, to] : names) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  }
  return text;
}

double mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

Extents extents_of(const h5feed::TileGrid& grid) {
  return {std::max<std::int64_t>(1, grid.image_depth), grid.image_height, grid.image_width};
}

std::string text(const h5feed::TileGrid& grid) {
  const std::string layers = grid.image_depth > 0 ? std::to_string(grid.image_depth) + "×" : "";
  return layers + std::to_string(grid.image_height) + "×" + std::to_string(grid.image_width);
}

void report(std::int64_t image, const Mosaic& mosaic, const Mosaic::Comparison& found,
            const h5feed::TileGrid& grid, std::size_t image_bytes) {
  if (found.different > 0) {
    throw std::runtime_error("image " + std::to_string(image) + ": " + std::to_string(found.different) +
                             " values differ from the image");
  }
  std::printf(
      "image %lld: %s put together from %lld tiles, every covered value equal, %lld pixels in no "
      "tile; extra memory %.1f MiB in addition to the image's %.1f MiB\n",
      static_cast<long long>(image), text(grid).c_str(), static_cast<long long>(grid.per_image()),
      static_cast<long long>(found.uncovered), mebibytes(mosaic.bytes()), mebibytes(image_bytes));
}

h5feed::Dataset open(const h5feed::DatasetOptions& options) {
  try {
    return h5feed::Dataset::open(options);
  } catch (const h5feed::OptionError& error) {
    throw h5feed::OptionError(with_option_names(error.what()));
  } catch (const h5feed::DatasetError& error) {
    throw h5feed::DatasetError(with_option_names(error.what()));
  }
}

void run(const Settings& settings) {
  h5feed::DatasetOptions images{.data = settings.data, .input_layout = layout_of(settings.input_layout)};
  images.files.assign(settings.files.begin(), settings.files.end());
  if (settings.one_image) images.sample = h5feed::SampleUnit::dataset;
  h5feed::DatasetOptions tiles = images;
  const h5feed::TileExtent size{settings.depth, settings.size, settings.size};
  tiles.tiles = h5feed::TileOptions{.size = size,
                                    .overlap = h5feed::TileExtent{settings.depth > 0 ? settings.overlap : 0,
                                                                  settings.overlap, settings.overlap},
                                    .edges = edges_of(settings.edges)};
  const h5feed::Dataset tiled = open(tiles);
  const std::int64_t count = std::min(settings.images, tiled.num_images());
  Extents largest = {1, 1, 1};
  std::int64_t wanted_tiles = 0;
  for (std::int64_t image = 0; image < count; ++image) {
    const h5feed::TileGrid grid = *tiled.tile_grid(image);
    for (std::size_t axis = 0; axis < 3; ++axis)
      largest[axis] = std::max(largest[axis], extents_of(grid)[axis]);
    wanted_tiles += grid.per_image();
  }
  // Each whole image is one tile of the largest extents.
  images.tiles = h5feed::TileOptions{.size = {settings.depth > 0 ? largest[0] : 0, largest[1], largest[2]},
                                     .edges = h5feed::TileEdges::pad};
  const h5feed::SampleReader whole(open(images), {.normalize = h5feed::Normalize{.scale = 1.0}});

  std::vector<std::int64_t> wanted(index(wanted_tiles));
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = static_cast<std::int64_t>(i);
  h5feed::DataLoader loader(tiled.subset(wanted), {.batch_size = settings.batch_size,
                                                   .num_workers = settings.num_workers,
                                                   .output_dtype = h5feed::DType::f32,
                                                   .provenance = true});
  // The tiles of an image are consecutive: one mosaic at a time is enough.
  const std::int64_t channels = tiled.sample_shape().front();
  const Extents tile = {std::max<std::int64_t>(1, settings.depth), settings.size, settings.size};
  const auto mosaic_of = [&](std::int64_t image) {
    return Mosaic(channels, extents_of(*tiled.tile_grid(image)), tile, merge_of(settings.merge));
  };
  Mosaic mosaic = mosaic_of(0);
  std::int64_t tiles_left = tiled.tile_grid(0)->per_image();
  for (const h5feed::Batch& batch : loader) {
    const auto values = batch.data.as<float>();
    const std::size_t tile_values = values.size() / batch.origins.size();
    for (std::size_t i = 0; i < batch.origins.size(); ++i) {
      const h5feed::SampleOrigin& origin = batch.origins[i];
      mosaic.add(values.subspan(i * tile_values, tile_values), {origin.z, origin.y, origin.x});
      if (--tiles_left > 0) continue;
      const h5feed::Batch image = whole.read(std::vector{origin.image});
      const h5feed::TileGrid grid = *tiled.tile_grid(origin.image);
      const Extents extents = extents_of(grid);
      report(origin.image, mosaic, mosaic.compare(image.data.as<float>(), largest), grid,
             index(extents[0] * extents[1] * extents[2] * channels) * h5feed::size_of(tiled.dtype()));
      if (origin.image + 1 == count) continue;
      mosaic = mosaic_of(origin.image + 1);
      tiles_left = tiled.tile_grid(origin.image + 1)->per_image();
    }
  }
  std::printf("%s\n", loader.report().c_str());
  std::printf("%llu chunks decoded for the tiles\n",
              static_cast<unsigned long long>(loader.stats().chunk_loads));
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Put images or volumes back together from their tiles, and compare", "tiles");
  app.add_option("FILE", settings.files, "HDF5 files with images, or volumes")->required();
  app.add_option("--data", settings.data,
                 "Dataset of the images; default: the only one that looks like images");
  app.add_flag("--one-image", settings.one_image,
               "Each dataset is one image, (H,W,C) or (H,W), or one volume, such as (D,H,W)");
  app.add_option("--input-layout", settings.input_layout, "auto, NCHW, NHWC, NHW, NCDHW, NDHWC or NDHW")
      ->check(CLI::IsMember({"auto", "NCHW", "NHWC", "NHW", "NCDHW", "NDHWC", "NDHW"}))
      ->capture_default_str();
  app.add_option("--size", settings.size, "Height and width of a tile")->capture_default_str();
  app.add_option("--depth", settings.depth, "Depth of a tile of a volume")->capture_default_str();
  app.add_option("--overlap", settings.overlap, "Pixels that neighbours share")->capture_default_str();
  app.add_option("--edges", settings.edges, "drop, pad or shift")
      ->check(CLI::IsMember({"drop", "pad", "shift"}))
      ->capture_default_str();
  app.add_option("--merge", settings.merge, "Of tiles that share a pixel: average, weighted, or last")
      ->check(CLI::IsMember({"average", "weighted", "last"}))
      ->capture_default_str();
  app.add_option("--images", settings.images, "How many images")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--batch-size", settings.batch_size, "Tiles per batch")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--num-workers", settings.num_workers, "Threads that read")->capture_default_str();
  return example::run_program(app, argc, argv, "tiles", [&] { run(settings); });
}
