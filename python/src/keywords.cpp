// SPDX-License-Identifier: Apache-2.0
// From the keyword arguments of a call to the options of C++.
#include "python/src/convert.hpp"
#include "python/src/text.hpp"

namespace h5feed::python {

Keywords::Keywords(const nb::dict& given) { given_.update(given); }

nb::object Keywords::pop(const char* name) {
  if (!given_.contains(name)) return {};
  nb::object value = given_[name];
  nb::del(given_[name]);
  return value;
}

void Keywords::finish(const char* function) const {
  for (const auto [name, value] : given_) {
    nb::raise_type_error("%s() got an unexpected keyword argument '%s'", function, shown(name).c_str());
  }
}

DatasetOptions dataset_options(const nb::dict& dict) {
  Keywords given(dict);
  DatasetOptions options;
  given.take("files", options.files);
  given.take("data", options.data);
  given.take("target", options.target);
  given.take("target_files", options.target_files);
  given.take("sample", options.sample);
  given.take("input_layout", options.input_layout);
  given.take("unit_range", options.unit_range);
  given.take("images", options.images);
  given.take("tiles", options.tiles);
  given.take("episodes", options.episodes);
  given.take("window", options.window);
  given.take("channels", options.channels);
  given.take("target_window", options.target_window);
  given.take("sparse", options.sparse);
  given.take("fields", options.fields);
  given.take("stage_dir", options.stage_dir);
  given.finish("Dataset.open");
  return options;
}

void take_loader_options(Keywords& given, DataLoaderOptions& options) {
  given.take("batch_size", options.batch_size);
  given.take("shuffle", options.shuffle);
  WorkerCount workers;
  given.take("num_workers", workers);
  options.num_workers = workers.count;
  given.take("cpu_limit", options.cpu_limit);
  given.take("prefetch_factor", options.prefetch_factor);
  given.take("prefetch_bytes", options.prefetch_bytes);
  given.take("drop_last", options.drop_last);
  given.take("timeout", options.timeout);
  given.take("in_order", options.in_order);
  std::string device = "cpu";
  given.take("device", device);
  options.device = LoaderDevice(device);
  given.take("pin_memory", options.pin_memory);
  given.take("copy_depth", options.copy_depth);
  given.take("output_memory", options.output_memory);
  given.take("seed", options.seed);
  given.take("rank", options.rank);
  given.take("world_size", options.world_size);
  given.take("local_world_size", options.local_world_size);
  given.take("shard", options.shard);
  given.take("uneven", options.uneven);
  given.take("cache_bytes", options.cache_bytes);
  given.take("cache_policy", options.cache_policy);
  given.take("preload", options.preload);
  given.take("memory_budget_bytes", options.memory_budget_bytes);
  given.take("io_depth", options.io_depth);
  given.take("normalize", options.normalize);
  given.take("output_dtype", options.output_dtype);
  given.take("output_layout", options.output_layout);
  given.take("augment", options.augment);
  given.take("echo", options.echo);
  given.take("target_dtype", options.target_dtype);
  given.take("provenance", options.provenance);
  given.take("row_reads", options.row_reads);
  given.take("gpu_cache_bytes", options.gpu_cache_bytes);
  given.take("on_error", options.on_error);
  given.take("max_bad_share", options.max_bad_share);
  given.take("bad_list", options.bad_list);
  given.take("epoch_log", options.epoch_log);
  given.take("headroom", options.headroom);
  given.take("trace_path", options.trace_path);
}

SampleReaderOptions reader_options(const nb::dict& dict) {
  Keywords given(dict);
  SampleReaderOptions options;
  given.take("normalize", options.normalize);
  given.take("unit_range", options.unit_range);
  given.take("target_dtype", options.target_dtype);
  given.take("cache_bytes", options.cache_bytes);
  given.take("memory_budget_bytes", options.memory_budget_bytes);
  given.take("row_reads", options.row_reads);
  given.take("seed", options.seed);
  given.take("epoch", options.epoch);
  given.finish("SampleReader");
  return options;
}

}  // namespace h5feed::python
