// SPDX-License-Identifier: Apache-2.0
#include "python/src/stats.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "python/src/convert.hpp"
#include "python/src/text.hpp"

namespace h5feed::python {

namespace nb = nanobind;

nb::dict to_dict(const LoaderStats& stats) {
  nb::dict dict;
  dict["batches"] = stats.batches;
  dict["samples"] = stats.samples;
  dict["samples_echoed"] = stats.samples_echoed;
  dict["bytes_delivered"] = stats.bytes_delivered;
  dict["errors"] = stats.errors;
  dict["samples_skipped"] = stats.samples_skipped;
  dict["samples_replaced"] = stats.samples_replaced;
  dict["bad_chunks"] = stats.bad_chunks;
  dict["read_retries"] = stats.read_retries;
  dict["active_workers"] = stats.active_workers;
  dict["prefetched_batches"] = stats.prefetched_batches;
  dict["reads_in_flight"] = stats.reads_in_flight;
  dict["cache_hits"] = stats.cache_hits;
  dict["cache_misses"] = stats.cache_misses;
  dict["chunk_loads"] = stats.chunk_loads;
  dict["read_calls"] = stats.read_calls;
  dict["bytes_read"] = stats.bytes_read;
  dict["bytes_decoded"] = stats.bytes_decoded;
  dict["rows_direct"] = stats.rows_direct;
  dict["fallback_chunks"] = stats.fallback_chunks;
  dict["read_ns"] = stats.read_ns;
  dict["decode_ns"] = stats.decode_ns;
  dict["gather_ns"] = stats.gather_ns;
  dict["transform_ns"] = stats.transform_ns;
  dict["transfer_ns"] = stats.transfer_ns;
  dict["wait_ns"] = stats.wait_ns;
  dict["wait_read_ns"] = stats.wait_read_ns;
  dict["wait_decode_ns"] = stats.wait_decode_ns;
  dict["wait_gather_ns"] = stats.wait_gather_ns;
  dict["wait_transform_ns"] = stats.wait_transform_ns;
  dict["wait_gpu_ns"] = stats.wait_gpu_ns;
  dict["wait_transfer_ns"] = stats.wait_transfer_ns;
  dict["epoch_ns"] = stats.epoch_ns;
  dict["cache_bytes"] = stats.cache_bytes;
  dict["outputs_held_bytes"] = stats.outputs_held_bytes;
  dict["outputs_allocated"] = stats.outputs_allocated;
  dict["in_flight_bytes"] = stats.in_flight_bytes;
  dict["pinned_bytes"] = stats.pinned_bytes;
  dict["pageable_batches"] = stats.pageable_batches;
  dict["cache_hit_rate"] = stats.cache_hit_rate();
  dict["wait_fraction"] = stats.wait_fraction();
  dict["read_amplification"] = stats.read_amplification();
  dict["gpu_cache_hits"] = stats.gpu_cache_hits;
  dict["gpu_cache_bytes"] = stats.gpu_cache_bytes;
  if (stats.gpu_memory) {
    dict["gpu_memory_total"] = stats.gpu_memory->total;
    dict["gpu_memory_free"] = stats.gpu_memory->free;
    dict["gpu_memory_loader"] = stats.gpu_memory->loader;
    dict["gpu_memory_loader_peak"] = stats.gpu_memory->loader_peak;
  }
  return dict;
}

nb::dict to_dict(const ResolvedOptions& options) {
  nb::dict dict;
  dict["batch_size"] = options.batched ? nb::cast(options.batch_size) : nb::object(nb::none());
  dict["shuffle"] = options.shuffle.to_string();
  dict["num_workers"] = options.num_workers;
  dict["self_tuning"] = options.self_tuning;
  dict["cpu_limit"] = options.self_tuning ? nb::cast(options.cpu_limit) : nb::object(nb::none());
  dict["local_world_size"] = options.local_world_size;
  dict["prefetch_batches"] = options.prefetch_batches;
  dict["drop_last"] = options.drop_last;
  dict["timeout"] = options.timeout ? nb::cast(static_cast<double>(options.timeout->count()) / 1000)
                                    : nb::object(nb::none());
  dict["in_order"] = options.in_order;
  dict["seed"] = options.seed;
  dict["rank"] = options.rank;
  dict["world_size"] = options.world_size;
  dict["shard"] = word_of(options.shard);
  dict["uneven"] = word_of(options.uneven);
  dict["provenance"] = options.provenance;
  dict["samples_per_epoch"] = options.samples_per_epoch;
  dict["chunks_per_epoch"] = options.chunks_per_epoch;
  dict["cache_bytes"] = options.cache_bytes;
  dict["cache_policy"] = std::string(name_of(options.cache_policy));
  dict["memory_budget_bytes"] = options.memory_budget_bytes;
  dict["row_reads"] = options.row_reads;
  dict["io_depth"] = options.io_depth;
  dict["echo_factor"] = options.echo_factor;
  dict["concurrent_decodes"] = options.concurrent_decodes;
  return dict;
}

void bind_plan(nb::module_& module) {
  nb::class_<MixedSetPlan>(module, "MixedSetPlan", "What an epoch draws from one set of a mixture.")
      .def_ro("share", &MixedSetPlan::share, "Weight in use, a multiple of 1/4096.")
      .def_ro("samples", &MixedSetPlan::samples, "Samples that an epoch draws from the set, over all ranks.")
      .def_ro("size", &MixedSetPlan::size, "Samples of the set.")
      .def_ro("chunks", &MixedSetPlan::chunks, "Chunks that these samples come from, over all ranks.")
      .def_ro("decodes_per_chunk", &MixedSetPlan::decodes_per_chunk,
              "Expected decodes of each of these chunks in every epoch after the first; None if not known.")
      .def_prop_ro("passes", &MixedSetPlan::passes, "How many times an epoch goes through the set.");
  nb::class_<PlanReport>(module, "PlanReport", "Predicted cost of an epoch, excluding repeats by echo.")
      .def_ro("samples", &PlanReport::samples, "Samples of this rank, at most.")
      .def_ro("batches", &PlanReport::batches, "Batches of this rank.")
      .def_ro("chunks", &PlanReport::chunks, "Chunks that the samples of this rank come from.")
      .def_ro("decodes_per_chunk", &PlanReport::decodes_per_chunk,
              "Expected decodes per chunk in every epoch after the first; None if not known.")
      .def_ro("clairvoyant_decodes_per_chunk", &PlanReport::clairvoyant_decodes_per_chunk,
              "Expected decodes per chunk with cache_policy=\"clairvoyant\"; None if not known.")
      .def_ro("mixing", &PlanReport::mixing,
              "Quality of shuffling: near 0 in file order, 1 for a full shuffle.")
      .def_ro("mixing_with_echo", &PlanReport::mixing_with_echo,
              "mixing / echo: repeats of a batch bring no new samples.")
      .def_ro("echo_factor", &PlanReport::echo_factor, "Deliveries of each batch.")
      .def_ro("cache_bytes", &PlanReport::cache_bytes, "Cache size in use, in bytes.")
      .def_ro("cache_bytes_decode_once", &PlanReport::cache_bytes_decode_once,
              "Smallest cache size in bytes at which each chunk is decoded once per epoch.")
      .def_ro("cache_bytes_fit", &PlanReport::cache_bytes_fit,
              "Smallest cache size in bytes at which later epochs neither read nor decode.")
      .def_ro("sets", &PlanReport::sets, "The sets of a mixture; empty for other datasets.")
      .def("__str__", [](const PlanReport& plan) { return text_of(plan.to_string()); })
      .def("__repr__", [](const PlanReport& plan) { return text_of(plan.to_string()); });
}

}  // namespace h5feed::python
