// SPDX-License-Identifier: Apache-2.0
#include "tools/pack/inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "h5feed/error.hpp"
#include "tools/pack/cifar.hpp"
#include "tools/pack/idx_file.hpp"
#include "tools/pack/list.hpp"
#include "tools/pack/npy_file.hpp"
#include "tools/pack/pairs.hpp"

namespace h5feed::cli {
namespace {

constexpr std::size_t kMostDimensions = 32;  // H5S_MAX_RANK

// Returns the absolute path of a name: "train/images" → "/train/images". Refuses ".", "" and "..", which HDF5
// would interpret in its own way.
std::optional<std::string> absolute_path(std::string_view name) {
  std::string path;
  while (true) {
    const auto slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    if (!(part.empty() && path.empty())) {
      if (part.empty() || part == "." || part == "..") return std::nullopt;
      path += '/';
      path += part;
    }
    if (slash == std::string_view::npos) return path.empty() ? std::nullopt : std::optional(path);
    name.remove_prefix(slash + 1);
  }
}

// Two datasets cannot share a path, and one cannot be the group of another.
void check_paths(const std::vector<PackInput>& inputs, const std::string& option, const std::string& path) {
  for (const PackInput& other : inputs) {
    if (other.path == path)
      throw OptionError(fmt::format("{} names {} twice; give each file its own name", option, path));
    if (other.path.starts_with(path + '/') || path.starts_with(other.path + '/')) {
      throw OptionError(fmt::format("{} {} and {} {}: a dataset cannot contain another; rename one",
                                    other.option, other.path.substr(1), option, path.substr(1)));
    }
  }
}

// Opens arrays given as NAME=FILE.
template <typename File>
void open_named(const std::string& option, const std::string& example,
                const std::vector<std::string>& arguments, const std::string& out,
                std::vector<PackInput>& inputs) {
  for (const std::string& argument : arguments) {
    const auto equals = argument.find('=');
    const std::optional<std::string> path = equals == std::string::npos
                                                ? std::nullopt
                                                : absolute_path(std::string_view(argument).substr(0, equals));
    if (!path)
      throw OptionError(fmt::format("{} \"{}\": give NAME=FILE, such as {}", option, argument, example));
    check_paths(inputs, option, *path);
    const std::filesystem::path file = argument.substr(equals + 1);
    if (file.empty())
      throw OptionError(fmt::format("{} \"{}\": name the file after the =", option, argument));
    refuse_output(file, out);
    const auto open = [file] { return std::make_unique<File>(file); };
    inputs.push_back({option, *path, open(), open});
  }
}

void open_cifar_arrays(const std::string& option, const std::vector<std::string>& arguments, CifarKind kind,
                       const std::string& out, std::vector<PackInput>& inputs) {
  refuse_repeated(option, arguments);
  std::vector<std::pair<std::string, std::vector<std::filesystem::path>>> groups;
  for (const std::string& argument : arguments) {
    auto [name, file] = split_name(argument);
    refuse_output(file, out);
    auto group = std::ranges::find(
        groups, name, [](const auto& one) -> auto& { return one.first; });
    if (group == groups.end()) group = groups.insert(groups.end(), {name, {}});
    group->second.emplace_back(file);
  }
  for (const auto& [name, files] : groups) {
    const std::string group = group_path(option, name);
    std::size_t number = 0;
    for (CifarArray& array : open_cifar(files, kind)) {
      const std::string path = fmt::format("{}/{}", group, array.name);
      check_paths(inputs, option, path);
      const auto open = [paths = files, kind, number] {
        return std::move(open_cifar(paths, kind).at(number).source);
      };
      inputs.push_back({option, path, std::move(array.source), open});
      ++number;
    }
  }
}

}  // namespace

void refuse_output(const std::filesystem::path& input, const std::string& out) {
  std::error_code error;
  if (!std::filesystem::equivalent(input, out, error)) return;
  throw OptionError(fmt::format("{} is both input and output; choose another name for the output", out));
}

std::string group_path(const std::string& option, const std::string& group) {
  if (group.empty()) return "";
  const std::optional<std::string> path = absolute_path(group);
  if (!path) throw OptionError(fmt::format("{} {}=...: \"{}\" is no name for a group", option, group, group));
  return *path;
}

std::vector<PackInput> open_arrays(const ArrayArguments& arguments, const std::string& out) {
  std::vector<PackInput> inputs;
  open_named<IdxFile>("--idx", "train/images=train-images-idx3-ubyte.gz", arguments.idx, out, inputs);
  open_named<NpyFile>("--npy", "train/images=x_train.npy", arguments.npy, out, inputs);
  open_cifar_arrays("--cifar10", arguments.cifar10, CifarKind::ten, out, inputs);
  open_cifar_arrays("--cifar100", arguments.cifar100, CifarKind::hundred, out, inputs);
  for (const PackInput& input : inputs) {
    const std::size_t rank = input.source->shape().size();
    if (rank > kMostDimensions) {
      throw OptionError(fmt::format("{} {}: the array has {} dimensions; HDF5 stores at most {}",
                                    input.option, input.path.substr(1), rank, kMostDimensions));
    }
  }
  std::vector<NamedArray> named;
  for (const PackInput& input : inputs) named.push_back({input.option, input.path, input.source->shape()});
  check_pairs(named);
  return inputs;
}

}  // namespace h5feed::cli
