// SPDX-License-Identifier: Apache-2.0
// h5feed generate: writes files of any size for trials, tests and measurements.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "base/byte_buffer.hpp"
#include "base/byte_units.hpp"
#include "base/clock.hpp"
#include "h5feed/error.hpp"
#include "store/write/h5_writer.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/commands.hpp"
#include "tools/program/option_text.hpp"
#include "tools/program/output.hpp"
#include "tools/program/progress.hpp"
#include "tools/storage/free_space.hpp"
#include "tools/storage/new_file.hpp"
#include "tools/storage/parallel_write.hpp"
#include "tools/storage/synthetic.hpp"

namespace h5feed::cli {
namespace {

constexpr std::uint64_t kLabelChunkRows = 20'000;

// Options as typed; empty if not given.
struct GenerateArguments {
  std::string out;
  std::string samples;
  std::string kind = "images";
  std::string shape;
  std::string dtype;
  std::string classes = "10";
  std::string ratio;
  std::string low;
  std::string high;
  std::string chunk;
  std::string filter;
  std::string seed = "1";
  bool force = false;
  bool json = false;
};

// Datasets to write.
struct Plan {
  NewDataset data;
  NewDataset labels;
  std::function<void(std::uint64_t sample, std::span<std::byte> out)> fill;
  std::uint64_t seed = 0;
  std::uint64_t classes = 0;
};

void refuse_option(const std::string& value, std::string_view option, std::string_view kind) {
  if (!value.empty()) throw OptionError(fmt::format("{} has no meaning with --kind {}", option, kind));
}

std::string or_default(const std::string& text, const char* standard) {
  return text.empty() ? standard : text;
}

// Sets chunk shape and filters, by the same rule for samples and labels.
void set_storage(NewDataset& dataset, std::uint64_t chunk_rows, const std::string& filter) {
  if (chunk_rows > 0) {
    dataset.chunk_shape = dataset.shape;
    dataset.chunk_shape.front() = std::min(chunk_rows, dataset.shape.front());
  }
  dataset.filters = filters_for(filter, chunk_rows > 0, dataset.dtype);
  check_chunk_size(dataset);
}

Plan make_plan(const GenerateArguments& arguments) {
  Plan plan;
  const bool tokens = arguments.kind == "tokens";
  if (!tokens && arguments.kind != "images") {
    throw OptionError(fmt::format("--kind \"{}\": give images or tokens", arguments.kind));
  }
  constexpr auto kMostSamples = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const std::uint64_t samples = parse_number("--samples", arguments.samples, 1, kMostSamples);
  plan.seed = parse_number("--seed", arguments.seed);
  plan.classes = parse_number("--classes", arguments.classes, 1, std::uint64_t{1} << 32U);
  const auto shape = parse_shape("--shape", or_default(arguments.shape, tokens ? "512" : "3,224,224"));
  plan.data.path = tokens ? "/tokens" : "/images";
  if (tokens) {
    refuse_option(arguments.ratio, "--ratio", arguments.kind);
    plan.data.dtype = parse_dtype("--dtype", or_default(arguments.dtype, "i64"), SyntheticTokens::dtypes());
    const auto content = std::make_shared<const SyntheticTokens>(
        plan.seed, plan.data.dtype, parse_integer("--low", or_default(arguments.low, "100")),
        parse_integer("--high", or_default(arguments.high, "30000")));
    plan.fill = [content](std::uint64_t sample, std::span<std::byte> out) { content->fill(sample, out); };
  } else {
    refuse_option(arguments.low, "--low", arguments.kind);
    refuse_option(arguments.high, "--high", arguments.kind);
    plan.data.dtype = parse_dtype("--dtype", or_default(arguments.dtype, "u8"), SyntheticImages::dtypes());
    const auto content = std::make_shared<const SyntheticImages>(
        plan.seed, shape, plan.data.dtype, plan.classes,
        parse_real("--ratio", or_default(arguments.ratio, "1.5"), 1, 4));
    plan.fill = [content](std::uint64_t sample, std::span<std::byte> out) { content->fill(sample, out); };
  }
  plan.data.shape = {samples};
  plan.data.shape.insert(plan.data.shape.end(), shape.begin(), shape.end());
  const std::uint64_t elements =
      std::accumulate(shape.begin(), shape.end(), std::uint64_t{1}, std::multiplies<>());
  // Divides, so that products beyond 64 bits are refused.
  if (samples > kMostSamples / size_of(plan.data.dtype) / elements) {
    throw OptionError(
        fmt::format("--samples {} of {} {} values each are more than a file can hold; ask for less", samples,
                    format_count(elements), name_of(plan.data.dtype)));
  }
  plan.labels.path = "/labels";
  plan.labels.dtype = plan.classes <= 256 ? DType::u8 : DType::i64;
  plan.labels.shape = {samples};

  const std::uint64_t chunk_rows = *parse_chunk("--chunk", or_default(arguments.chunk, "100"), false);
  if (!arguments.chunk.empty()) refuse_larger_chunk(arguments.chunk, chunk_rows, samples);
  set_storage(plan.data, chunk_rows, arguments.filter);
  set_storage(plan.labels, chunk_rows > 0 ? kLabelChunkRows : 0, arguments.filter);
  return plan;
}

void fill_labels(const Plan& plan, std::uint64_t first, std::uint64_t count, std::span<std::byte> out) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t label = synthetic_label(plan.seed, first + i, plan.classes);
    if (plan.labels.dtype == DType::u8) {
      out[static_cast<std::size_t>(i)] = static_cast<std::byte>(label);
    } else {
      std::memcpy(out.data() + i * sizeof label, &label, sizeof label);
    }
  }
}

