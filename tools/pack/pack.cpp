// SPDX-License-Identifier: Apache-2.0
// h5feed pack: puts images and arrays in other formats into one HDF5 file.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/byte_units.hpp"
#include "base/clock.hpp"
#include "dataset/geometry.hpp"
#include "h5feed/error.hpp"
#include "tools/pack/images.hpp"
#include "tools/pack/inputs.hpp"
#include "tools/pack/list.hpp"
#include "tools/pack/space.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/commands.hpp"
#include "tools/program/interrupt.hpp"
#include "tools/program/option_text.hpp"
#include "tools/program/output.hpp"
#include "tools/program/progress.hpp"
#include "tools/program/run_bounds.hpp"
#include "tools/storage/new_file.hpp"
#include "tools/storage/parallel_write.hpp"
#include "tools/storage/storage_model.hpp"

namespace h5feed::cli {
namespace {

// Options as typed; empty if not given.
struct PackArguments {
  std::string out;
  ArrayArguments arrays;
  std::vector<std::string> images, csv;
  std::string chunk = "auto";
  std::string filter;
  std::string store = "pixels";
  std::string size;
  std::string fit = "crop";
  std::string color = "rgb";
  std::string layout = "NCHW";
  std::string on_error = "fail";
  std::string jobs;
  bool force = false;
  bool json = false;
};

// Sets chunks of whole rows as --chunk says, and filters.
void set_storage(NewDataset& dataset, const PackArguments& arguments) {
  const auto chunk = parse_chunk("--chunk", arguments.chunk, true);
  const std::uint64_t rows = dataset.shape.front();
  const std::uint64_t chunk_rows =
      chunk ? std::min(*chunk, rows) : automatic_chunk_rows(rows, row_bytes(dataset));
  if (chunk_rows > 0) {
    dataset.chunk_shape = dataset.shape;
    dataset.chunk_shape.front() = chunk_rows;
  }
  dataset.filters = filters_for(arguments.filter, chunk_rows > 0, dataset.dtype);
  check_chunk_size(dataset);
}

// Returns statistics to collect while writing, for arrays that look like 8-bit images.
std::optional<ByteStats> stats_for(const NewDataset& dataset) {
  if (dataset.dtype != DType::u8 || !looks_like_images(dataset.shape, dataset.dtype)) return std::nullopt;
  const SampleGeometry geometry =
      data_geometry({.dtype = dataset.dtype, .shape = dataset.shape}, InputLayout::automatic);
  const std::vector<std::uint64_t> row(dataset.shape.begin() + 1, dataset.shape.end());
  if (geometry.channels == 1) return ByteStats(row, std::nullopt);
  return ByteStats(row, geometry.channels_last ? row.size() - 1 : 0);
}

// `rows`: of each dataset that --chunk is for.
void check_chunk(const PackArguments& arguments, const std::vector<std::uint64_t>& rows) {
  const auto chunk = parse_chunk("--chunk", arguments.chunk, true);
  if (chunk && !rows.empty()) refuse_larger_chunk(arguments.chunk, *chunk, std::ranges::max(rows));
}

std::string pack_arrays(const PackArguments& arguments, std::vector<PackInput> inputs) {
  const auto start = Clock::now();
  std::vector<NewDataset> datasets;
  std::uint64_t total_bytes = 0;
  SpaceNeed space;
  std::vector<std::uint64_t> rows;
  for (const PackInput& input : inputs) rows.push_back(input.source->shape().front());
  check_chunk(arguments, rows);
  for (const PackInput& input : inputs) {
    NewDataset& dataset = datasets.emplace_back(
        NewDataset{.path = input.path, .dtype = input.source->dtype(), .shape = input.source->shape()});
    set_storage(dataset, arguments);
    total_bytes += dataset.shape.front() * row_bytes(dataset);
    add_to(space, array_space(dataset, input.open));
  }
  NewFile file(arguments.out, arguments.force);
  require_free_space(arguments.out, space);
  const std::string kind =
      !arguments.arrays.idx.empty() && arguments.arrays.idx.size() == inputs.size() ? "IDX file" : "array";
  say(fmt::format("writing {} from {} {}{}, {} decoded", printable(arguments.out), inputs.size(), kind,
                  inputs.size() == 1 ? "" : "s", format_bytes(total_bytes)));
  {
    Progress progress(fmt::format("pack {}", printable(arguments.out)), ProgressUnit::bytes,
                      static_cast<double>(total_bytes));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      ArraySource& source = *inputs[i].source;
      std::optional<ByteStats> stats = stats_for(datasets[i]);
      file.write(
          datasets[i], Production::in_order,
          [&](std::uint64_t, std::uint64_t, std::span<std::byte> out) {
            source.read(out);
            if (stats) stats->add(out);
          },
          progress);
      source.expect_end();
      if (stats) file.describe(datasets[i].path, stats_attributes(stats->finish()));
      if (const auto names = source.class_names(); !names.empty()) {
        file.describe(datasets[i].path, {class_names_attribute(names)});
      }
    }
  }
  return file.commit(start, arguments.json);
}

ImageTarget image_target(const PackArguments& arguments) {
  constexpr std::uint64_t kMostPixels = 1 << 16;
  const auto one_of = [](std::string_view option, const std::string& text,
                         const std::vector<std::string_view>& words) {
    const auto found = std::find(words.begin(), words.end(), text);
    if (found == words.end()) {
      throw OptionError(fmt::format("{} \"{}\": give {}", option, text, fmt::join(words, ", ")));
    }
    return found - words.begin();
  };
  ImageTarget target{.jobs = parse_jobs(arguments.jobs)};
  target.skip_bad = one_of("--on-error", arguments.on_error, {"fail", "skip"}) == 1;
  target.store_bytes = one_of("--store", arguments.store, {"pixels", "bytes"}) == 1;
  target.format.fit = static_cast<ImageFit>(one_of("--fit", arguments.fit, {"crop", "pad", "stretch"}));
  target.format.gray = one_of("--color", arguments.color, {"rgb", "gray"}) == 1;
  target.format.channels_last = one_of("--layout", arguments.layout, {"NCHW", "NHWC"}) == 1;
  if (target.store_bytes) {
    if (!arguments.size.empty()) throw OptionError("--size has no meaning with --store bytes");
    return target;
  }
  if (arguments.size.empty()) {
    throw OptionError(
        "pixels need one size: give --size 224x224 (height x width), or keep the files as they are "
        "with --store bytes");
  }
  constexpr const char* kForm = "height x width, such as 224x224";
  const auto size = parse_shape("--size", arguments.size, kForm);
  if (size.size() != 2) throw OptionError(fmt::format("--size \"{}\": give {}", arguments.size, kForm));
  if (size[0] > kMostPixels || size[1] > kMostPixels) {
    throw OptionError(fmt::format("--size \"{}\" is too large; give at most {} pixels a side", arguments.size,
                                  format_count(kMostPixels)));
  }
  target.format.height = size[0];
  target.format.width = size[1];
  return target;
}

// `labels`: numbers, or indices of `sets.label_values`.
void write_labels(NewFile& file, const std::string& path, const std::vector<std::int64_t>& labels,
                  const ImageSets& sets, Progress& progress) {
  const auto [smallest, largest] = std::ranges::minmax(labels);
  const bool fractions = !sets.label_values.empty();
  const DType integers = smallest >= 0 && largest < 256 ? DType::u8 : DType::i64;
  NewDataset dataset{.path = path, .dtype = fractions ? DType::f64 : integers, .shape = {labels.size()}};
  dataset.chunk_shape = {automatic_chunk_rows(labels.size(), size_of(dataset.dtype))};
  dataset.filters = filters_for("", true, dataset.dtype);
  file.write(
      dataset, Production::parallel,
      [&](std::uint64_t first, std::uint64_t count, std::span<std::byte> out) {
        for (std::uint64_t i = 0; i < count; ++i) {
          const std::int64_t label = labels[first + i];
          if (dataset.dtype == DType::u8) {
            out[static_cast<std::size_t>(i)] = static_cast<std::byte>(label);
          } else if (fractions) {
            const double value = sets.label_values[static_cast<std::size_t>(label)];
            std::memcpy(out.data() + i * sizeof value, &value, sizeof value);
          } else {
            std::memcpy(out.data() + i * sizeof label, &label, sizeof label);
          }
        }
      },
      progress);
  if (!sets.class_names.empty()) file.describe(path, {class_names_attribute(sets.class_names)});
}

void list_skipped(const std::vector<SkippedImage>& skipped) {
  constexpr std::size_t kMostLines = 100;
  for (std::size_t i = 0; i < std::min(kMostLines, skipped.size()); ++i) {
    say(fmt::format("left out: {} {}", printable(skipped[i].file.string()), skipped[i].reason));
  }
  if (skipped.size() > kMostLines) say(fmt::format("left out: {} more", skipped.size() - kMostLines));
}

// Returns `common` with the parts that depend on the set.
ImageTarget target_for(const ImageSet& set, const ImageTarget& common, const PackArguments& arguments) {
  NewDataset dataset{.path = group_path("--images", set.group) + "/images", .shape = common.format.shape()};
  dataset.shape.insert(dataset.shape.begin(), set.items.size());
  if (!common.store_bytes) {
    set_storage(dataset, arguments);
    if (dataset.chunk_shape.empty()) {
      throw OptionError("--chunk none: images are written in chunks; give samples per chunk, or auto");
    }
  }
  ImageTarget target = common;
  target.images = dataset.path;
  target.chunk_shape = dataset.chunk_shape;
  target.filters = dataset.filters;
  return target;
}

// Asks only if the output exists: there may be millions of images.
void refuse_image_as_output(const ImageSets& sets, const std::string& out) {
  std::error_code error;
  if (!std::filesystem::exists(out, error)) return;
  for (const ImageSet& set : sets.sets) {
    for (const ImageItem& item : set.items) {
      check_interrupted();
      refuse_output(item.file, out);
    }
  }
}

std::string pack_image_sets(const PackArguments& arguments) {
  const auto start = Clock::now();
  // Before the options: a source that cannot be read makes them meaningless.
  check_image_sources(arguments.images, arguments.csv);
  for (const std::string& list : arguments.csv) refuse_output(split_name(list).second, arguments.out);
  const ImageTarget target = image_target(arguments);
  const ImageSets sets =
      arguments.csv.empty() ? list_class_folders(arguments.images) : list_csv(arguments.csv);
  refuse_image_as_output(sets, arguments.out);
  if (!target.store_bytes) use_one_thread_an_image();
  std::uint64_t images = 0;
  std::vector<ImageTarget> targets;
  SpaceNeed space;
  std::vector<std::uint64_t> rows;
  for (const ImageSet& set : sets.sets) rows.push_back(set.items.size());
  check_chunk(arguments, rows);
  for (const ImageSet& set : sets.sets) {
    if (!arguments.csv.empty() && !target.skip_bad) require_images(set);
    images += set.items.size();
    targets.push_back(target_for(set, target, arguments));
    add_to(space, image_space(set, targets.back()));
  }
  NewFile file(arguments.out, arguments.force);
  require_free_space(arguments.out, space);
  const auto counted = [](std::uint64_t count, std::string_view one, std::string_view several) {
    return fmt::format("{} {}", format_count(count), count == 1 ? one : several);
  };
  const std::size_t classes = sets.class_names.size();
  say(fmt::format("writing {} from {}{}, {}{}", printable(arguments.out), counted(images, "image", "images"),
                  classes == 0 ? "" : " in " + counted(classes, "class", "classes"),
                  target.store_bytes ? "their bytes as they are"
                                     : fmt::format("each {}x{}", target.format.height, target.format.width),
                  sets.ignored == 0
                      ? ""
                      : "; " + counted(sets.ignored, "other file is no image", "other files are no images")));
  std::vector<SkippedImage> skipped;
  {
    Progress progress(fmt::format("pack {}", printable(arguments.out)), ProgressUnit::items,
                      static_cast<double>(images));
    for (std::size_t i = 0; i < sets.sets.size(); ++i) {
      PackedImages packed = write_images(file, sets.sets[i], targets[i], progress);
      skipped.insert(skipped.end(), packed.skipped.begin(), packed.skipped.end());
      Progress quiet("", ProgressUnit::bytes, 0);
      write_labels(file, group_path("--images", sets.sets[i].group) + "/labels", packed.labels, sets, quiet);
    }
  }
  list_skipped(skipped);
  return file.commit(start, arguments.json);
}

// Refuses options for images, which would be silently ignored for arrays.
void refuse_image_options(const PackArguments& arguments) {
  const PackArguments defaults;
  const std::pair<const char*, bool> given[] = {
      {"--size", arguments.size != defaults.size},    {"--fit", arguments.fit != defaults.fit},
      {"--color", arguments.color != defaults.color}, {"--layout", arguments.layout != defaults.layout},
      {"--store", arguments.store != defaults.store}, {"--on-error", arguments.on_error != defaults.on_error},
      {"--jobs", arguments.jobs != defaults.jobs}};
  for (const auto& [option, is_given] : given) {
    if (is_given) throw OptionError(fmt::format("{} is for --images and --csv; leave it out", option));
  }
}

int pack(const PackArguments& arguments) {
  // OpenCV loads OpenBLAS, which starts threads that nothing here uses, and ends the program where it cannot.
  ::setenv("OPENBLAS_NUM_THREADS", "1", 0);
  const bool arrays = !arguments.arrays.empty();
  const int sources = (arrays ? 1 : 0) + (arguments.images.empty() ? 0 : 1) + (arguments.csv.empty() ? 0 : 1);
  if (sources == 0) {
    throw OptionError(
        "nothing to pack; name the source by --images, --csv, --idx, --npy, --cifar10 or "
        "--cifar100");
  }
  if (sources > 1) throw OptionError("--images, --csv and arrays do not mix; write a file for each");
  std::string result;
  if (arrays) {
    refuse_image_options(arguments);
    result = pack_arrays(arguments, open_arrays(arguments.arrays, arguments.out));
  } else {
    result = pack_image_sets(arguments);
  }
  print(result);
  return kDone;
}

constexpr const char* kPackFooter =
    R"(Images become /images (N,C,H,W) and /labels (N); GROUP=DIR puts them below /GROUP, so that one file holds
train and test. Classes are numbered in the order of their names, which /labels keeps as the attribute
class_names. Pixels of 8 bits get the attributes mean, std, min and max of each channel, in the unit of the
stored values: options.normalize takes them with .scale = 1. --store bytes keeps JPEG and other files as they
are, as rows of variable length.

Labels of a CSV file that are all numbers are stored as they are: integers as uint8 if all are from 0 to 255,
else as int64, and fractions as float64. Names are numbered in alphabetical order, with class_names. Numbers
and names do not mix. Spaces around labels are ignored.

A bad image (missing, a link that leads nowhere, truncated, not an image) ends the work; with --on-error skip
it is listed and left out.

Examples:
  h5feed pack train.h5 --images photos --size 224x224
  h5feed pack both.h5 --images train=photos/train --images test=photos/val --size 256x256 --fit pad
  h5feed pack bytes.h5 --images photos --store bytes --on-error skip
  h5feed pack listed.h5 --csv labels.csv --size 64x64 --color gray
  h5feed pack cifar.h5 --cifar10 train=data_batch_1.bin --cifar10 train=data_batch_2.bin \
      --cifar10 test=test_batch.bin
  h5feed pack arrays.h5 --npy images=x_train.npy --npy labels=y_train.npy
  h5feed pack fashion.h5 --idx train/images=train-images-idx3-ubyte.gz \
      --idx train/labels=train-labels-idx1-ubyte.gz)";

}  // namespace

