// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/settings.hpp"

namespace h5feed::cli {
namespace {

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

template <typename T>
std::optional<T> optional_from(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return json.get<T>();
}

}  // namespace

Json to_json(const BenchSettings& settings) {
  return {{"file", settings.file},
          {"data", settings.data},
          {"target", settings.target},
          {"input_layout", settings.input_layout},
          {"tile_size", settings.tiles.size},
          {"tile_stride", settings.tiles.stride},
          {"tile_overlap", settings.tiles.overlap},
          {"tile_edges", settings.tiles.edges},
          {"sample", settings.sample.unit},
          {"image_size", settings.sample.image_size},
          {"image_color", settings.sample.image_color},
          {"image_shapes", settings.sample.image_shapes},
          {"batch_size", or_null(settings.batch_size)},
          {"shuffle", settings.shuffle},
          {"cache_bytes", or_null(settings.cache_bytes)},
          {"cache_policy", settings.cache_policy},
          {"memory_budget_bytes", or_null(settings.memory_budget_bytes)},
          {"normalize", settings.normalize},
          {"seed", settings.seed},
          {"runs", settings.runs},
          {"warmup", settings.warmup},
          {"time_budget_s", std::chrono::duration<double>(settings.time_budget).count()}};
}

std::vector<std::string> to_arguments(const RowRequest& request) {
  const Json json = {{"settings", to_json(request.settings)},
                     {"num_workers", request.num_workers},
                     {"quiet", request.quiet},
                     {"cold", request.cold},
                     {"whole_epochs", request.whole_epochs},
                     {"rank", request.rank},
                     {"world_size", request.world_size},
                     {"shard", request.shard}};
  const BenchSettings& settings = request.settings;
  return {json.dump(-1, ' ', false, Json::error_handler_t::replace), settings.file, settings.data,
          settings.target, settings.sample.image_shapes};
}

RowRequest row_request_from(const std::vector<std::string>& arguments) {
  const Json request = Json::parse(arguments.at(0));
  const Json& json = request.at("settings");
  BenchSettings settings{.file = arguments.at(1), .data = arguments.at(2), .target = arguments.at(3)};
  json.at("input_layout").get_to(settings.input_layout);
  json.at("tile_size").get_to(settings.tiles.size);
  json.at("tile_stride").get_to(settings.tiles.stride);
  json.at("tile_overlap").get_to(settings.tiles.overlap);
  json.at("tile_edges").get_to(settings.tiles.edges);
  json.at("sample").get_to(settings.sample.unit);
  json.at("image_size").get_to(settings.sample.image_size);
  json.at("image_color").get_to(settings.sample.image_color);
  settings.sample.image_shapes = arguments.at(4);
  settings.batch_size = optional_from<std::int64_t>(json.at("batch_size"));
  json.at("shuffle").get_to(settings.shuffle);
  settings.cache_bytes = optional_from<std::uint64_t>(json.at("cache_bytes"));
  json.at("cache_policy").get_to(settings.cache_policy);
  settings.memory_budget_bytes = optional_from<std::uint64_t>(json.at("memory_budget_bytes"));
  json.at("normalize").get_to(settings.normalize);
  json.at("seed").get_to(settings.seed);
  json.at("runs").get_to(settings.runs);
  json.at("warmup").get_to(settings.warmup);
  settings.time_budget = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(json.at("time_budget_s").get<double>()));
  return {settings,
          request.at("num_workers").get<std::int64_t>(),
          request.at("quiet").get<bool>(),
          request.at("cold").get<bool>(),
          request.at("whole_epochs").get<bool>(),
          request.at("rank").get<std::int64_t>(),
          request.at("world_size").get<std::int64_t>(),
          request.at("shard").get<std::string>()};
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
                            .num_workers = num_workers,
                            .seed = settings.seed,
                            .cache_bytes = settings.cache_bytes,
                            .cache_policy = parse_cache_policy("--cache-policy", settings.cache_policy),
                            .memory_budget_bytes = settings.memory_budget_bytes};
  if (settings.normalize) options.normalize = Normalize{};
  return options;
}

DataLoaderOptions loader_options(const RowRequest& request) {
  DataLoaderOptions options = loader_options(request.settings, request.num_workers);
  options.rank = request.rank;
  options.world_size = request.world_size;
  options.shard = parse_shard("--shard", request.shard);
  return options;
}

}  // namespace h5feed::cli
