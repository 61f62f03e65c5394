// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/system_limits.hpp"
#include "h5feed/error.hpp"

namespace h5feed::cli {
namespace {

constexpr std::uint64_t kMostRuns = 1000;

// Values as JSON, from JSON, and as typed.

template <typename T>
Json value_json(const T& value) {
  return value;
}

template <typename T>
Json value_json(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json value_json(std::chrono::nanoseconds value) { return std::chrono::duration<double>(value).count(); }

template <typename T>
void set_value(const Json& json, T& value) {
  json.get_to(value);
}

template <typename T>
void set_value(const Json& json, std::optional<T>& value) {
  value = json.is_null() ? std::nullopt : std::optional(json.get<T>());
}

void set_value(const Json& json, std::chrono::nanoseconds& value) {
  value =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(json.get<double>()));
}

std::string text_as_typed(const std::string& value) { return value; }
std::string text_as_typed(bool) { return {}; }
std::string text_as_typed(std::uint64_t value) { return std::to_string(value); }
std::string text_as_typed(double value) { return fmt::format("{:g}", value); }
std::string text_as_typed(std::chrono::nanoseconds value) {
  return fmt::format("{:g}s", std::chrono::duration<double>(value).count());
}

template <typename T>
std::string text_as_typed(const std::optional<T>& value) {
  return value ? std::to_string(*value) : std::string();
}

// The names of a setting.
struct FieldNames {
  std::string key;
  std::string option;
  std::string type;
  std::string help;
  bool is_path = false;
};

template <typename Value>
Value& member_of(Value& value) {
  return value;
}

template <typename Owner, typename First, typename... Rest>
auto& member_of(Owner& owner, First first, Rest... rest) {
  return member_of(owner.*first, rest...);
}

// Returns the setting that `members` select of a BenchSettings, one after the other. `parse` takes the option
// and the text.
template <typename Parse, typename... Members>
BenchField field(FieldNames names, Parse parse, Members... members) {
  const auto member = [members...](auto& settings) -> auto& { return member_of(settings, members...); };
  const BenchSettings defaults;
  BenchField made{.key = std::move(names.key),
                  .option = names.option,
                  .type = std::move(names.type),
                  .help = std::move(names.help),
                  .is_path = names.is_path,
                  .default_text = text_as_typed(member(defaults))};
  made.parse = [member, parse, option = std::move(names.option)](BenchSettings& settings,
                                                                 const std::string& text) {
    member(settings) = parse(option, text);
  };
  made.value = [member](const BenchSettings& settings) { return value_json(member(settings)); };
  made.set = [member](BenchSettings& settings, const Json& value) { set_value(value, member(settings)); };
  return made;
}

std::string any_text(std::string_view, const std::string& text) { return text; }

bool flag_given(std::string_view, const std::string& text) { return !text.empty(); }

std::optional<std::int64_t> batch_size_from(std::string_view option, const std::string& text) {
  if (text == "none") return std::nullopt;
  const std::int64_t size = parse_integer(option, text);
  if (size < 1) {
    throw OptionError(fmt::format("{} {}: give at least 1, or none for single samples", option, size));
  }
  return size;
}

std::string order_from(std::string_view, const std::string& text) { return Shuffle(text).to_string(); }

std::string policy_from(std::string_view option, const std::string& text) {
  return std::string(name_of(parse_cache_policy(option, text)));
}

std::string on_error_from(std::string_view option, const std::string& text) {
  return std::string(name_of(parse_on_error(option, text)));
}

double bad_share_from(std::string_view option, const std::string& text) {
  return parse_real(option, text, 0, 1);
}

std::optional<std::uint64_t> size_if_given(std::string_view option, const std::string& text) {
  if (text.empty()) return std::nullopt;
  return parse_size(option, text);
}

std::uint64_t any_number(std::string_view option, const std::string& text) {
  return parse_number(option, text);
}

std::uint64_t warmup_from(std::string_view option, const std::string& text) {
  return parse_number(option, text, 0, kMostRuns);
}

std::uint64_t runs_from(std::string_view option, const std::string& text) {
  return parse_number(option, text, 1, kMostRuns);
}

// Calls `visit` with the name and the value of everything in a request but its settings.
template <typename Request, typename Visit>
void visit_request(Request& request, Visit visit) {
  visit("num_workers", request.num_workers);
  visit("quiet", request.quiet);
  visit("cold", request.cold);
  visit("whole_epochs", request.whole_epochs);
  visit("rank", request.rank);
  visit("world_size", request.world_size);
  visit("shard", request.shard);
}

template <typename Visit>
void visit_fields(Visit visit) {
  for (const BenchField& field : dataset_fields()) visit(field);
  for (const BenchField& field : loader_fields()) visit(field);
}

}  // namespace

const std::vector<BenchField>& dataset_fields() {
  static const std::vector<BenchField> fields = {
      field({"file", "FILE", "", "HDF5 file", true}, any_text, &BenchSettings::file),
      field({"data", "--data", "PATH", "Dataset of samples; default: the only one that looks like images",
             true},
            any_text, &BenchSettings::data),
      field({"target", "--target", "PATH", "Dataset of targets; default: none", true}, any_text,
            &BenchSettings::target),
      field({"input_layout", "--input-layout", "LAYOUT",
             "auto, NCHW, NHWC, NHW, NCDHW, NDHWC, NDHW, or none: as stored"},
            any_text, &BenchSettings::input_layout),
      field({"tile_size", "--tile-size", "N",
             "Split images into tiles of this size: pixels, HEIGHTxWIDTH or DEPTHxHEIGHTxWIDTH"},
            any_text, &BenchSettings::tiles, &TileText::size),
      field({"tile_stride", "--tile-stride", "N", "Distance between tiles; default: the tile size"}, any_text,
            &BenchSettings::tiles, &TileText::stride),
      field({"tile_overlap", "--tile-overlap", "N",
             "Pixels shared by adjacent tiles; instead of --tile-stride"},
            any_text, &BenchSettings::tiles, &TileText::overlap),
      field({"tile_edges", "--tile-edges", "HOW",
             "Tiles at the lower and right edges: drop (default), pad with zeros, or shift back"},
            any_text, &BenchSettings::tiles, &TileText::edges),
      field({"tile_per_image", "--tile-per-image", "N",
             "Tiles at N random places of each image, not of a grid"},
            any_text, &BenchSettings::tiles, &TileText::per_image),
      field({"tile_foreground", "--tile-foreground", "P",
             "Probability that a tile at a random place is centred on a label of the target"},
            any_text, &BenchSettings::tiles, &TileText::foreground),
      field({"tile_min_foreground", "--tile-min-foreground", "SHARE",
             "Leave out tiles with a smaller share of labelled pixels in the target"},
            any_text, &BenchSettings::tiles, &TileText::min_foreground),
      field(
          {"tile_turns", "--tile-turns", "HOW", "Flip and turn tiles: none (default), flips, planar or all"},
          any_text, &BenchSettings::tiles, &TileText::turns),
      field({"sample", "--sample", "WHAT", "row (default), or dataset: each dataset is one sample"}, any_text,
            &BenchSettings::sample, &SampleText::unit),
      field({"image_size", "--image-size", "N",
             "Scale encoded images to this size: pixels, or HEIGHTxWIDTH; default: that of the first image"},
            any_text, &BenchSettings::sample, &SampleText::image_size),
      field({"image_color", "--image-color", "COLOR",
             "Color of encoded images: rgb (default), bgr, gray, unchanged"},
            any_text, &BenchSettings::sample, &SampleText::image_color),
      field({"image_shapes", "--image-shapes", "PATH", "Dataset with the shapes of images stored as pixels",
             true},
            any_text, &BenchSettings::sample, &SampleText::image_shapes),
  };
  return fields;
}

const std::vector<BenchField>& loader_fields() {
  static const std::vector<BenchField> fields = {
      field({"batch_size", "--batch-size", "N", "Samples per batch, or none: single samples"},
            batch_size_from, &BenchSettings::batch_size),
      field({"shuffle", "--shuffle", "ORDER", "sequential, full or chunk:K"}, order_from,
            &BenchSettings::shuffle),
      field({"cache_bytes", "--cache-bytes", "SIZE", "Memory for decoded chunks; default: the library's"},
            size_if_given, &BenchSettings::cache_bytes),
      field({"cache_policy", "--cache-policy", "POLICY",
             "What a full cache keeps: lru, clairvoyant or keep_first"},
            policy_from, &BenchSettings::cache_policy),
      field({"memory_budget_bytes", "--memory-budget-bytes", "SIZE",
             "Total memory of the loader; default: the library's"},
            size_if_given, &BenchSettings::memory_budget_bytes),
      field({"on_error", "--on-error", "HOW",
             "What happens to samples that cannot be read: fail, skip or replace"},
            on_error_from, &BenchSettings::on_error),
      field({"max_bad_share", "--max-bad-share", "SHARE",
             "Largest share of an epoch's samples that may be skipped or replaced, 0 to 1"},
            bad_share_from, &BenchSettings::max_bad_share),
      field({"normalize", "--normalize", "", "Deliver float32, scaled to 0 … 1 if stored as u8"}, flag_given,
            &BenchSettings::normalize),
      field({"seed", "--seed", "N", "Seed of the shuffle"}, any_number, &BenchSettings::seed),
      field({"runs", "--runs", "N", "Repetitions per row"}, runs_from, &BenchSettings::runs),
      field({"warmup", "--warmup", "N", "Uncounted repetitions before those of --runs"}, warmup_from,
            &BenchSettings::warmup),
      field({"time_budget_s", "--time-budget", "TIME", "Time per row, with all repetitions and limits"},
            parse_duration, &BenchSettings::time_budget),
  };
  return fields;
}

BenchSettings settings_from(const std::map<std::string, std::string>& texts) {
  BenchSettings settings;
  visit_fields([&](const BenchField& field) { field.parse(settings, texts.at(field.key)); });
  return settings;
}

Json to_json(const BenchSettings& settings) {
  Json json;
  visit_fields([&](const BenchField& field) { json[field.key] = field.value(settings); });
  return json;
}

std::string workers_text(std::int64_t num_workers) {
  return num_workers == kAuto ? "auto" : std::to_string(num_workers);
}

Json workers_json(std::int64_t num_workers) {
  return num_workers == kAuto ? Json("auto") : Json(num_workers);
}

std::int64_t workers_from(const Json& json) { return json.is_string() ? kAuto : json.get<std::int64_t>(); }

std::int64_t decoding_threads(std::int64_t num_workers) {
  return num_workers == kAuto ? system_limits().cpus : std::max<std::int64_t>(1, num_workers);
}

std::vector<std::string> to_arguments(const RowRequest& request) {
  Json json = {{"settings", to_json(request.settings)}};
  visit_request(request, [&](const char* key, const auto& value) { json[key] = value; });
  std::vector<std::string> arguments = {json.dump(-1, ' ', false, Json::error_handler_t::replace)};
  visit_fields([&](const BenchField& field) {
    if (field.is_path) arguments.push_back(field.value(request.settings).get<std::string>());
  });
  return arguments;
}

RowRequest row_request_from(const std::vector<std::string>& arguments) {
  const Json json = Json::parse(arguments.at(0));
  RowRequest request;
  std::size_t next = 1;
  visit_fields([&](const BenchField& field) {
    if (field.is_path) {
      field.parse(request.settings, arguments.at(next++));
    } else {
      field.set(request.settings, json.at("settings").at(field.key));
    }
  });
  visit_request(request, [&](const char* key, auto& value) { json.at(key).get_to(value); });
  return request;
}

DatasetOptions dataset_options(const BenchSettings& settings) {
  return {.files = {settings.file},
          .data = settings.data,
          .target = settings.target,
          .sample = parse_unit(settings.sample),
          .input_layout = parse_layout("--input-layout", settings.input_layout),
          .images = parse_images(settings.sample),
          .tiles = parse_tiles(settings.tiles)};
}

DataLoaderOptions loader_options(const BenchSettings& settings, std::int64_t num_workers) {
  DataLoaderOptions options{.batch_size = settings.batch_size,
                            .shuffle = settings.shuffle,
                            .seed = settings.seed,
                            .num_workers = num_workers,
                            .cache_bytes = settings.cache_bytes,
                            .cache_policy = parse_cache_policy("--cache-policy", settings.cache_policy),
                            .memory_budget_bytes = settings.memory_budget_bytes,
                            .on_error = parse_on_error("--on-error", settings.on_error),
                            .max_bad_share = settings.max_bad_share};
  if (settings.normalize) options.normalize = Normalize{};
  return options;
}

DataLoaderOptions loader_options(const RowRequest& request) {
  DataLoaderOptions options = loader_options(request.settings, request.num_workers);
  options.rank = request.rank;
  options.world_size = request.world_size;
  options.local_world_size = request.world_size;
  options.shard = parse_shard("--shard", request.shard);
  return options;
}

}  // namespace h5feed::cli
