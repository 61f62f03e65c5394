// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/byte_units.hpp"
#include "base/system_limits.hpp"
#include "base/terminal_text.hpp"
#include "h5feed/error.hpp"
#include "tools/program/table.hpp"
#include "tools/storage/image_choice.hpp"

namespace h5feed::cli {
namespace {

// Calls `visit` with the name and the value of everything in a request but its settings.
template <typename Request, typename Visit>
void visit_request(Request& request, Visit visit) {
  visit("runs", request.settings.runs);
  visit("warmup", request.settings.warmup);
  visit("num_workers", request.num_workers);
  visit("quiet", request.quiet);
  visit("cold", request.cold);
  visit("rate_only", request.rate_only);
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

bool is_dataset_field(const BenchField& wanted) {
  return std::ranges::any_of(dataset_fields(),
                             [&](const BenchField& field) { return field.key == wanted.key; });
}

// Throws if an option of the dataset is given for a mixture, each set of which has options of its own.
void require_dataset(const BenchSettings& settings, std::string_view option) {
  if (!settings.mixture) return;
  throw OptionError(fmt::format(
      "{}: the configuration describes a mixture; give options of a dataset in its sets", option));
}

constexpr std::string_view kHexDigits = "0123456789abcdef";

// Bytes as an argument of a process, which cannot hold zeros.
std::string to_hex(const std::vector<std::uint8_t>& bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += kHexDigits[byte >> 4];
    text += kHexDigits[byte & 15];
  }
  return text;
}

std::vector<std::uint8_t> from_hex(const std::string& text) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(kHexDigits.find(text[i]) << 4 | kHexDigits.find(text[i + 1])));
  return bytes;
}

}  // namespace

std::string BenchSettings::file() const {
  const DatasetOptions* first = &dataset;
  if (mixture && !mixture->sets.empty()) first = &mixture->sets.front().dataset;
  return first->files.empty() ? std::string() : first->files.front().string();
}

bool BenchSettings::reads_one_file() const {
  return !mixture && dataset.files.size() == 1 && dataset.stage_dir.empty() &&
         std::filesystem::is_regular_file(file());
}

Dataset open_samples(const BenchSettings& settings) {
  const auto open = [](const DatasetOptions& options) { return open_dataset(options, "bench"); };
  return settings.mixture ? open_mixture(*settings.mixture, open) : open(settings.dataset);
}

BenchSettings settings_from(const SettingTexts& texts, BenchSettings settings) {
  visit_fields([&](const BenchField& field) {
    const auto given = texts.find(field.key);
    if (given == texts.end()) return;
    if (is_dataset_field(field)) require_dataset(settings, field.option);
    for (const std::string& text : given->second) field.parse(settings, text);
  });
  return settings;
}

Json value_from_text(const std::string& where, const std::string& text) {
  std::string too_deep;
  Json value = json_from(text, &too_deep);
  if (!too_deep.empty()) throw OptionError(fmt::format("{}: {}, which no option is", where, too_deep));
  if (!value.is_discarded()) return value;
  if (text == "none") return nullptr;
  if (const auto bytes = parse_bytes(text)) return *bytes;
  return text;
}

