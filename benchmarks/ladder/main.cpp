// SPDX-License-Identifier: Apache-2.0
// Trains one network as one rung of the ladder does, and prints what was measured as JSON. run.py runs all
// rungs in turn, each in a process of its own.
//
//   ladder_rung FILE --rung chunks --num-workers 2
//   ladder_rung FILE --check    ends with an error if a rung could not train on the file, and trains nothing
//   ladder_rung --list          names of the rungs, from the bottom
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>

#include "benchmarks/peers/shared_file.hpp"
#include "examples/program.hpp"
#include "h5feed/error.hpp"
#include "ladder/feed.hpp"
#include "ladder/rungs.hpp"
#include "ladder/settings.hpp"
#include "ladder/training.hpp"

namespace {

using h5feed::ladder::RungText;
using h5feed::ladder::Settings;
using Json = nlohmann::ordered_json;

template <typename Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json measured(const RungText& rung, const Settings& settings) {
  Json answer = {{"rung", rung.name}, {"change", rung.change}};
  if (const std::string why = h5feed::ladder::why_not(rung.rung, settings); !why.empty()) {
    answer["not_run"] = why;
    return answer;
  }
  const h5feed::ladder::Result result = h5feed::ladder::train(rung.rung, settings);
  answer.update({{"device", result.device},
                 {"batch_size", settings.batch_size},
                 {"samples", result.samples},
                 {"fresh_samples", result.fresh},
                 {"steps", result.steps},
                 {"seconds", result.seconds},
                 {"samples_per_s", static_cast<double>(result.samples) / result.seconds},
                 {"epoch_seconds", result.seconds / static_cast<double>(settings.epochs)},
                 {"wait_share", result.wait_seconds / result.seconds},
                 {"first_batch_seconds", result.first_waits},
                 {"cpu_seconds", result.cpu_seconds},
                 {"host_idle_bytes", result.host_idle_bytes},
                 {"host_peak_bytes", result.host_peak_bytes},
                 {"gpu_busy", or_null(result.gpu_busy)},
                 {"device_peak_bytes", or_null(result.device_peak_bytes)},
                 {"gpu_why_not", result.gpu_why_not},
                 {"learning_rate", result.learning_rate},
                 {"loss", result.loss},
                 {"check_sum", result.check_sum}});
  return answer;
}

void print(const std::string& name, const Settings& settings) {
  try {
    std::puts(measured(h5feed::ladder::rung_named(name), settings).dump().c_str());
  } catch (const H5::Exception& error) {
    throw std::runtime_error(settings.file + ": " + error.getCFuncName() + ": " + error.getCDetailMsg());
  }
}

// Makes the loader of the highest rung, which has the options of all.
void check(const Settings& settings) {
  const auto& highest = h5feed::ladder::rungs().back();
  try {
    h5feed::ladder::make_feed(highest.rung, settings, torch::kCPU)->start_epoch(0);
  } catch (const h5feed::Error& error) {
    throw std::runtime_error("rung " + std::string(highest.name) + ": " + error.what());
  }
  std::puts("{}");
}

void list() {
  Json names = Json::array();
  for (const RungText& rung : h5feed::ladder::rungs()) names.push_back(rung.name);
  std::puts(names.dump().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  std::string rung = "naive";
  bool lists = false, checks = false;
  CLI::App app("Trains one network as one rung of the ladder does, and measures it");
  const auto option = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->capture_default_str();
  };
  app.add_flag("--list", lists, "Print the names of the rungs as JSON");
  app.add_flag("--check", checks, "Train nothing; fail if a rung could not train on the file");
  app.add_option("FILE", settings.file, "HDF5 file");
  option("--rung", rung, "Which rung; it includes the changes of all below it");
  option("--data", settings.data, "Dataset of the images, uint8 (N,C,H,W)");
  option("--target", settings.target, "Dataset of the labels");
  option("--model", settings.model, "Network")->check(CLI::IsMember({"cnn", "resnet18", "resnet50"}));
  option("--device", settings.device, "auto, cpu, cuda or cuda:N");
  option("--order", settings.order, "Order from the rung chunks on: chunk:K");
  option("--cache-bytes", settings.cache_bytes, "Cache from the rung chunks on")
      ->transform(CLI::AsSizeValue(false));
  option("--classes", settings.classes, "Number of labels")->check(example::at_least(1));
  option("--epochs", settings.epochs, "Passes over the data")->check(example::at_least(1));
  option("--batch-size", settings.batch_size, "Samples per batch")->check(example::at_least(1));
  option("--num-workers", settings.num_workers, "Threads that read, from the rung workers on")
      ->check(example::at_least(1));
  option("--training-threads", settings.training_threads, "Threads of LibTorch's operators; 0: its choice")
      ->check(example::at_least(0));
  option("--learning-rate", settings.learning_rate, "Step size of SGD for batches of 64; scaled linearly");
  option("--warmup-epochs", settings.warmup_epochs, "Epochs over which the scaled rate is reached")
      ->check(CLI::Range(0.0, 1e6));
  option("--seed", settings.seed, "Governs initial weights and order");
  return example::run_program(app, argc, argv, "ladder_rung", [&] {
    H5::Exception::dontPrint();
    if (lists) return list();
    if (settings.file.empty()) throw h5feed::OptionError("name an HDF5 file");
    checks ? check(settings) : print(rung, settings);
  });
}
