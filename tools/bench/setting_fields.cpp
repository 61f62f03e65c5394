// SPDX-License-Identifier: Apache-2.0
// The settings of `bench` as options on the command line.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/terminal_text.hpp"
#include "h5feed/error.hpp"
#include "tools/bench/settings.hpp"
#include "tools/program/options_json.hpp"
#include "tools/program/table.hpp"

namespace h5feed::cli {
namespace {

constexpr std::uint64_t kMostRuns = 1000;

// Stands for the option of the file, which is typed without one.
constexpr const char* kFile = "FILE";

bool is_flag(const BenchField& field) { return field.type.empty() && field.option != kFile; }

using Text = const std::string&;
using Parse = std::function<void(BenchSettings& settings, Text option, Text text)>;

// Returns a setting whose messages name its option.
BenchField field(BenchField names, const Parse& parse) {
  names.parse = [parse, option = names.option](BenchSettings& settings, Text text) {
    parse(settings, option, text);
  };
  return names;
}

std::optional<std::int64_t> batch_size_from(Text option, Text text) {
  if (text == "none") return std::nullopt;
  const std::int64_t size = parse_integer(option, text);
  if (size < 1) {
    throw OptionError(fmt::format("{} {}: give at least 1, or none for single samples", option, size));
  }
  return size;
}

std::optional<std::uint64_t> size_if_given(Text option, Text text) {
  if (text.empty()) return std::nullopt;
  return parse_size(option, text);
}

// Returns a field of tiles: the text of one option of theirs, and the member that it sets.
template <typename Member>
Parse tile_field(std::string TileText::*text_of, Member member) {
  return [text_of, member](BenchSettings& settings, Text option, Text text) {
    if (text.empty()) return;
    if (!settings.dataset.tiles) throw OptionError(option + " needs --tile-size");
    TileText typed{.size = "1"};
    typed.*text_of = text;
    (*settings.dataset.tiles).*member = (*parse_tiles(typed)).*member;
  };
}

void set_tile_size(BenchSettings& settings, Text, Text text) {
  if (text.empty()) return;
  if (!settings.dataset.tiles) settings.dataset.tiles.emplace();
  settings.dataset.tiles->size = parse_tiles({.size = text})->size;
}

void set_image_size(BenchSettings& settings, Text, Text text) {
  const ImageOptions images = parse_images({.image_size = text});
  settings.dataset.images.height = images.height;
  settings.dataset.images.width = images.width;
}

void add_named_field(BenchSettings& settings, Text option, Text text) {
  const auto equals = text.find('=');
  FieldOptions named{.name = text.substr(0, equals)};
  if (equals != std::string::npos) named.data = text.substr(equals + 1);
  if (named.name.empty())
    throw OptionError(fmt::format("{} \"{}\": give NAME, or NAME=PATH", option, abridged(text)));
  settings.dataset.fields.push_back(std::move(named));
}

}  // namespace

const std::vector<BenchField>& dataset_fields() {
  static const std::vector<BenchField> fields = {
      field({"file", kFile, "", "HDF5 file; not needed with --config"},
            [](auto& settings, Text, Text text) { settings.dataset.files = {text}; }),
      field({"data", "--data", "PATH", "Dataset of samples; default: the only one that looks like images"},
            [](auto& settings, Text, Text text) { settings.dataset.data = text; }),
      field({"target", "--target", "PATH", "Dataset of targets; default: none"},
            [](auto& settings, Text, Text text) { settings.dataset.target = text; }),
      field({"target_files", "--target-file", "FILE",
             "File of the targets, if they are not beside the samples; may be repeated", "", true},
            [](auto& settings, Text, Text text) { settings.dataset.target_files.emplace_back(text); }),
      field({"fields", "--field", "NAME[=PATH]",
             "Further field of each sample; PATH: its dataset, if not NAME; may be repeated", "", true},
            add_named_field),
      field({"stage_dir", "--stage-dir", "DIR", "Copy the files to this local directory and read them there"},
            [](auto& settings, Text, Text text) { settings.dataset.stage_dir = text; }),
      field({"input_layout", "--input-layout", "LAYOUT",
             "auto, NCHW, NHWC, NHW, NCDHW, NDHWC, NDHW, or none: as stored", "auto"},
            [](auto& settings, Text option, Text text) {
              settings.dataset.input_layout = parse_layout(option, text);
            }),
      field({"tile_size", "--tile-size", "N",
             "Split images into tiles of this size: pixels, HEIGHTxWIDTH or DEPTHxHEIGHTxWIDTH"},
            set_tile_size),
      field({"tile_stride", "--tile-stride", "N", "Distance between tiles; default: the tile size"},
            tile_field(&TileText::stride, &TileOptions::stride)),
      field({"tile_overlap", "--tile-overlap", "N",
             "Pixels shared by adjacent tiles; instead of --tile-stride"},
            tile_field(&TileText::overlap, &TileOptions::overlap)),
      field({"tile_edges", "--tile-edges", "HOW",
             "Tiles at the lower and right edges: drop (default), pad with zeros, or shift back"},
            tile_field(&TileText::edges, &TileOptions::edges)),
      field({"tile_per_image", "--tile-per-image", "N",
             "Tiles at N random places of each image, not of a grid"},
            tile_field(&TileText::per_image, &TileOptions::per_image)),
      field({"tile_foreground", "--tile-foreground", "P",
             "Probability that a tile at a random place is centred on a label of the target"},
            tile_field(&TileText::foreground, &TileOptions::foreground)),
      field({"tile_min_foreground", "--tile-min-foreground", "SHARE",
             "Leave out tiles with a smaller share of labelled pixels in the target"},
            tile_field(&TileText::min_foreground, &TileOptions::min_foreground)),
      field(
          {"tile_turns", "--tile-turns", "HOW", "Flip and turn tiles: none (default), flips, planar or all"},
          tile_field(&TileText::turns, &TileOptions::turns)),
      field({"sample", "--sample", "WHAT", "row (default), or dataset: each dataset is one sample"},
            [](auto& settings, Text, Text text) { settings.dataset.sample = parse_unit({.unit = text}); }),
      field({"image_size", "--image-size", "N",
             "Scale encoded images to this size: pixels, or HEIGHTxWIDTH; default: that of the first image"},
            set_image_size),
      field({"image_color", "--image-color", "COLOR",
             "Color of encoded images: rgb (default), bgr, gray, unchanged"},
            [](auto& settings, Text, Text text) {
              settings.dataset.images.color = parse_images({.image_color = text}).color;
            }),
      field({"image_shapes", "--image-shapes", "PATH", "Dataset with the shapes of images stored as pixels"},
            [](auto& settings, Text, Text text) { settings.dataset.images.shapes = text; }),
  };
  return fields;
}

const std::vector<BenchField>& loader_fields() {
  static const std::vector<BenchField> fields = {
      field({"batch_size", "--batch-size", "N", "Samples per batch, or none: single samples", "256"},
            [](auto& settings, Text option, Text text) {
              settings.loader.batch_size = batch_size_from(option, text);
            }),
      field({"shuffle", "--shuffle", "ORDER", "sequential, full or chunk:K", "sequential"},
            [](auto& settings, Text, Text text) { settings.loader.shuffle = Shuffle(text); }),
      field({"cache_bytes", "--cache-bytes", "SIZE", "Memory for decoded chunks; default: the library's"},
            [](auto& settings, Text option, Text text) {
              settings.loader.cache_bytes = size_if_given(option, text);
            }),
      field({"cache_policy", "--cache-policy", "POLICY",
             "What a full cache keeps: lru, clairvoyant or keep_first", "lru"},
            [](auto& settings, Text option, Text text) {
              settings.loader.cache_policy = parse_cache_policy(option, text);
            }),
      field({"memory_budget_bytes", "--memory-budget-bytes", "SIZE",
             "Total memory of the loader; default: the library's"},
            [](auto& settings, Text option, Text text) {
              settings.loader.memory_budget_bytes = size_if_given(option, text);
            }),
      field({"on_error", "--on-error", "HOW",
             "What happens to samples that cannot be read: fail, skip or replace", "fail"},
            [](auto& settings, Text option, Text text) {
              settings.loader.on_error = parse_on_error(option, text);
            }),
      field({"max_bad_share", "--max-bad-share", "SHARE",
             "Largest share of an epoch's samples that may be skipped or replaced, 0 to 1", "0.01"},
            [](auto& settings, Text option, Text text) {
              settings.loader.max_bad_share = parse_real(option, text, 0, 1);
            }),
      field({"normalize", "--normalize", "", "Deliver float32, scaled to 0 … 1 if stored as u8"},
            [](auto& settings, Text, Text) { settings.loader.normalize = Normalize{}; }),
      field(
          {"seed", "--seed", "N", "Seed of the shuffle", "0"},
          [](auto& settings, Text option, Text text) { settings.loader.seed = parse_number(option, text); }),
      field({"trace_path", "--trace-path", "FILE", "Timeline of the stages of the last loader, for Perfetto"},
            [](auto& settings, Text, Text text) { settings.loader.trace_path = text; }),
      field({"epoch_log", "--epoch-log", "FILE", "Append a line of JSON for each epoch: where its time went"},
            [](auto& settings, Text, Text text) { settings.loader.epoch_log = text; }),
      field({"headroom", "--headroom", "",
             "Deliver the first batch again and again: the rate without reading and decoding"},
            [](auto& settings, Text, Text) { settings.loader.headroom = true; }),
      field({"runs", "--runs", "N", "Repetitions per row", "3"},
            [](auto& settings, Text option, Text text) {
              settings.runs = parse_number(option, text, 1, kMostRuns);
            }),
      field({"warmup", "--warmup", "N", "Uncounted repetitions before those of --runs", "1"},
            [](auto& settings, Text option, Text text) {
              settings.warmup = parse_number(option, text, 0, kMostRuns);
            }),
      field({"time_budget_s", "--time-budget", "TIME", "Time per row, with all repetitions and limits", "3s"},
            [](auto& settings, Text option, Text text) {
              settings.time_budget = parse_duration(option, text);
            }),
  };
  return fields;
}

void TypedSettings::add_option(CLI::App& command, const BenchField& field) {
  std::vector<std::string>& typed = texts[field.key];
  if (is_flag(field)) {
    command.add_flag_callback(
        field.option, [&typed] { typed = {""}; }, field.help);
    return;
  }
  CLI::Option* const option = command.add_option(field.option, typed, field.help);
  option->allow_extra_args(false);
  if (!field.repeats) option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  if (!field.type.empty()) option->type_name(field.type);
  if (!field.default_text.empty()) option->default_str(field.default_text);
}

void TypedSettings::add_config_options(CLI::App& command) {
  command.add_option("--config", config, "Options of dataset and loader by name, from a JSON file")
      ->type_name("FILE");
  command.add_option("--set", set, "Set any other option of the dataset or the loader; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
}

void TypedSettings::drop_empty() {
  std::erase_if(texts, [](const auto& entry) { return entry.second.empty(); });
}

std::string TypedSettings::words() const {
  std::vector<std::string> words;
  for (const auto* const fields : {&dataset_fields(), &loader_fields()}) {
    for (const BenchField& field : *fields) {
      const auto typed = texts.find(field.key);
      if (typed == texts.end()) continue;
      for (const std::string& text : typed->second) {
        if (field.option != kFile) words.push_back(field.option);
        if (!is_flag(field)) words.push_back(shell_word(text));
      }
    }
  }
  if (!config.empty()) words.push_back("--config " + shell_word(config));
  for (const std::string& text : set) words.push_back("--set " + shell_word(text));
  return fmt::format("{}", fmt::join(words, " "));
}

BenchSettings TypedSettings::applied_to(BenchSettings settings) const {
  if (!config.empty()) {
    Config read = read_config(config, {.loader = settings.loader});
    settings.dataset = std::move(read.dataset);
    settings.mixture = std::move(read.mixture);
    settings.loader = std::move(read.loader);
  }
  settings = settings_from(texts, std::move(settings));
  for (const std::string& text : set) {
    const auto [name, value] = name_and_value("--set", text);
    if (name == "num_workers")
      throw OptionError("--set: num_workers has an option of its own, --num-workers");
    set_by_name(settings, "--set", name, value);
  }
  return settings;
}

}  // namespace h5feed::cli