std::pair<std::string, std::string> name_and_value(std::string_view option, const std::string& text) {
  const auto equals = text.find('=');
  if (equals == 0 || equals == std::string::npos) {
    throw OptionError(
        fmt::format("{} \"{}\": give NAME=VALUE, such as batch_size=64", option, abridged(printable(text))));
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

void set_by_name(BenchSettings& settings, std::string_view option, const std::string& name,
                 const std::string& text) {
  bool done = false;
  visit_fields([&](const BenchField& field) {
    // Flags take no text, but have one in JSON.
    if (field.key != name || field.type.empty() || field.repeats) return;
    if (is_dataset_field(field)) require_dataset(settings, option);
    field.parse(settings, text);
    done = true;
  });
  if (done) return;
  if (const std::vector<std::string> names = option_names(); std::ranges::count(names, name) == 0)
    throw OptionError(fmt::format("{}: there is no option \"{}\" of a dataset or a loader; they have {}",
                                  option, abridged(printable(name)), fmt::join(names, ", ")));
  const Json one = {{name, value_from_text(fmt::format("{}.{}", option, name), text)}};
  if (is_loader_option(name)) {
    read_options(std::string(option), one, settings.loader);
  } else {
    require_dataset(settings, option);
    read_options(std::string(option), one, settings.dataset);
  }
}

Json to_json(const BenchSettings& settings) {
  // The options that most results are compared by stand first, and always.
  Json json = {{"data", settings.dataset.data},
               {"target", settings.dataset.target},
               {"input_layout", "auto"},
               {"batch_size", nullptr},
               {"shuffle", "sequential"},
               {"cache_bytes", nullptr},
               {"cache_policy", "lru"},
               {"memory_budget_bytes", nullptr},
               {"on_error", "fail"},
               {"max_bad_share", settings.loader.max_bad_share},
               {"normalize", nullptr},
               {"seed", 0}};
  if (settings.mixture) {
    json.erase("data");
    json.erase("target");
    json["mixture"] = options_json(*settings.mixture);
  }
  json.update(options_json(settings.dataset));
  json.update(options_json(settings.loader));
  if (settings.loader.batch_size == 1) json["batch_size"] = 1;  // the library's default
  json.erase("files");
  json.erase("num_workers");
  if (settings.dataset.files.size() > 1)
    json["files"] = options_json(DatasetOptions{.files = settings.dataset.files}).at("files");
  json["runs"] = settings.runs;
  json["warmup"] = settings.warmup;
  json["time_budget_s"] = std::chrono::duration<double>(settings.time_budget).count();
  return json;
}

std::string workers_text(std::int64_t num_workers) {
  return num_workers == kAuto ? "auto" : std::to_string(num_workers);
}

Json workers_json(std::int64_t num_workers) {
  return num_workers == kAuto ? Json("auto") : Json(num_workers);
}

std::int64_t workers_from(const Json& json) {
  return json.is_string() ? kAuto : static_cast<std::int64_t>(count_from(json));
}

std::uint64_t count_from(const Json& json) {
  constexpr double kMost = 9e18;  // casting a larger number, or a negative one, is undefined
  if (!json.is_number_float()) return json.get<std::uint64_t>();
  const double value = json.get<double>();
  return value > 0 ? static_cast<std::uint64_t>(std::min(value, kMost)) : 0;
}

std::int64_t decoding_threads(std::int64_t num_workers) {
  return num_workers == kAuto ? system_limits().cpus : std::max<std::int64_t>(1, num_workers);
}

std::vector<std::string> to_arguments(const RowRequest& request) {
  Json json = {{"dataset", options_json(request.settings.dataset)},
               {"loader", options_json(request.settings.loader)},
               {"time_budget_ns", request.settings.time_budget.count()}};
  if (request.settings.mixture) json["mixture"] = options_json(*request.settings.mixture);
  visit_request(request, [&](const char* key, const auto& value) { json[key] = value; });
  return {to_hex(Json::to_msgpack(json))};  // MessagePack keeps any bytes in texts
}

RowRequest row_request_from(const std::vector<std::string>& arguments) {
  const Json json = Json::from_msgpack(from_hex(arguments.at(0)));
  RowRequest request;
  request.settings.loader = {};
  read_options("dataset", json.at("dataset"), request.settings.dataset);
  if (json.contains("mixture"))
    read_options("mixture", json.at("mixture"), request.settings.mixture.emplace());
  read_options("loader", json.at("loader"), request.settings.loader);
  request.settings.time_budget =
      std::chrono::nanoseconds(json.at("time_budget_ns").get<std::chrono::nanoseconds::rep>());
  visit_request(request, [&](const char* key, auto& value) { json.at(key).get_to(value); });
  return request;
}

DataLoaderOptions loader_options(const BenchSettings& settings, std::int64_t num_workers) {
  DataLoaderOptions options = settings.loader;
  options.num_workers = num_workers;
  options.rank = 0;
  options.world_size = 1;
  // These need workers; a row without them measures the same settings otherwise.
  if (num_workers == 0) {
    options.prefetch_factor.reset();
    options.prefetch_bytes.reset();
    options.io_depth.reset();
    options.timeout.reset();
  }
  if (num_workers != kAuto) options.cpu_limit.reset();
  return options;
}

DataLoaderOptions loader_options(const RowRequest& request) {
  DataLoaderOptions options = loader_options(request.settings, request.num_workers);
  options.rank = request.rank;
  options.world_size = request.world_size;
  if (options.local_world_size == 0) options.local_world_size = request.world_size;
  options.shard = parse_shard("--shard", request.shard);
  return options;
}

}  // namespace h5feed::cli
