// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/python.hpp"
#include "base/clock.hpp"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "h5feed/error.hpp"
#include "tools/program/child_process.hpp"
#include "tools/program/table.hpp"

namespace h5feed::cli {
namespace {

constexpr const char* kDebianPython = "/usr/bin/python3";

// Importing PyTorch from a slow disk for the first time takes a while; after this time, something hangs.
constexpr std::chrono::seconds kProbeLimit{120};

std::vector<std::string> missing_modules(const Json& versions) {
  std::vector<std::string> missing;
  for (const char* name : {"torch", "h5py"}) {
    if (versions.at(name).is_null()) missing.emplace_back(name);
  }
  return missing;
}

// Returns what an interpreter can import; nullopt if there is no such interpreter.
std::optional<Python> probe(const std::string& program) {
  const auto begin = Clock::now();
  const ChildResult child =
      run_program(program, {"-c", kPytorchPeerScript, "--versions"}, kProbeLimit, [] {});
  if (child.exit_code == kNoSuchProgram) return std::nullopt;
  if (child.timed_out) {
    throw Error(fmt::format(
        "{} did not report the versions of torch and h5py within {} s; name another: --python PROGRAM",
        printable(program), kProbeLimit.count()));
  }
  const Json versions = Json::parse(child.output, nullptr, false);
  if (child.exit_code != 0 || child.signal != 0 || !versions.is_object()) {
    throw Error(
        fmt::format("{} cannot run the peer; see its message above, or name another: --python PROGRAM",
                    printable(program)));
  }
  return Python{program, versions, Clock::now() - begin};
}

}  // namespace

Python find_python(const std::string& named) {
  std::vector<std::string> candidates = {named};
  if (named.empty()) candidates = {"python3", kDebianPython};
  std::optional<Python> incomplete;
  for (const std::string& program : candidates) {
    const std::optional<Python> found = probe(program);
    if (!found) continue;
    if (missing_modules(found->versions).empty()) return *found;
    if (!incomplete) incomplete = found;
  }
  if (!incomplete) {
    throw Error(
        fmt::format("--peer pytorch: {} was not found; install it: apt-get install python3 "
                    "python3-torch python3-h5py, or name another: --python PROGRAM",
                    printable(candidates.front())));
  }
  const std::vector<std::string> missing = missing_modules(incomplete->versions);
  std::string modules, packages, wheels;
  for (const std::string& name : missing) {
    modules += (modules.empty() ? "" : " and ") + name;
    packages += " python3-" + name;
    wheels += ' ' + name;
  }
  throw Error(
      fmt::format("--peer pytorch: {} has no {}; install it: apt-get install{} (or: {} -m pip install{}), or "
                  "name another: --python PROGRAM",
                  printable(incomplete->program), modules, packages, printable(incomplete->program), wheels));
}

}  // namespace h5feed::cli