void add_pack(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<PackArguments>();
  CLI::App* const command =
      app.add_subcommand("pack", "Put images or arrays in other formats into one HDF5 file");
  command->add_option("OUT", arguments->out, "File to write")->required();
  const auto sources = [&](const std::string& name, std::vector<std::string>& value, const std::string& help,
                           const std::string& form) {
    command->add_option(name, value, help + "; may be repeated")->type_name(form)->expected(1)->take_all();
  };
  sources("--images", arguments->images, "Folder that holds one folder of images per class", "[GROUP=]DIR");
  sources("--csv", arguments->csv, "CSV file of path,label or path,label,group", "[GROUP=]FILE");
  sources("--idx", arguments->arrays.idx, "Dataset to write, and its IDX file, plain or gzip", "NAME=FILE");
  sources("--npy", arguments->arrays.npy, "Dataset to write, and its .npy file", "NAME=FILE");
  sources("--cifar10", arguments->arrays.cifar10, "Binary file of CIFAR-10", "[GROUP=]FILE");
  sources("--cifar100", arguments->arrays.cifar100, "Binary file of CIFAR-100", "[GROUP=]FILE");
  command->add_option("--size", arguments->size, "Images: height x width of the stored pixels")
      ->type_name("HxW");
  command->add_option("--fit", arguments->fit, "How images are fitted to that size: crop, pad, stretch")
      ->capture_default_str()
      ->type_name("FIT");
  command->add_option("--color", arguments->color, "rgb or gray")->capture_default_str()->type_name("COLOR");
  command->add_option("--layout", arguments->layout, "NCHW or NHWC")
      ->capture_default_str()
      ->type_name("LAYOUT");
  command->add_option("--store", arguments->store, "pixels, or bytes to store image files as they are")
      ->capture_default_str()
      ->type_name("FORM");
  command->add_option("--on-error", arguments->on_error, "Bad images: fail, or skip and list them")
      ->capture_default_str()
      ->type_name("MODE");
  command->add_option("--jobs", arguments->jobs, "Images: threads; default: the usable cores")
      ->type_name("N");
  add_chunk_option(*command, arguments->chunk,
                   "Samples per chunk; auto: about 1 MiB, at most 20,000 samples; none: contiguous storage");
  add_filter_option(*command, arguments->filter, "gzip:4");
  command->add_flag("--force", arguments->force, "Replace OUT if it exists");
  command->add_flag("--json", arguments->json, "Print JSON instead of text");
  command->footer(kPackFooter);
  command->callback([arguments, &action] { action = [arguments] { return pack(*arguments); }; });
}

}  // namespace h5feed::cli