void fill_samples(const Plan& plan, std::uint64_t first, std::uint64_t count, std::span<std::byte> out) {
  const auto sample_bytes = static_cast<std::size_t>(row_bytes(plan.data));
  for (std::uint64_t i = 0; i < count; ++i) {
    plan.fill(first + i, out.subspan(static_cast<std::size_t>(i) * sample_bytes, sample_bytes));
  }
}

// Predicts compressed sizes from the first samples; all samples are alike.
SpaceNeed space_for(const Plan& plan) {
  double share = 1;
  if (!plan.data.filters.empty()) {
    const std::uint64_t count =
        std::clamp<std::uint64_t>(kMiB / row_bytes(plan.data), 1, plan.data.shape.front());
    ByteBuffer samples(static_cast<std::size_t>(count * row_bytes(plan.data)));
    fill_samples(plan, 0, count, samples.span());
    share = measure_stored_share(plan.data, samples.span());
  }
  return one_file(saturating_sum(stored_bytes_of(plan.data, share), stored_bytes_of(plan.labels, share)),
                  !plan.data.filters.empty());
}

int generate(const GenerateArguments& arguments) {
  const Plan plan = make_plan(arguments);
  const auto start = Clock::now();
  const std::uint64_t sample_bytes = row_bytes(plan.data);
  NewFile file(arguments.out, arguments.force);
  require_free_space(arguments.out, space_for(plan));
  say(fmt::format("writing {}: {} ({} {}) and {}, {} decoded", printable(arguments.out), plan.data.path,
                  format_shape(plan.data.shape), name_of(plan.data.dtype), plan.labels.path,
                  format_bytes(plan.data.shape.front() * sample_bytes)));
  {
    Progress progress(fmt::format("generate {}", printable(arguments.out)), ProgressUnit::bytes,
                      static_cast<double>(plan.data.shape.front() * (sample_bytes + row_bytes(plan.labels))));
    file.write(
        plan.data, Production::parallel,
        [&](std::uint64_t first, std::uint64_t count, std::span<std::byte> out) {
          fill_samples(plan, first, count, out);
        },
        progress);
    file.write(
        plan.labels, Production::parallel,
        [&](std::uint64_t first, std::uint64_t count, std::span<std::byte> out) {
          fill_labels(plan, first, count, out);
        },
        progress);
  }
  print(file.commit(start, arguments.json));
  return kDone;
}

}  // namespace

void add_generate(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* const command =
      app.add_subcommand("generate", "Write a file of synthetic samples: same seed, same bytes");
  command->add_option("OUT", arguments->out, "File to write")->required();
  command->add_option("--samples", arguments->samples, "Number of samples")->required()->type_name("N");
  command->add_option("--kind", arguments->kind, "images (/images, /labels) or tokens (/tokens, /labels)")
      ->capture_default_str()
      ->type_name("KIND");
  command->add_option("--shape", arguments->shape, "Shape of one sample [3,224,224; tokens: 512]")
      ->type_name("D,D,...");
  command->add_option("--dtype", arguments->dtype, "Images: u8, u16, f32 [u8]; tokens: any integer [i64]")
      ->type_name("TYPE");
  command
      ->add_option("--classes", arguments->classes,
                   "Number of labels, 0 to N-1; stored as u8 up to 256, then as i64")
      ->capture_default_str()
      ->type_name("N");
  command
      ->add_option("--ratio", arguments->ratio,
                   "Images: approximate decoded / stored size under gzip:4, from 1 to 4 [1.5]")
      ->type_name("X");
  command->add_option("--low", arguments->low, "Tokens: lowest value [100]")->type_name("N");
  command->add_option("--high", arguments->high, "Tokens: highest value + 1 [30000]")->type_name("N");
  add_chunk_option(*command, arguments->chunk, "Samples per chunk, or none for contiguous storage [100]");
  add_filter_option(*command, arguments->filter, "gzip:4");
  command->add_option("--seed", arguments->seed, "Same seed, same bytes")
      ->capture_default_str()
      ->type_name("N");
  command->add_flag("--force", arguments->force, "Replace OUT if it exists");
  command->add_flag("--json", arguments->json, "Print JSON instead of text");
  command->footer(
      "Examples:\n"
      "  h5feed generate demo.h5 --samples 2000 --shape 3,64,64\n"
      "  h5feed generate photos.h5 --samples 20000 --ratio 1.2 --chunk 50 --filter shuffle+gzip:1\n"
      "  h5feed generate raw.h5 --samples 20000 --chunk none\n"
      "  h5feed generate text.h5 --kind tokens --samples 100000 --shape 512 --low 100 --high 30000");
  command->callback([arguments, &action] { action = [arguments] { return generate(*arguments); }; });
}

}  // namespace h5feed::cli
