// SPDX-License-Identifier: Apache-2.0
// Reassembles the images of an HDF5 file from their tiles, as one does with a network's output for each tile,
// and compares them with the original images. Where tiles overlap, a pixel is the average of the tiles'
// values or the last tile's value: with unchanged tiles, both reproduce the image exactly. Needs no LibTorch.
//
//   tiles slides.h5 --data images --size 512 --overlap 64 --edges shift --merge average
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <h5feed/data_loader.hpp>
#include <h5feed/sample_reader.hpp>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "examples/program.hpp"

namespace {

struct Settings {
  std::string file;
  std::string data;
  bool one_image = false;
  std::string input_layout = "auto";
  std::int64_t size = 512;
  std::int64_t overlap = 0;
  std::string edges = "shift";
  std::string merge = "average";
  std::int64_t images = 1;
  std::int64_t batch_size = 16;
  std::int64_t num_workers = 2;
};

/// An image assembled tile by tile, in the layout of the tiles: (C,H,W).
class Mosaic {
 public:
  Mosaic(std::int64_t channels, const h5feed::TileGrid& grid, bool average)
      : channels_(channels), height_(grid.image_height), width_(grid.image_width), average_(average) {
    const auto pixels = static_cast<std::size_t>(height_ * width_);
    const std::size_t values = pixels * static_cast<std::size_t>(channels_);
    covers_.resize(pixels);
    average_ ? sums_.resize(values) : last_.resize(values);
  }

  /// Adds `tile`, (C,size,size); ignores the part beyond the image.
  void add(const std::uint8_t* tile, std::int64_t size, std::int64_t y, std::int64_t x) {
    const std::int64_t rows = std::min(size, height_ - y);
    const std::int64_t columns = std::min(size, width_ - x);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        ++covers_[index((y + row) * width_ + x + column)];
        for (std::int64_t channel = 0; channel < channels_; ++channel) {
          const std::size_t to = index((channel * height_ + y + row) * width_ + x + column);
          const std::uint8_t value = tile[(channel * size + row) * size + column];
          average_ ? sums_[to] += value : last_[to] = value;
        }
      }
    }
  }

  struct Comparison {
    std::int64_t different = 0;  ///< values that differ from the image's
    std::int64_t uncovered = 0;  ///< pixels that no tile covers
  };

  Comparison compare(const std::uint8_t* image) const {
    Comparison found;
    const std::int64_t pixels = height_ * width_;
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
      const std::uint32_t times = covers_[index(pixel)];
      if (times == 0) {
        ++found.uncovered;
        continue;
      }
      for (std::int64_t channel = 0; channel < channels_; ++channel) {
        const std::size_t at = index(channel * pixels + pixel);
        const bool equal = average_ ? sums_[at] == image[at] * times : last_[at] == image[at];
        found.different += equal ? 0 : 1;
      }
    }
    return found;
  }

  std::size_t bytes() const {
    return sums_.size() * sizeof(std::uint32_t) + last_.size() + covers_.size() * sizeof(std::uint32_t);
  }

 private:
  static std::size_t index(std::int64_t place) { return static_cast<std::size_t>(place); }

  std::int64_t channels_;
  std::int64_t height_;
  std::int64_t width_;
  bool average_;
  std::vector<std::uint32_t> sums_;    // one sum per value; exact for whole numbers
  std::vector<std::uint8_t> last_;     // last tile's values instead of sums
  std::vector<std::uint32_t> covers_;  // number of tiles that cover each pixel
};

h5feed::TileEdges edges_of(const std::string& name) {
  const std::map<std::string, h5feed::TileEdges> edges = {{"drop", h5feed::TileEdges::drop},
                                                          {"pad", h5feed::TileEdges::pad},
                                                          {"shift", h5feed::TileEdges::shift}};
  return edges.at(name);
}

