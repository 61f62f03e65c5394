// SPDX-License-Identifier: Apache-2.0
// From the keyword arguments of a call to the options of C++.
#include "h5feed/option_names.hpp"
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
  visit_options(options, [&](const char* name, auto& member) { given.take(name, member); });
  given.finish("Dataset.open");
  return options;
}

void take_loader_options(Keywords& given, DataLoaderOptions& options) {
  WorkerCount workers;
  given.take("num_workers", workers);
  options.num_workers = workers.count;
  visit_options(options, [&](const char* name, auto& member) { given.take(name, member); });
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
