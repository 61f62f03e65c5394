// h5feed pack: puts IDX files (MNIST, Fashion-MNIST, …) into one HDF5 file.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_units.hpp"
#include "h5feed/error.hpp"
#include "tools/cli.hpp"
#include "tools/commands.hpp"
#include "tools/idx_file.hpp"
#include "tools/new_file.hpp"
#include "tools/option_text.hpp"
#include "tools/output.hpp"
#include "tools/parallel_write.hpp"
#include "tools/progress.hpp"

namespace h5feed::cli {
namespace {

struct PackArguments {
  std::string out;
  std::vector<std::string> idx;
  std::string chunk = "auto";
  std::string filter;
  bool force = false;
};

// One NAME=FILE.
struct Input {
  std::string path;  // "/train/images"
  IdxFile file;
};

// "train/images" → "/train/images". HDF5 would read ".", "" and ".." its own way.
std::string absolute_path(std::string_view name, const std::string& argument) {
  std::string path;
  while (true) {
    const auto slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    if (!(part.empty() && path.empty())) {
      if (part.empty() || part == "." || part == "..") break;
      path += '/';
      path += part;
    }
    if (slash == std::string_view::npos) {
      if (path.empty()) break;
      return path;
    }
    name.remove_prefix(slash + 1);
  }
  throw OptionError(
      fmt::format("--idx \"{}\": give NAME=FILE, such as train/images=train-images-idx3-ubyte.gz", argument));
}

// Two datasets cannot share a path, and one cannot be the group of another.
void check_paths(const std::vector<Input>& inputs, const std::string& path) {
  for (const Input& other : inputs) {
    if (other.path == path)
      throw OptionError(fmt::format("--idx names {} twice; give each file its own name", path));
    if (other.path.starts_with(path + '/') || path.starts_with(other.path + '/')) {
      throw OptionError(fmt::format("--idx {} and --idx {}: a dataset cannot lie within another; rename one",
                                    other.path.substr(1), path.substr(1)));
    }
  }
}

std::vector<Input> open_inputs(const PackArguments& arguments) {
  std::vector<Input> inputs;
  for (const std::string& argument : arguments.idx) {
    const auto equals = argument.find('=');
    std::string path = absolute_path(
        equals == std::string::npos ? std::string_view() : std::string_view(argument).substr(0, equals),
        argument);
    check_paths(inputs, path);
    if (equals + 1 == argument.size()) {
      throw OptionError(fmt::format("--idx \"{}\": name the IDX file behind the =", argument));
    }
    const std::filesystem::path file = argument.substr(equals + 1);
    std::error_code error;
    if (std::filesystem::equivalent(file, arguments.out, error)) {
      throw OptionError(fmt::format("{} is to be read and to be written; choose another name for the output",
                                    arguments.out));
    }
    inputs.push_back({std::move(path), IdxFile(file)});
  }
  return inputs;
}

NewDataset describe(const Input& input, const PackArguments& arguments) {
  NewDataset dataset{.path = input.path, .dtype = input.file.dtype(), .shape = input.file.shape()};
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
  return dataset;
}

int pack(const PackArguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<Input> inputs = open_inputs(arguments);
  std::vector<NewDataset> datasets;
  std::uint64_t total_bytes = 0;
  for (const Input& input : inputs) {
    datasets.push_back(describe(input, arguments));
    total_bytes += datasets.back().shape.front() * row_bytes(datasets.back());
  }
  NewFile file(arguments.out, arguments.force);
  say(fmt::format("writing {} from {} IDX {}, {} decoded", printable(arguments.out), inputs.size(),
                  inputs.size() == 1 ? "file" : "files", format_bytes(total_bytes)));
  {
    Progress progress(fmt::format("pack {}", printable(arguments.out)), ProgressUnit::bytes,
                      static_cast<double>(total_bytes));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      IdxFile& source = inputs[i].file;
      file.write(
          datasets[i], Production::in_order,
          [&](std::uint64_t, std::uint64_t, std::span<std::byte> out) { source.read(out); }, progress);
      source.expect_end();
    }
  }
  print(file.commit(start));
  return kDone;
}

}  // namespace

void add_pack(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<PackArguments>();
  CLI::App* const command =
      app.add_subcommand("pack", "Put IDX files (MNIST and its kin) into one HDF5 file");
  command->add_option("OUT", arguments->out, "File to write")->required();
  command
      ->add_option("--idx", arguments->idx,
                   "Dataset to write and the IDX file it comes from, plain or gzip; repeat it for each")
      ->required()
      ->type_name("NAME=FILE")
      ->expected(1)
      ->take_all();
  command
      ->add_option("--chunk", arguments->chunk,
                   "Samples per chunk; auto: about 1 MiB, at most 20,000 samples; none: contiguous storage")
      ->capture_default_str()
      ->type_name("N");
  command
      ->add_option(
          "--filter", arguments->filter,
          "none, or [shuffle+]gzip:L|lz4|zstd:L|blosc[:CODEC[:L]]|bitshuffle:lz4|bitshuffle:zstd:L|lzf|"
          "bzip2:L[+fletcher32] [gzip:4]")
      ->type_name("FILTER");
  command->add_flag("--force", arguments->force, "Replace OUT where it exists");
  command->footer(
      "Examples:\n"
      "  h5feed pack fashion.h5 --idx train/images=train-images-idx3-ubyte.gz \\\n"
      "      --idx train/labels=train-labels-idx1-ubyte.gz \\\n"
      "      --idx test/images=t10k-images-idx3-ubyte.gz --idx test/labels=t10k-labels-idx1-ubyte.gz\n"
      "  h5feed pack digits.h5 --idx images=digits.idx3 --chunk 500 --filter shuffle+gzip:6 --force");
  command->callback([arguments, &action] { action = [arguments] { return pack(*arguments); }; });
}

}  // namespace h5feed::cli