h5feed::InputLayout layout_of(const std::string& name) {
  const std::map<std::string, h5feed::InputLayout> layouts = {{"auto", h5feed::InputLayout::automatic},
                                                              {"NCHW", h5feed::InputLayout::nchw},
                                                              {"NHWC", h5feed::InputLayout::nhwc},
                                                              {"NHW", h5feed::InputLayout::nhw}};
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

void report(std::int64_t image, const Mosaic& mosaic, const std::vector<std::uint8_t>& whole,
            const h5feed::TileGrid& grid) {
  const Mosaic::Comparison found = mosaic.compare(whole.data());
  if (found.different > 0) {
    throw std::runtime_error("image " + std::to_string(image) + ": " + std::to_string(found.different) +
                             " values differ from the image");
  }
  std::printf(
      "image %lld: %lld×%lld put together from %lld tiles, every covered value equal, %lld pixels in no "
      "tile; extra memory %.1f MiB in addition to the image's %.1f MiB\n",
      static_cast<long long>(image), static_cast<long long>(grid.image_height),
      static_cast<long long>(grid.image_width), static_cast<long long>(grid.per_image()),
      static_cast<long long>(found.uncovered), mebibytes(mosaic.bytes()), mebibytes(whole.size()));
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
  h5feed::DatasetOptions images{
      .files = {settings.file}, .data = settings.data, .input_layout = layout_of(settings.input_layout)};
  if (settings.one_image) images.sample = h5feed::SampleUnit::dataset;
  h5feed::DatasetOptions tiles = images;
  tiles.tiles = h5feed::TileOptions{
      .size = settings.size, .overlap = settings.overlap, .edges = edges_of(settings.edges)};
  const h5feed::Dataset tiled = open(tiles);
  if (tiled.dtype() != h5feed::DType::u8)
    throw std::runtime_error(settings.file + ": the images are not uint8; choose others with --data");
  const h5feed::TileGrid grid = *tiled.tile_grid();
  const h5feed::SampleReader whole(open(images));
  const std::int64_t count = std::min(settings.images, whole.dataset().size());

  std::vector<std::int64_t> wanted(static_cast<std::size_t>(count * grid.per_image()));
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = static_cast<std::int64_t>(i);
  h5feed::DataLoader loader(
      tiled.subset(wanted),
      {.batch_size = settings.batch_size, .num_workers = settings.num_workers, .provenance = true});
  // The tiles of an image are consecutive: one mosaic at a time is enough.
  const std::int64_t channels = tiled.sample_shape().front();
  Mosaic mosaic(channels, grid, settings.merge == "average");
  std::int64_t tiles_left = grid.per_image();
  for (const h5feed::Batch& batch : loader) {
    const auto tile_values = static_cast<std::size_t>(channels * settings.size * settings.size);
    for (std::size_t i = 0; i < batch.origins.size(); ++i) {
      const h5feed::SampleOrigin& origin = batch.origins[i];
      mosaic.add(batch.data.as<std::uint8_t>().data() + i * tile_values, settings.size, origin.y, origin.x);
      if (--tiles_left > 0) continue;
      const h5feed::Batch image = whole.read(std::vector{origin.image});
      const auto values = image.data.as<std::uint8_t>();
      report(origin.image, mosaic, {values.begin(), values.end()}, grid);
      mosaic = Mosaic(channels, grid, settings.merge == "average");
      tiles_left = grid.per_image();
    }
  }
  std::printf("%s\n", loader.report().c_str());
  std::printf("%llu chunks decoded for the tiles\n",
              static_cast<unsigned long long>(loader.stats().chunk_loads));
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Put images back together from their tiles, and compare", "tiles");
  app.add_option("FILE", settings.file, "HDF5 file with uint8 images")->required();
  app.add_option("--data", settings.data,
                 "Dataset of the images; default: the only one that looks like images");
  app.add_flag("--one-image", settings.one_image, "The dataset is one image, (H,W,C) or (H,W)");
  app.add_option("--input-layout", settings.input_layout, "auto, NCHW, NHWC or NHW")
      ->check(CLI::IsMember({"auto", "NCHW", "NHWC", "NHW"}))
      ->capture_default_str();
  app.add_option("--size", settings.size, "Height and width of a tile")->capture_default_str();
  app.add_option("--overlap", settings.overlap, "Pixels that neighbours share")->capture_default_str();
  app.add_option("--edges", settings.edges, "drop, pad or shift")
      ->check(CLI::IsMember({"drop", "pad", "shift"}))
      ->capture_default_str();
  app.add_option("--merge", settings.merge, "Of tiles that share a pixel: average, or last")
      ->check(CLI::IsMember({"average", "last"}))
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
